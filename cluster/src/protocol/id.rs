//! Identities of nodes.

use std::fmt;
use std::net::SocketAddr;

use bincode::{Decode, Encode};

/// The identity of one run of a node, as membership knows it.
///
/// The `generation` identifies the run and is constant in it; frames are numbered within it. The
/// `rank` decides which identity at one address is the newest: it starts at the generation and only
/// grows, by one each time the cluster has declared this identity down; so no identity is used
/// twice, and the first message of a rejoin decides. SWIM's incarnation, with which a member
/// refutes a suspicion, is kept by foca.
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

/// One generation of one node: the scope in which its frames and batches are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Origin {
    /// The node's address.
    pub addr: SocketAddr,
    /// Its generation.
    pub generation: u64,
}
