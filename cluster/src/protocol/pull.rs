//! A state transfer under way, at either end.

use std::collections::BTreeMap;

use super::action::LinkId;
use super::change::Change;
use super::delta::{Delta, KeyId};
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
    /// When a chunk was sent last.
    pub(super) sent_at: Nanos,
    /// Bytes are capped, and the next part waits for room.
    pub(super) waits: bool,
    /// When reading goes on, where it has found no keys for a while.
    pub(super) read_at: Option<Nanos>,
    /// By word, what has changed since the state's vector was read; without some of the words that
    /// have been read.
    pub(super) since: BTreeMap<KeyId, i64>,
    /// Some of that found no room.
    pub(super) is_inexact: bool,
}

impl Served {
    /// Notes the change of a word unless it has been read, of `most` words at most; those that have
    /// been read meanwhile make room: a scan takes limits in order. False without room: the
    /// receiver, which receives the change as well, counts it twice.
    pub(super) fn note(&mut self, delta: &Delta, most: usize) -> bool {
        let Some(ScanPosition(limit, _)) = self.next else { return true };
        let (word, debt) = (delta.word_id(), delta.change.debt);
        if word.0 < limit {
            return true;
        }
        if let Some(sum) = self.since.get_mut(&word) {
            *sum = sum.saturating_add(debt);
            return true;
        }
        if self.since.len() >= most {
            let read = self.since.first_entry().filter(|first| first.key().0 < limit);
            let Some(read) = read else { return false };
            read.remove();
        }
        self.since.insert(word, debt);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_words_that_are_not_read_are_noted_where_there_is_room() {
        let delta = |limit, key, debt| Delta { limit, key, change: Change::new(debt, 0) };
        let mut served = Served { next: Some(ScanPosition(2, 0)), ..Served::default() };
        let note = |served: &mut Served, limit, key| served.note(&delta(limit, key, 5), 2);
        // The third finds no room, the first is noted already, the last was read.
        let noted = [(2, 1), (3, 1), (3, 2), (2, 1), (1, 1)];
        let noted = noted.map(|(limit, key)| note(&mut served, limit, key));
        assert_eq!(noted, [true, true, false, true, true]);
        assert_eq!(served.since, [((2, 1), 10), ((3, 1), 5)].into());
        served.next = Some(ScanPosition(3, 0));
        assert!(note(&mut served, 3, 2));
        assert_eq!(served.since, [((3, 1), 5), ((3, 2), 5)].into());
        served.next = None;
        assert!(note(&mut served, 3, 3));
        assert_eq!(served.since.len(), 2);
    }

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
