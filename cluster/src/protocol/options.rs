//! The settings of a [`Core`](super::Core).

use std::net::SocketAddr;
use std::num::NonZeroU64;

use super::backlog::MAX_BACKLOG_KEYS;
use super::bounds::VERSION;
use super::time::{Nanos, SECOND};

/// Settings of a [`Core`](super::Core). Durations are nanoseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of all randomness.
    pub seed: u64,
    /// The key under which nodes hash keys, should this node found a cluster; random.
    pub hash_key: [u8; 16],
    /// The newest version of the wire format to speak, at most that of this build.
    pub newest_version: u16,
    /// Nodes to join (seeds); this node's own address is ignored. Without another one, and where
    /// none is looked up, the node founds a cluster.
    pub join: Vec<SocketAddr>,
    /// More seeds are looked up, and passed to [`Core::seeds`](super::Core::seeds).
    pub looked_up: bool,
    /// After which time a node founds a cluster if no node answers that has joined one: since it
    /// started, was stopped, or had a link to one.
    pub found_after: Nanos,
    /// How long what is recorded is collected, at least, before it is taken.
    pub flush_interval: Nanos,
    /// How long a key that is far from its limit waits to be sent, at most; no longer than half of
    /// the limit's burst tolerance.
    pub max_send_delay: Nanos,
    /// Bytes a second that this node spends on frames and states, at most: without what QUIC and
    /// UDP add. `None` is no cap.
    pub byte_cap: Option<NonZeroU64>,
    /// How long batches wait to be acknowledged together.
    pub ack_within: Nanos,
    /// How much later than twice what is usual a delta may arrive without being reduced by what has
    /// drained since; in any case as late as the limit's burst tolerance.
    pub grace: Nanos,
    /// How long a down member is remembered and dialled, and deltas for it are kept. At least 60 s.
    pub forget_down_after: Nanos,
    /// How long batches are kept for nodes that connect later; fewer when they exceed 2^18 deltas.
    pub log_age: Nanos,
    /// Keys that are kept for nodes that are behind the log, at most.
    pub backlog_keys: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            hash_key: [0; 16],
            newest_version: VERSION,
            join: Vec::new(),
            looked_up: false,
            found_after: 5 * SECOND,
            flush_interval: SECOND / 100,
            max_send_delay: SECOND,
            byte_cap: None,
            ack_within: SECOND / 20,
            grace: SECOND / 50,
            forget_down_after: 7200 * SECOND,
            log_age: 30 * SECOND,
            backlog_keys: MAX_BACKLOG_KEYS,
        }
    }
}
