//! Members of the cluster.

use std::net::SocketAddr;
use std::time::Duration;

/// A node, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Identifies one run of the node: its address, a slash and its generation in hexadecimal.
    pub id: String,
    /// The address that its peers dial.
    pub addr: SocketAddr,
    /// Whether it is alive.
    pub state: MemberState,
    /// For how long it has been so, as this node saw it; to a quarter of a second.
    pub state_for: Duration,
}

/// Whether a member is alive, in terms of SWIM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// It answers probes.
    Alive,
    /// It has not answered a probe; it is declared down unless it refutes that within seconds.
    Suspect,
    /// It does not answer. Remembered for two hours, so that a healed partition is detected.
    Down,
    /// It announced that it leaves.
    Left,
}
