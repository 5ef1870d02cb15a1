//! What a core is told once, at its start.

use std::net::SocketAddr;

use super::Nanos;

const SECOND: Nanos = 1_000_000_000;

/// Settings of a core. Durations are nanoseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seeds the only source of randomness.
    pub seed: u64,
    /// Nodes to ask for membership and state; this node's own address is ignored.
    pub join: Vec<SocketAddr>,
    /// How long [`Core::is_joining`](super::Core::is_joining) stays true when no seed answers. The
    /// join itself goes on in the background.
    pub join_patience: Nanos,
    /// How long a joining node looks for one that is not joining itself.
    pub settled_patience: Nanos,
    /// How far a delta that waited may be late without being reduced by what drained meanwhile.
    pub grace: Nanos,
    /// How long a down member is remembered, dialled, and its deltas kept. At least 60 s.
    pub forget_down_after: Nanos,
    /// How long batches are kept for nodes that connect later.
    pub log_age: Nanos,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            join: Vec::new(),
            join_patience: 5 * SECOND,
            settled_patience: SECOND / 2,
            grace: SECOND,
            forget_down_after: 7200 * SECOND,
            log_age: 30 * SECOND,
        }
    }
}
