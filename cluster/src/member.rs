//! Members of the cluster.

use std::net::SocketAddr;

/// A node as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Names one life of the node: its address and, behind a slash, its generation.
    pub id: String,
    /// Where its peers reach it.
    pub addr: SocketAddr,
    /// Whether it is there.
    pub state: MemberState,
}

/// Whether a member is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// It answers.
    Alive,
    /// It has not answered lately; it has a few seconds to object.
    Suspect,
    /// It does not answer. Remembered for two hours, so that a healed partition is noticed.
    Down,
    /// It said goodbye.
    Left,
}
