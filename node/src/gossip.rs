//! The node's side of the cluster: what it tells, and what it asks.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_engine::KeyHash;

/// Which limit a key's debt belongs to, on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitId;

impl LimitId {
    pub const INLINE: Self = Self;

    pub fn named(_name: &str) -> Self {
        Self
    }
}

/// A handle on the cluster, or on nothing for a node that stands alone.
#[derive(Clone, Debug, Default)]
pub struct Gossip;

/// What this node believes about the cluster.
#[derive(Debug)]
pub struct View {
    pub this: String,
    pub members: Vec<Member>,
    pub joining: bool,
}

#[derive(Debug)]
pub struct Member {
    pub id: String,
    pub address: SocketAddr,
    pub state: MemberState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    Alive,
    Suspect,
    Down,
    Left,
}

impl MemberState {
    pub const ALL: [Self; 4] = [Self::Alive, Self::Suspect, Self::Down, Self::Left];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Down => "down",
            Self::Left => "left",
        }
    }
}

impl Gossip {
    pub const fn alone() -> Self {
        Self
    }

    pub const fn is_alone(&self) -> bool {
        true
    }

    /// Where other nodes reach this one; `None` when it stands alone.
    pub const fn address(&self) -> Option<SocketAddr> {
        None
    }

    /// Tells the cluster about an admission. Never waits.
    pub fn record(&self, _limit: LimitId, _key: KeyHash, _debt: Duration) {}

    /// What this node believes about the cluster; `None` when it stands alone.
    pub fn view(&self) -> Option<View> {
        None
    }

    pub fn is_joining(&self) -> bool {
        false
    }

    /// Leaves the cluster in good order, if that takes no longer than `within`.
    pub async fn leave(&self, _within: Duration) {}
}
