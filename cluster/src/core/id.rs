//! Who a node is, and which of its lives.

use std::fmt;
use std::net::SocketAddr;

use bincode::{Decode, Encode};

/// A node in one of its lives, as membership knows it.
///
/// `generation` names the life and never changes in it; frames are numbered within it. `rank`
/// decides which identity at one address is the newest: it starts at the generation and only ever
/// grows, by one when the cluster has declared this identity down, so an identity never returns to
/// a value it had and a rejoin is decided at the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct NodeId {
    /// Where the node is reached, and what names it among its peers.
    pub addr: SocketAddr,
    /// The life: larger for a later one (nanoseconds of the wall clock at its start).
    pub generation: u64,
    /// Order among identities at one address.
    pub rank: u64,
}

impl NodeId {
    /// The first identity of a life.
    #[must_use]
    pub fn new(addr: SocketAddr, generation: u64) -> Self {
        Self { addr, generation, rank: generation }
    }

    /// An identity that stands for whoever is at `addr`: it loses against every real one.
    pub(super) fn whoever(addr: SocketAddr) -> Self {
        Self { addr, generation: 0, rank: 0 }
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
        let rank = self.rank.checked_add(1)?;
        Some(Self { rank, ..*self })
    }

    fn addr(&self) -> SocketAddr {
        self.addr
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        (self.rank, self.generation) > (adversary.rank, adversary.generation)
    }
}

/// One life of one node: the scope in which its frames and batches are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Origin {
    /// The node's address.
    pub addr: SocketAddr,
    /// Its life.
    pub generation: u64,
}
