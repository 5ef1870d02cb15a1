//! A state transfer under way, at either end.

use std::collections::BTreeMap;

use super::action::LinkId;
use super::change::Change;
use super::delta::KeyId;
use super::host::{Level, ScanPosition};
use super::id::Origin;
use super::time::Nanos;

/// Keys of a state that is taken over, at most: 384 MiB at 24 bytes each.
pub(super) const MAX_STATE_KEYS: usize = 1 << 24;
const _: () = assert!(MAX_STATE_KEYS * size_of::<Level>() == 384 << 20);
/// Chunks with keys of a state that is taken over, at most: what each takes in addition to its keys
/// stays below a twentieth of what all keys take.
const MAX_CHUNKS: usize = 1 << 18;

/// An incoming state.
#[derive(Debug)]
pub(super) struct Pull {
    /// The number of the request, unique in this run of the node.
    pub(super) request: u64,
    pub(super) link: Option<LinkId>,
    pub(super) from: Origin,
    /// When the request is given up, or repeated; or when the next entries are applied.
    pub(super) until: Nanos,
    /// When it is given up though chunks arrive.
    pub(super) ends: Nanos,
    pub(super) vector: Vec<(Origin, u64)>,
    /// When the vector was read, as far as is known.
    pub(super) as_of: Nanos,
    pub(super) progress: Progress,
    pub(super) entries: Entries,
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

/// The entries of a state in the chunks in which they arrived: no step moves or frees all of them.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// Each with the time as of which it is; none is empty.
    chunks: Vec<(Nanos, Vec<Level>)>,
    len: usize,
}

impl Entries {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no more are taken over.
    pub(super) fn is_full(&self) -> bool {
        self.len >= MAX_STATE_KEYS || self.chunks.len() >= MAX_CHUNKS
    }

    pub(super) fn add(&mut self, as_of: Nanos, chunk: Vec<Level>) {
        self.len += chunk.len();
        if !chunk.is_empty() {
            self.chunks.push((as_of, chunk));
        }
    }

    /// Removes the last ones, at most `most`.
    pub(super) fn take(&mut self, most: usize) -> Vec<(Nanos, Level)> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((as_of, chunk)) = self.chunks.last_mut()
        {
            let rest = chunk.len().saturating_sub(most - taken.len());
            taken.extend(chunk.drain(rest..).map(|level| (*as_of, level)));
            self.chunks.pop_if(|(_, chunk)| chunk.is_empty());
        }
        self.len -= taken.len();
        taken
    }
}

/// An outgoing state.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub(super) request: u64,
    /// The part that is read next; `None` when all were read.
    pub(super) next: Option<ScanPosition>,
    pub(super) keys: usize,
    pub(super) in_flight: usize,
    /// When a chunk was acknowledged last, or was sent while none was in flight.
    pub(super) acked_at: Nanos,
    /// Bytes are capped, and the next part waits for room.
    pub(super) waits: bool,
    /// What has changed this node's words since the state's vector was read.
    pub(super) since: BTreeMap<KeyId, i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_taken_from_the_end_each_once() {
        let level = |key| Level { limit: 1, key, debt: 1 };
        let mut entries = Entries::default();
        for (as_of, keys) in [(5, 0..3), (6, 3..3), (7, 3..8)] {
            entries.add(as_of, keys.map(level).collect());
        }
        let mut taken = |most| {
            let taken = entries.take(most).into_iter();
            let taken: Vec<_> = taken.map(|(as_of, level)| (as_of, level.key)).collect();
            (taken, entries.is_empty())
        };
        assert_eq!(taken(2), (vec![(7, 6), (7, 7)], false));
        assert_eq!(taken(4), (vec![(7, 3), (7, 4), (7, 5), (5, 2)], false));
        assert_eq!(taken(9), (vec![(5, 0), (5, 1)], true));
        assert_eq!(taken(1), (vec![], true));
    }
}
