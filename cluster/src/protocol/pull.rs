//! A state transfer under way, at either end.

use super::action::LinkId;
use super::host::Level;
use super::id::Origin;
use super::time::Nanos;

/// Keys of a state that is taken over, at most: 512 MiB at 32 bytes each.
pub(super) const MAX_STATE_KEYS: u64 = 1 << 24;
const _: () = assert!(MAX_STATE_KEYS * size_of::<Entry>() as u64 == 512 << 20);

/// An incoming state.
#[derive(Debug)]
pub(super) struct Pull {
    /// The number of the request, unique in this run of the node.
    pub(super) request: u64,
    pub(super) link: Option<LinkId>,
    pub(super) from: Origin,
    /// When the request is given up, or repeated.
    pub(super) until: Nanos,
    pub(super) vector: Vec<(Origin, u64)>,
    pub(super) keys: Option<u64>,
    pub(super) entries: Vec<Entry>,
}

/// A key's debt, and the time as of which it is.
pub(super) type Entry = (Level, Nanos);

/// An outgoing state.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) taken_at: Nanos,
    pub(super) rest: std::vec::IntoIter<Level>,
    pub(super) in_flight: usize,
}
