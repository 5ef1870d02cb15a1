//! Addresses as keys: the network that one client holds, not the single address it uses.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::base::key::{Key, KeyHash, KeyHasher, ShownKey};

/// The longest IPv6 prefix that names a client, in bits, and [`IpKey`]'s default.
///
/// The lower 64 bits of an IPv6 address are the host's to choose (RFC 4291), so a client that has
/// one address has 2^64 of them.
pub const MAX_IPV6_PREFIX: u8 = 64;

/// The well-known prefix of NAT64, `64:ff9b::/96` (RFC 6052), without the IPv4 address.
const NAT64: u128 = 0x0064_ff9b << 96;

/// A client's address as a key: an IPv4 address, or the IPv6 network around one.
///
/// * IPv4: the whole address, /32.
/// * IPv6: the first 64 bits, or fewer with [`IpKey::ipv6_prefix`]. Providers commonly hand out a
///   /56 or a /48 to one customer, who then has 256 or 65 536 keys of /64.
/// * IPv4 in IPv6 is IPv4: `::ffff:a.b.c.d`, as which a dual-stack socket shows an IPv4 client, and
///   `64:ff9b::a.b.c.d`, as which a translator (NAT64) shows one. Otherwise all of IPv4 would share
///   one key.
///
/// [`Ipv6Addr`] and [`IpAddr`] are not keys themselves: each of a client's 2^64 addresses would
/// have a limit of its own. To limit single IPv6 addresses, for example behind a provider that
/// splits a /64 among customers, `u128::from(address)` is a key.
///
/// ```
/// use std::net::IpAddr;
/// use tidegate_engine::{IpKey, Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_minute(60)).capacity(1_000).build()?;
/// let peer: IpAddr = "2001:db8:1:2::3".parse()?;
/// assert!(limiter.check(IpKey::from(peer)).is_allowed());
/// assert!(limiter.check(IpKey::from(peer).ipv6_prefix(56)).is_allowed());
/// assert_eq!(IpKey::from(peer).to_string(), "2001:db8:1:2::/64");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0277
/// # use tidegate_engine::{Limiter, Quota};
/// let limiter = Limiter::builder(Quota::per_minute(60)).build().unwrap();
/// let _ = limiter.check(std::net::Ipv6Addr::LOCALHOST);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpKey(Network);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Network {
    V4(Ipv4Addr),
    /// The address's first `prefix` bits, the others 0; `prefix` is at most [`MAX_IPV6_PREFIX`].
    V6 {
        bits: u128,
        prefix: u8,
    },
}

impl IpKey {
    /// The network of at most `bits` bits around the address: 64, 56 and 48 are usual. Capped at
    /// [`MAX_IPV6_PREFIX`] and at the key's present prefix: bits that were cut off do not come
    /// back. 0 makes all of IPv6 one key. An IPv4 key stays as it is.
    ///
    /// Networks of different lengths are different keys, even where their bits are the same.
    #[must_use]
    pub const fn ipv6_prefix(self, bits: u8) -> Self {
        match self.0 {
            Network::V4(_) => self,
            Network::V6 { bits: address, prefix } => {
                Self::v6(address, if bits < prefix { bits } else { prefix })
            }
        }
    }

    /// The first address of the network, with the bits beyond the prefix set to 0.
    #[must_use]
    pub const fn network(&self) -> IpAddr {
        match self.0 {
            Network::V4(address) => IpAddr::V4(address),
            Network::V6 { bits, .. } => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        }
    }

    /// The number of significant bits of [`IpKey::network`]: 32 for IPv4, at most
    /// [`MAX_IPV6_PREFIX`] for IPv6.
    #[must_use]
    pub const fn prefix_len(&self) -> u8 {
        match self.0 {
            Network::V4(_) => 32,
            Network::V6 { prefix, .. } => prefix,
        }
    }

    /// `prefix` is at most [`MAX_IPV6_PREFIX`].
    const fn v6(address: u128, prefix: u8) -> Self {
        let mask = if prefix == 0 { 0 } else { u128::MAX << (u128::BITS - prefix as u32) };
        Self(Network::V6 { bits: address & mask, prefix })
    }
}

impl From<Ipv4Addr> for IpKey {
    fn from(address: Ipv4Addr) -> Self {
        Self(Network::V4(address))
    }
}

impl From<Ipv6Addr> for IpKey {
    fn from(address: Ipv6Addr) -> Self {
        let bits = address.to_bits();
        let translated = bits & !u128::from(u32::MAX) == NAT64;
        match address.to_ipv4_mapped() {
            Some(address) => address.into(),
            None if translated => Ipv4Addr::from_bits(bits as u32).into(),
            None => Self::v6(bits, MAX_IPV6_PREFIX),
        }
    }
}

impl From<IpAddr> for IpKey {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => address.into(),
        }
    }
}

/// The address of a peer; its port is not part of the key.
impl From<SocketAddr> for IpKey {
    fn from(address: SocketAddr) -> Self {
        address.ip().into()
    }
}

impl Key for IpKey {
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        // The low 64 bits distinguish the kinds: an IPv6 network has its length there, at most 64,
        // and IPv4 has 0xffff above the address.
        hasher.hash_u128(match self.0 {
            Network::V4(address) => address.to_ipv6_mapped().to_bits(),
            Network::V6 { bits, prefix } => bits | u128::from(prefix),
        })
    }

    fn shown(&self) -> ShownKey<'_> {
        ShownKey::Network(self.network(), self.prefix_len())
    }
}

/// In CIDR notation: `192.0.2.1/32`, `2001:db8::/64`.
impl fmt::Display for IpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), self.prefix_len())
    }
}

impl fmt::Debug for IpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IpKey({self})")
    }
}
