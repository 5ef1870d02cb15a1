//! Keys from addresses.
//!
//! An IPv4 address is a key; of an IPv6 address the first 64 bits are, the least that a
//! network gives to one customer. An IPv4 address in the form of an IPv6 one is the IPv4 address.

use core::net::{IpAddr, SocketAddr};
use core::str;

use http::Extensions;
use http::header::HeaderName;

use crate::key::{KeyHash, KeyHasher};

use super::super::Head;
use super::{KeyError, KeyExtractor};

/// How many proxies in a row [`forwarded_for`] can trust at most: it bounds the work a request makes.
pub const MAX_TRUSTED_HOPS: usize = 16;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The peer's address as a key: [`peer_address`].
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress<F>(F);

/// The address of whoever is connected, which `find` reads from what the server has attached to the
/// request; [`KeyError::NoPeer`] where there is none. IPv6 addresses count by their first 64 bits.
///
/// Behind a proxy that is the proxy's address: see [`forwarded_for`].
///
/// ```
/// use std::net::SocketAddr;
/// use tidegate_engine::tower::keys;
/// # #[derive(Clone)] struct ConnectInfo<T>(T);
///
/// // axum, served with `into_make_service_with_connect_info::<SocketAddr>()`:
/// let axum = keys::peer_address(|extensions| {
///     extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
/// });
/// // tonic: extensions.get::<TcpConnectInfo>()?.remote_addr().map(|peer| peer.ip())
/// # let _ = axum;
/// ```
pub fn peer_address<F>(find: F) -> PeerAddress<F>
where
    F: Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
{
    PeerAddress(find)
}

impl<F> KeyExtractor for PeerAddress<F>
where
    F: Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
{
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        let peer = (self.0)(head.extensions()).ok_or(KeyError::NoPeer)?;
        Ok(address_key(peer, hasher))
    }
}

/// The client's address as trusted proxies have seen it: [`forwarded_for`].
#[derive(Clone, Copy, Debug)]
pub struct ForwardedFor {
    trusted_hops: usize,
}

/// The client's address from `X-Forwarded-For`, of which the last `trusted_hops` proxies are trusted.
///
/// Each proxy appends the address of whoever is connected to it. With one proxy in front of this
/// server the last entry is what that proxy saw, and all entries before it are what the client
/// claims; with two proxies the last but one counts, and so on. Nothing further to the left is read.
/// The proxies must be the only way to this server: whoever reaches it directly writes the field.
///
/// `trusted_hops` is from 1 to [`MAX_TRUSTED_HOPS`]; with any other number nobody is trusted and
/// every request is [`KeyError::NoPeer`]. Fewer entries than that are [`KeyError::NoKey`], an entry that
/// is empty or not an address (with or without a port) is [`KeyError::Malformed`]. IPv6 addresses count by their
/// first 64 bits. O(`trusted_hops`) entries.
#[must_use]
pub fn forwarded_for(trusted_hops: usize) -> ForwardedFor {
    ForwardedFor { trusted_hops }
}

impl KeyExtractor for ForwardedFor {
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        if !(1..=MAX_TRUSTED_HOPS).contains(&self.trusted_hops) {
            return Err(KeyError::NoPeer);
        }
        // Several fields are one list, in their order.
        let fields = head.headers().get_all(FORWARDED_FOR).into_iter().rev();
        let mut entries = fields.flat_map(|field| field.as_bytes().rsplit(|byte| *byte == b','));
        let entry = entries.nth(self.trusted_hops - 1).ok_or(KeyError::NoKey)?.trim_ascii();
        address(entry).map(|client| address_key(client, hasher)).ok_or(KeyError::Malformed)
    }
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let entry = str::from_utf8(entry).ok()?;
    let bracketed = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let plain = bracketed.unwrap_or(entry).parse().ok();
    plain.or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

fn address_key(address: IpAddr, hasher: &KeyHasher) -> KeyHash {
    match address.to_canonical() {
        IpAddr::V4(address) => hasher.hash_u64(u64::from(address.to_bits())),
        IpAddr::V6(address) => hasher.hash_u128((address.to_bits() >> 64) << 64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_form_of_an_address_is_read() {
        for (entry, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("192.0.2.1:80", Some("192.0.2.1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:80", Some("2001:db8::1")),
            ("unknown", None),
            ("_hidden", None),
            ("192.0.2", None),
            ("192.0.2.1:", None),
            ("[192.0.2.1", None),
        ] {
            let expected = expected.map(|address| address.parse().unwrap());
            assert_eq!(address(entry.as_bytes()), expected, "{entry}");
        }
        assert_eq!(address(b"\xff"), None);
    }

    #[test]
    fn every_ipv6_address_its_own_key_is_not_what_happens() {
        let hasher = KeyHasher::rapid(1);
        let key = |text: &str| address_key(text.parse().unwrap(), &hasher);
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }
}
