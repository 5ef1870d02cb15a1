//! A state transfer under way, at either end.

use std::collections::BTreeMap;

use super::action::LinkId;
use super::change::Change;
use super::delta::KeyId;
use super::host::{Level, Part};
use super::id::Origin;
use super::time::Nanos;

/// Keys of a state that is taken over, at most: 512 MiB at 32 bytes each.
pub(super) const MAX_STATE_KEYS: usize = 1 << 24;
const _: () = assert!(MAX_STATE_KEYS * size_of::<Entry>() == 512 << 20);

/// An incoming state.
#[derive(Debug)]
pub(super) struct Pull {
    /// The number of the request, unique in this run of the node.
    pub(super) request: u64,
    pub(super) link: Option<LinkId>,
    pub(super) from: Origin,
    /// When the request is given up, or repeated; or when the next entries are applied.
    pub(super) until: Nanos,
    pub(super) vector: Vec<(Origin, u64)>,
    pub(super) progress: Progress,
    pub(super) entries: Vec<Entry>,
}

impl Pull {
    /// Whether all has arrived, and words are being raised.
    pub(super) fn is_applying(&self) -> bool {
        matches!(self.progress, Progress::Applying { .. })
    }
}

/// How far an incoming state is.
#[derive(Debug)]
pub(super) enum Progress {
    /// It has been requested.
    Requested,
    /// Entries arrive.
    Arriving,
    /// All entries have arrived, and are applied; with what this node's words contain beyond them.
    Applying { own: BTreeMap<KeyId, Change> },
}

/// A key's debt, and the time as of which it is.
pub(super) type Entry = (Level, Nanos);

/// An outgoing state.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub(super) request: u64,
    /// The part that is read next; `None` when all were read.
    pub(super) next: Option<Part>,
    pub(super) keys: usize,
    pub(super) in_flight: usize,
    /// Bytes are capped, and the next part waits for room.
    pub(super) waits: bool,
    /// What has changed this node's words since the state's vector was read.
    pub(super) since: BTreeMap<KeyId, i64>,
}
