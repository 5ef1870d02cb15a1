//! Keys from addresses.
//!
//! They are [`IpKey`](crate::IpKey)s: the network that one client holds, not a single address.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str;

use http::Extensions;
use http::header::HeaderName;

use crate::base::address::{IpKey, MAX_IPV6_PREFIX};
use crate::base::key::{Key as _, KeyHash, KeyHasher};

use super::super::Head;
use super::header::only_value;
use super::{KeyError, KeyExtractor};

/// The most proxies in a row that [`forwarded_for`] can trust; it bounds the work per request.
pub const MAX_TRUSTED_HOPS: usize = 16;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The peer's address as a key: [`peer_address`].
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress<F> {
    find: F,
    prefix: u8,
}

/// The address of the connected peer, which `find` reads from the extensions that the server
/// attached to the request; [`KeyError::NoPeer`] where there is none. The key is its
/// [`IpKey`](crate::IpKey): the first 64 bits of an IPv6 address, or fewer with
/// [`PeerAddress::ipv6_prefix`].
///
/// Behind a proxy that is the proxy's address: see [`forwarded_for`] and [`address`].
///
/// ```
/// # mod axum { pub mod extract { #[derive(Clone)] pub struct ConnectInfo<T>(pub T); } }
/// use std::net::SocketAddr;
///
/// use axum::extract::ConnectInfo;
/// use tidegate_engine::tower::keys;
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
    PeerAddress { find, prefix: MAX_IPV6_PREFIX }
}

impl<F> PeerAddress<F> {
    /// How many bits of an IPv6 address form the key, as with
    /// [`IpKey::ipv6_prefix`](crate::IpKey::ipv6_prefix).
    #[must_use]
    pub fn ipv6_prefix(self, bits: u8) -> Self {
        Self { prefix: bits, ..self }
    }
}

impl<F> KeyExtractor for PeerAddress<F>
where
    F: Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
{
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        let peer = (self.find)(head.extensions()).ok_or(KeyError::NoPeer)?;
        Ok(IpKey::from(peer).ipv6_prefix(self.prefix).hash_with(hasher))
    }
}

/// The client's address as trusted proxies saw it: [`forwarded_for`].
#[derive(Clone, Copy, Debug)]
pub struct ForwardedFor {
    /// From 1 to [`MAX_TRUSTED_HOPS`].
    trusted_hops: usize,
    prefix: u8,
}

/// The client's address from `X-Forwarded-For`, of which the last `trusted_hops` proxies are
/// trusted.
///
/// Each proxy appends the address of its peer. With one proxy in front of this server the last
/// entry is what that proxy saw, and all entries before it are what the client claims; with two
/// proxies the last but one counts, and so on. Nothing further to the left is read. The proxies
/// must be the only way to this server: a client that reaches it directly can write any address.
///
/// Fewer entries than `trusted_hops` are [`KeyError::NoKey`], an entry that is empty or not an
/// address (with or without a port) is [`KeyError::Malformed`]. The key is the address's
/// [`IpKey`](crate::IpKey): the first 64 bits of an IPv6 address, or fewer with
/// [`ForwardedFor::ipv6_prefix`]. Reads O(`trusted_hops`) entries. For a proxy that puts the
/// address into another field, use [`address`].
///
/// # Errors
/// When `trusted_hops` is 0 or above [`MAX_TRUSTED_HOPS`]. Where no proxy is trusted, use
/// [`peer_address`].
pub fn forwarded_for(trusted_hops: usize) -> Result<ForwardedFor, TrustedHopsError> {
    if (1..=MAX_TRUSTED_HOPS).contains(&trusted_hops) {
        Ok(ForwardedFor { trusted_hops, prefix: MAX_IPV6_PREFIX })
    } else {
        Err(TrustedHopsError)
    }
}

/// The number of trusted proxies is 0 or above [`MAX_TRUSTED_HOPS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustedHopsError;

impl fmt::Display for TrustedHopsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trusted proxies must be from 1 to {MAX_TRUSTED_HOPS}")
    }
}

impl core::error::Error for TrustedHopsError {}

impl ForwardedFor {
    /// How many bits of an IPv6 address form the key, as with
    /// [`IpKey::ipv6_prefix`](crate::IpKey::ipv6_prefix).
    #[must_use]
    pub fn ipv6_prefix(self, bits: u8) -> Self {
        Self { prefix: bits, ..self }
    }
}

impl KeyExtractor for ForwardedFor {
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        // Several fields are one list, in their order.
        let fields = head.headers().get_all(FORWARDED_FOR).into_iter().rev();
        let mut entries = fields.flat_map(|field| field.as_bytes().rsplit(|byte| *byte == b','));
        let entry = entries.nth(self.trusted_hops - 1).ok_or(KeyError::NoKey)?.trim_ascii();
        Ok(network(entry, self.prefix)?.hash_with(hasher))
    }
}

/// The client's address from a header field that holds nothing else: [`address`].
#[derive(Clone, Debug)]
pub struct Address {
    name: HeaderName,
    prefix: u8,
}

/// The client's address from a field that a proxy sets to it, such as `X-Real-IP` or
/// `CF-Connecting-IP`.
///
/// The proxy must replace what the client sent in that field, and be the only way to this server:
/// otherwise clients choose their own key.
///
/// No such field is [`KeyError::NoKey`]; a repeated one is [`KeyError::Ambiguous`]; a value that is
/// not an address (with or without a port), or empty, is [`KeyError::Malformed`]. The key is the
/// address's [`IpKey`](crate::IpKey): the first 64 bits of an IPv6 address, or fewer with
/// [`Address::ipv6_prefix`]; under [`header`](super::header()) each address would be a key of its
/// own. O(length).
///
/// ```
/// use http::HeaderName;
/// use tidegate_engine::tower::keys;
///
/// let key = keys::address(HeaderName::from_static("x-real-ip"));
/// # let _ = key;
/// ```
#[must_use]
pub fn address(name: HeaderName) -> Address {
    Address { name, prefix: MAX_IPV6_PREFIX }
}

impl Address {
    /// How many bits of an IPv6 address form the key, as with
    /// [`IpKey::ipv6_prefix`](crate::IpKey::ipv6_prefix).
    #[must_use]
    pub fn ipv6_prefix(self, bits: u8) -> Self {
        Self { prefix: bits, ..self }
    }
}

impl KeyExtractor for Address {
    fn key(&self, head: &Head<'_>, hasher: &KeyHasher) -> Result<KeyHash, KeyError> {
        let value = only_value(head, &self.name)?.trim_ascii();
        Ok(network(value, self.prefix)?.hash_with(hasher))
    }
}

/// The network of the client whose address this is.
fn network(entry: &[u8], prefix: u8) -> Result<IpKey, KeyError> {
    let client = parse(entry).ok_or(KeyError::Malformed)?;
    Ok(IpKey::from(client).ipv6_prefix(prefix))
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
fn parse(entry: &[u8]) -> Option<IpAddr> {
    let entry = str::from_utf8(entry).ok()?;
    let bracketed = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let plain = bracketed.unwrap_or(entry).parse().ok();
    plain.or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()))
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
            assert_eq!(parse(entry.as_bytes()), expected, "{entry}");
        }
        assert_eq!(parse(b"\xff"), None);
    }
}
