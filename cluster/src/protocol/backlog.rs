//! What peers lack that the log no longer keeps.
//!
//! All peers that are behind the log share one backlog: segments of consecutive batches, each with
//! one composed change a key. Invariants:
//! * Segments follow each other without a gap, and the last ends where the log begins.
//! * A number that a peer may stand at (anything from what it has acknowledged to what it was sent)
//!   is the end of a segment or before the first; so what a peer lacks is a whole number of
//!   segments, and no change reaches it twice.
//! * Changes of which nothing is left are dropped, two of them examined with each insertion, so no
//!   call takes longer the more is kept.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::change::Change;
use super::delta::{Delta, KeyId};
use super::discard::Discard;
use super::log::Batch;
use super::time::Nanos;

/// Keys of all segments, at most unless set otherwise: about 80 MiB.
pub(super) const MAX_BACKLOG_KEYS: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Backlog {
    segments: VecDeque<Segment>,
    keys: usize,
    most: usize,
    dropped: u64,
}

#[derive(Debug)]
struct Segment {
    /// The number before its first batch.
    from: u64,
    to: u64,
    /// When its first batch was sealed.
    at: Nanos,
    /// The debt of its batches, as it was consumed.
    debt: i128,
    changes: BTreeMap<KeyId, Change>,
    /// The key that was examined last for being void.
    swept: KeyId,
}

/// Some of what a peer lacks.
#[derive(Debug)]
pub(super) struct BacklogPart {
    pub deltas: Vec<Delta>,
    /// The last key that was considered; `None` when there is none after it.
    pub upto: Option<KeyId>,
}

impl Backlog {
    /// Of at most `most` keys.
    pub(super) fn new(most: usize) -> Self {
        Self { segments: VecDeque::new(), keys: 0, most, dropped: 0 }
    }

    /// Whether all changes of a batch are sure to find room.
    pub(super) fn has_room_for(&self, batch: &Batch) -> bool {
        self.keys + batch.deltas.len() <= self.most
    }

    /// Adds the batch that follows; in a segment of its own if a peer may stand right before it.
    /// `is_void` says of which changes nothing is left.
    pub(super) fn fold(&mut self, batch: &Batch, split: bool, is_void: impl Fn(&Delta) -> bool) {
        let follows = self.segments.back().is_some_and(|last| last.to + 1 == batch.number);
        if split || !follows {
            self.segments.push_back(Segment {
                from: batch.number - 1,
                to: batch.number,
                at: batch.at,
                debt: 0,
                changes: BTreeMap::new(),
                swept: (0, 0),
            });
        }
        let Some(segment) = self.segments.back_mut() else { return };
        segment.to = batch.number;
        segment.debt += batch.debt();
        for delta in &batch.deltas {
            self.keys -= segment.sweep(&is_void);
            if let Some(change) = segment.changes.get_mut(&delta.id()) {
                *change = change.then(delta.change);
            } else if self.keys < self.most {
                segment.changes.insert(delta.id(), delta.change);
                self.keys += 1;
            } else {
                self.dropped += 1;
            }
        }
    }

    /// Discards what every peer has: `lowest` is where the last of them stands.
    pub(super) fn release(&mut self, lowest: Option<u64>, discard: &mut Discard) {
        while let Some(first) = self.segments.front()
            && lowest.is_none_or(|lowest| first.to <= lowest)
            && let Some(first) = self.segments.pop_front()
        {
            self.keys -= first.changes.len();
            discard.changes(first.changes);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// What is kept for a peer that stands at `from`: its debt, as it was consumed, and since when.
    pub(super) fn kept_since(&self, from: u64) -> (i128, Option<Nanos>) {
        let kept = || self.segments.iter().filter(|segment| segment.from >= from);
        (kept().map(|segment| segment.debt).sum(), kept().next().map(|segment| segment.at))
    }

    /// What a peer that stands at `from` lacks up to `to` of the next `most` keys after `after`.
    pub(super) fn part(
        &self,
        (from, to): (u64, u64),
        after: Option<KeyId>,
        most: usize,
        is_void: impl Fn(&Delta) -> bool,
    ) -> BacklogPart {
        let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut upper = Bound::Unbounded;
        let lacking = self.segments.iter().filter(|s| s.from >= from && s.to <= to);
        let mut changes: BTreeMap<KeyId, Change> = BTreeMap::new();
        let mut more = false;
        for segment in lacking {
            let mut taken = 0;
            for (id, change) in segment.changes.range((lower, upper)).take(most) {
                changes.entry(*id).and_modify(|sum| *sum = sum.then(*change)).or_insert(*change);
                taken += 1;
            }
            more |= taken == most;
            // Where there are many segments, most of what they have lies beyond the part.
            if changes.len() >= 2 * most
                && let Some(beyond) = changes.keys().nth(most).copied()
            {
                changes.split_off(&beyond);
                upper = Bound::Excluded(beyond);
                more = true;
            }
        }
        // The first `most` keys are complete: a segment of which more were left out gave as many,
        // and all of them come before what it did not give.
        more |= changes.len() > most;
        let upto = changes.keys().nth(most - 1).copied().filter(|_| more);
        let deltas = changes.into_iter().take(most);
        let deltas = deltas.map(|((limit, key), change)| Delta { limit, key, change });
        BacklogPart { deltas: deltas.filter(|delta| !is_void(delta)).collect(), upto }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

impl Segment {
    /// Examines the next two keys, and drops those of which nothing is left: how many.
    fn sweep(&mut self, is_void: &impl Fn(&Delta) -> bool) -> usize {
        let rest = (Bound::Excluded(self.swept), Bound::Unbounded);
        let mut next = [None; 2];
        for (slot, (id, change)) in next.iter_mut().zip(self.changes.range(rest)) {
            let delta = Delta { limit: id.0, key: id.1, change: *change };
            *slot = Some((*id, is_void(&delta)));
        }
        let mut dropped = 0;
        for (id, void) in next.iter().flatten() {
            dropped += usize::from(*void && self.changes.remove(id).is_some());
        }
        self.swept = next[1].map_or((0, 0), |(id, _)| id);
        dropped
    }
}

#[cfg(test)]
mod tests;
