//! Identities of nodes.

use std::fmt;
use std::net::SocketAddr;

use bincode::{Decode, Encode};

/// The identity of one run of a node, as membership knows it.
///
/// The `generation` identifies the run and is constant in it; frames are numbered within it. The
/// `rank` decides which identity at one address is the newest: it starts at the generation and only
/// grows (with wrap-around), by one each time the cluster has declared this identity down; so no
/// identity is used twice, and the first message of a rejoin decides. SWIM's incarnation, with
/// which a member refutes a suspicion, is kept by foca.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct NodeId {
    /// The address that peers dial, which identifies the node among them.
    pub addr: SocketAddr,
    /// The run: larger for a later one (nanoseconds of the wall clock at its start).
    pub generation: u64,
    /// Order among identities at one address.
    pub rank: u64,
}

impl NodeId {
    /// The first identity of a run.
    #[must_use]
    pub fn new(addr: SocketAddr, generation: u64) -> Self {
        Self { addr, generation, rank: generation }
    }

    /// An identity for any node at `addr`: it loses against every real one.
    pub(super) fn wildcard(addr: SocketAddr) -> Self {
        Self { addr, generation: 0, rank: 0 }
    }

    /// Whether this identity's rank is ahead of another one, in serial number arithmetic
    /// (RFC 1982): there is no largest rank that would keep an address for ever. That of no real
    /// identity, 0, is ahead of none.
    pub(super) fn outranks(&self, rank: u64) -> bool {
        rank == 0 || self.rank != 0 && self.rank.wrapping_sub(rank).cast_signed() > 0
    }

    pub(super) fn origin(&self) -> Origin {
        Origin { addr: self.addr, generation: self.generation }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:x}", self.addr, self.generation)
    }
}

impl foca::Identity for NodeId {
    type Addr = SocketAddr;

    fn renew(&self) -> Option<Self> {
        Some(Self { rank: self.rank.wrapping_add(1).max(1), ..*self })
    }

    fn addr(&self) -> SocketAddr {
        self.addr
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        if self.rank == adversary.rank {
            self.generation > adversary.generation
        } else {
            self.outranks(adversary.rank)
        }
    }
}

/// One generation of one node: the scope in which its frames and batches are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Origin {
    /// The node's address.
    pub addr: SocketAddr,
    /// Its generation.
    pub generation: u64,
}

#[cfg(test)]
mod tests {
    use foca::Identity as _;

    use super::*;

    #[test]
    fn no_rank_keeps_an_address_for_ever() {
        let addr = SocketAddr::from(([10, 0, 0, 1], 7_381));
        let real = NodeId::new(addr, 1_800_000_000_000_000_000);
        for rank in [1, real.rank, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX] {
            let claimed = NodeId { rank, ..real };
            let next = claimed.renew().unwrap();
            assert!(next.win_addr_conflict(&claimed), "{rank}");
            assert!(!claimed.win_addr_conflict(&next), "{rank}");
            assert!(claimed.win_addr_conflict(&NodeId::wildcard(addr)), "{rank}");
        }
    }
}
