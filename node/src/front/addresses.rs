//! How many connections each address has, where that is bounded.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_engine::IpKey;

/// The open connections of a front-end by address: an IPv4 address, or the network of an IPv6 one.
/// Addresses without a connection are forgotten, so there are at most as many as connections.
#[derive(Debug)]
pub struct Addresses {
    most: NonZeroUsize,
    counts: Arc<ConnectionCounts>,
}

#[derive(Debug, Default)]
struct ConnectionCounts(Mutex<HashMap<IpKey, usize>>);

impl Addresses {
    /// Each may have `most` connections at a time.
    pub fn new(most: NonZeroUsize) -> Self {
        Self { most, counts: Arc::default() }
    }

    /// A permit for one more connection of this peer, until it is dropped; `None` when its address
    /// has as many as it may have.
    pub fn admit(&self, peer: SocketAddr) -> Option<AddressPermit> {
        let address = IpKey::from(peer);
        let mut counts = self.counts.lock();
        // The bound is above 0, so an address that is refused is in the map already.
        let count = counts.entry(address).or_default();
        if *count >= self.most.get() {
            return None;
        }
        *count += 1;
        Some(AddressPermit { address, counts: Arc::clone(&self.counts) })
    }
}

impl ConnectionCounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpKey, usize>> {
        // No panic leaves a count half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's permit among those of its address.
#[derive(Debug)]
pub struct AddressPermit {
    address: IpKey,
    counts: Arc<ConnectionCounts>,
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 1)
    }

    fn two_each() -> Addresses {
        Addresses::new(NonZeroUsize::new(2).unwrap())
    }

    #[test]
    fn a_permit_that_is_dropped_can_be_had_again() {
        let addresses = two_each();
        let first = addresses.admit(peer("192.0.2.1"));
        let second = addresses.admit(peer("192.0.2.1"));
        assert!(first.is_some() && second.is_some());
        assert!(addresses.admit(peer("192.0.2.1")).is_none());
        assert!(addresses.admit(peer("192.0.2.2")).is_some());
        drop(first);
        let third = addresses.admit(peer("192.0.2.1"));
        assert!(third.is_some());
        assert!(addresses.admit(peer("192.0.2.1")).is_none());
        drop((second, third));
        assert!(addresses.counts.lock().is_empty(), "addresses are kept");
    }

    #[test]
    fn an_address_is_that_of_ipv4_or_a_network_of_ipv6() {
        for (one, same, other) in [
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
            ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"),
        ] {
            let addresses = two_each();
            let held = [one, same].map(|address| addresses.admit(peer(address)));
            assert!(held.iter().all(Option::is_some));
            for address in [one, same] {
                assert!(addresses.admit(peer(address)).is_none(), "{address}");
            }
            assert!(addresses.admit(peer(other)).is_some(), "{other}");
        }
    }
}
