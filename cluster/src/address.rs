//! The address of a node, and which ones it can dial.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::seed::canonical;

/// The address that peers dial, of a node that binds `bind`; port 0 where that is the bound one.
///
/// # Errors
/// The address, and why peers cannot dial it.
pub(crate) fn dialled(
    bind: SocketAddr,
    advertise: Option<SocketAddr>,
) -> Result<SocketAddr, (SocketAddr, &'static str)> {
    let addr = canonical(advertise.unwrap_or(bind));
    // Peers get no scope, which would mean something else to them.
    let advertised = SocketAddr::new(addr.ip(), addr.port());
    match undialable(canonical(bind).ip(), advertised) {
        Some(problem) => Err((addr, problem)),
        None => Ok(advertised),
    }
}

/// Why a socket that is bound to `from` cannot dial `to`, at some port; `None` where it can.
pub(crate) fn undialable(from: IpAddr, to: SocketAddr) -> Option<&'static str> {
    match to {
        to if to.ip().is_unspecified() => Some("is unspecified"),
        to if to.ip().is_multicast() => Some("is for multicast"),
        SocketAddr::V4(to) if *to.ip() == Ipv4Addr::BROADCAST => Some("is for broadcast"),
        // Every link of a host has such addresses.
        SocketAddr::V6(to) if to.ip().is_unicast_link_local() && to.scope_id() == 0 => {
            Some("is link-local")
        }
        to if !reaches(from, to.ip()) => Some("is not of the family of the bound one"),
        _ => None,
    }
}

/// Whether a socket that is bound to `from` can send to `to`: one of IPv4 to IPv4 alone, one of all
/// addresses to both.
fn reaches(from: IpAddr, to: IpAddr) -> bool {
    match from {
        IpAddr::V4(_) => to.is_ipv4(),
        IpAddr::V6(from) => to.is_ipv6() || from.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dials(bind: &str, advertise: &str) -> Result<String, &'static str> {
        let advertise = Some(advertise).filter(|addr| !addr.is_empty());
        let advertise = advertise.map(|addr| addr.parse().unwrap());
        let addr = dialled(bind.parse().unwrap(), advertise);
        addr.map(|addr| addr.to_string()).map_err(|(_, problem)| problem)
    }

    #[test]
    fn peers_dial_one_host_that_the_bound_socket_can_answer() {
        let same = |text: &str| Ok(text.to_owned());
        assert_eq!(dials("127.0.0.1:7", ""), same("127.0.0.1:7"));
        assert_eq!(dials("0.0.0.0:7", "192.0.2.1:0"), same("192.0.2.1:0"));
        assert_eq!(dials("[::]:7", "192.0.2.1:8"), same("192.0.2.1:8"));
        assert_eq!(dials("[::]:7", "[2001:db8::1]:8"), same("[2001:db8::1]:8"));
        for (bind, advertise) in
            [("0.0.0.0:7", ""), ("[::]:7", ""), ("127.0.0.1:7", "[::]:7"), ("[::ffff:0:0]:7", "")]
        {
            assert_eq!(dials(bind, advertise), Err("is unspecified"), "{bind} {advertise}");
        }
        for advertise in ["224.0.0.1:7", "239.255.0.1:7"] {
            assert_eq!(dials("0.0.0.0:7", advertise), Err("is for multicast"));
        }
        assert_eq!(dials("[::]:7", "[ff02::1]:7"), Err("is for multicast"));
        assert_eq!(dials("0.0.0.0:7", "255.255.255.255:7"), Err("is for broadcast"));
        for (bind, advertise) in
            [("[fe80::1]:7", ""), ("[fe80::1%2]:7", ""), ("[::]:7", "[febf::1%2]:7")]
        {
            assert_eq!(dials(bind, advertise), Err("is link-local"), "{bind} {advertise}");
        }
        let family = Err("is not of the family of the bound one");
        assert_eq!(dials("0.0.0.0:7", "[2001:db8::1]:7"), family);
        assert_eq!(dials("[2001:db8::1]:7", "192.0.2.1:7"), family);
    }

    #[test]
    fn a_scope_is_of_one_host() {
        assert_eq!(dials("[fd00::1%2]:7", ""), Ok("[fd00::1]:7".to_owned()));
        let from = "fe80::1".parse().unwrap();
        let seed = |text: &str| undialable(from, text.parse().unwrap());
        assert_eq!(seed("[fe80::2%3]:7"), None);
        assert_eq!(seed("[fe80::2]:7"), Some("is link-local"));
    }

    #[test]
    fn an_address_of_ipv4_that_is_written_as_ipv6_is_one_of_ipv4() {
        assert_eq!(dials("[::ffff:127.0.0.1]:7", ""), Ok("127.0.0.1:7".to_owned()));
        assert_eq!(dials("0.0.0.0:7", "[::ffff:192.0.2.1]:7"), Ok("192.0.2.1:7".to_owned()));
        assert_eq!(dials("[::ffff:127.0.0.1]:7", "192.0.2.1:7"), Ok("192.0.2.1:7".to_owned()));
    }
}
