//! Addresses as keys: which addresses share one and which do not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::prelude::*;
use tidegate_engine::Key as _;
use tidegate_engine::key::MAX_IPV6_PREFIX;
use tidegate_engine::{IpKey, KeyHash, KeyHasher, Limiter, ManualClock, Quota};

fn key(address: &str) -> IpKey {
    address.parse::<IpAddr>().unwrap().into()
}

fn hash(key: IpKey) -> KeyHash {
    key.hash_with(&KeyHasher::rapid(7))
}

/// actix-governor #47: a client that has a /64 has as many limits as addresses.
#[test]
fn trap_every_ipv6_address_its_own_key() {
    let limiter = Limiter::builder(Quota::per_hour(5)).capacity(1).clock(ManualClock::new());
    let limiter = limiter.build().unwrap();
    let network = u128::from("2001:db8:1:2::".parse::<Ipv6Addr>().unwrap());
    let allowed = (0..1_000_u64)
        .map(|host| Ipv6Addr::from(network | u128::from(host.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
        .filter(|&address| limiter.check(IpKey::from(address)).is_allowed());
    assert_eq!(allowed.count(), 5);
    assert!(limiter.check(key("2001:db8:1:3::1")).is_allowed(), "another network is another key");
}

#[test]
fn a_dual_stack_client_is_one_key() {
    let v4 = key("192.0.2.33");
    for same in ["::ffff:192.0.2.33", "64:ff9b::192.0.2.33", "64:ff9b::c000:221"] {
        assert_eq!(key(same), v4, "{same}");
        assert_eq!(hash(key(same)), hash(v4));
    }
    let socket: SocketAddr = "[::ffff:192.0.2.33]:443".parse().unwrap();
    assert_eq!(IpKey::from(socket), v4);
    // Other ways to put IPv4 into IPv6 are networks like any other.
    for other in ["::192.0.2.33", "2002:c000:221::1", "64:ff9b:1::c000:221", "64:ff9b::1:c000:221"]
    {
        assert_eq!(key(other).prefix_len(), 64, "{other}");
    }
    assert_eq!(v4.ipv6_prefix(0), v4, "prefixes are for IPv6");
    assert_eq!((v4.prefix_len(), v4.network()), (32, IpAddr::V4(Ipv4Addr::new(192, 0, 2, 33))));
}

#[test]
fn prefixes_end_where_they_say() {
    let all = Ipv6Addr::from_bits(u128::MAX);
    for bits in 0..=MAX_IPV6_PREFIX {
        let whole = IpKey::from(all).ipv6_prefix(bits);
        assert_eq!(whole.prefix_len(), bits);
        let IpAddr::V6(network) = whole.network() else { panic!("{whole}") };
        assert_eq!(network.to_bits().leading_ones(), u32::from(bits));
        assert_eq!(network.to_bits().count_ones(), u32::from(bits));
        // The last bit of the prefix counts, the one after it does not.
        let flipped = |bit: u32| {
            IpKey::from(Ipv6Addr::from_bits(u128::MAX ^ (1 << (127 - bit)))).ipv6_prefix(bits)
        };
        assert_eq!(flipped(u32::from(bits)), whole, "/{bits}");
        assert_eq!(hash(flipped(u32::from(bits))), hash(whole));
        if let Some(last) = bits.checked_sub(1) {
            assert_ne!(flipped(u32::from(last)), whole, "/{bits}");
            assert_ne!(hash(flipped(u32::from(last))), hash(whole));
        }
    }
    for bits in MAX_IPV6_PREFIX..=u8::MAX {
        assert_eq!(IpKey::from(all).ipv6_prefix(bits).prefix_len(), MAX_IPV6_PREFIX);
    }
    assert_eq!(IpKey::from(all).ipv6_prefix(48).ipv6_prefix(56).prefix_len(), 48);
}

#[test]
fn networks_of_different_lengths_are_different_keys() {
    let zero = IpKey::from(Ipv6Addr::UNSPECIFIED);
    let mut hashes: Vec<_> =
        (0..=MAX_IPV6_PREFIX).map(|bits| hash(zero.ipv6_prefix(bits))).collect();
    hashes.push(hash(key("0.0.0.0")));
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
}

#[test]
fn keys_are_written_as_networks() {
    assert_eq!(key("2001:db8:1:2ff:3::4").ipv6_prefix(56).to_string(), "2001:db8:1:200::/56");
    assert_eq!(format!("{:?}", key("192.0.2.1")), "IpKey(192.0.2.1/32)");
}

proptest! {
    #[test]
    fn two_addresses_share_a_key_exactly_when_they_share_the_prefix(
        one in any::<u128>(),
        other in any::<u128>(),
        common in 0_u32..=128,
        bits in 0..=MAX_IPV6_PREFIX,
    ) {
        // Beyond the multicast bit, so no address maps to IPv4.
        let one = one | 1 << 127;
        let mask = u128::MAX.checked_shl(128 - common).unwrap_or(0);
        let other = (one & mask | other & !mask) | 1 << 127;
        let key = |address| IpKey::from(Ipv6Addr::from_bits(address)).ipv6_prefix(bits);
        let same = (one ^ other).leading_zeros() >= u32::from(bits);
        prop_assert_eq!(key(one) == key(other), same);
        prop_assert_eq!(hash(key(one)) == hash(key(other)), same);
    }
}
