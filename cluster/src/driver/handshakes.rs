//! Which incoming connections may begin a handshake.
//!
//! A handshake takes memory and time before the other side has proven anything, and one that never
//! ends holds its place until it times out. So places are kept: while a quarter is taken, a source
//! address that is not validated is asked to repeat itself with a token (QUIC's Retry, RFC 9000,
//! 8.1.2), which costs this node no memory; and the last quarter is for addresses of nodes that
//! this node knows. Neither packets with forged sources nor strangers that dial and fall silent
//! keep a member out.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | H1 places taken, all accesses | relaxed | none: the accepting task alone adds, so a late decrement refuses one connection more | - | - |

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Incoming connections whose handshake is under way, at most.
const MAX_HANDSHAKES: usize = 64;
/// Of these, from addresses that are not validated.
const MAX_UNVALIDATED: usize = MAX_HANDSHAKES / 4;
/// Of these, from addresses of hosts without a known node.
const MAX_STRANGERS: usize = MAX_HANDSHAKES / 4 * 3;

/// The handshakes that are under way.
#[derive(Debug, Default)]
pub(super) struct Handshakes(Arc<AtomicUsize>);

/// What becomes of an incoming connection.
#[derive(Debug)]
pub(super) enum Admission {
    /// Its handshake begins.
    Place(HandshakePlace),
    /// It has to show first that it receives packets at its address.
    Retry,
    /// There is no place.
    Refuse,
}

/// A handshake under way; gives its place back when dropped.
#[derive(Debug)]
pub(super) struct HandshakePlace(Arc<AtomicUsize>);

impl Handshakes {
    /// Decides about a connection from `from`, whose address may be `validated`; `knows` says
    /// whether a known node is at an address, and is asked only when places are scarce.
    pub(super) fn admit(
        &self,
        from: IpAddr,
        validated: bool,
        knows: impl FnOnce(IpAddr) -> bool,
    ) -> Admission {
        // H1
        let taken = self.0.load(Ordering::Relaxed);
        if taken >= MAX_HANDSHAKES {
            return Admission::Refuse;
        }
        if taken >= MAX_UNVALIDATED && !validated {
            return Admission::Retry;
        }
        if taken >= MAX_STRANGERS && !knows(from) {
            return Admission::Refuse;
        }
        self.0.fetch_add(1, Ordering::Relaxed); // H1
        Admission::Place(HandshakePlace(Arc::clone(&self.0)))
    }
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed); // H1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn take(all: &Handshakes, count: usize, validated: bool, known: bool) -> Vec<HandshakePlace> {
        let place = |_| match all.admit(HOST, validated, |_| known) {
            Admission::Place(place) => Some(place),
            Admission::Retry | Admission::Refuse => None,
        };
        (0..count).map_while(place).collect()
    }

    #[test]
    fn places_are_kept_for_validated_addresses_and_for_known_nodes() {
        let all = Handshakes::default();
        let unvalidated = take(&all, 1_000, false, true);
        assert_eq!(unvalidated.len(), MAX_UNVALIDATED);
        assert!(matches!(all.admit(HOST, false, |_| true), Admission::Retry));
        let strangers = take(&all, 1_000, true, false);
        assert_eq!(unvalidated.len() + strangers.len(), MAX_STRANGERS);
        let known = take(&all, 1_000, true, true);
        assert_eq!(known.len(), MAX_HANDSHAKES - MAX_STRANGERS);
        assert!(matches!(all.admit(HOST, true, |_| true), Admission::Refuse));
        drop(strangers);
        assert_eq!(take(&all, 1, true, false).len(), 1);
    }
}
