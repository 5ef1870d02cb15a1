//! What was applied lately of one other node's batches.

use std::collections::VecDeque;

use super::change::Change;
use super::delta::{Delta, KeyId};
use super::time::{Nanos, SECOND};

/// How long batches are kept: no cut is compared at that is older.
pub(super) const AGE: Nanos = 2 * SECOND;
/// The most deltas that are kept, about 2 MiB.
const MAX_DELTAS: usize = 1 << 16;

/// The last batches of one origin.
#[derive(Debug, Default)]
pub(super) struct Recent {
    batches: VecDeque<AppliedBatch>,
    deltas: usize,
}

#[derive(Debug)]
pub(super) struct AppliedBatch {
    pub(super) number: u64,
    pub(super) at: Nanos,
    /// When it was sealed, on this node's clock.
    pub(super) sealed: i64,
    /// As they were applied, one a key, sorted by limit and key.
    pub(super) deltas: Vec<Delta>,
    /// Keys of changes that were held back, or refused.
    pub(super) late: Vec<KeyId>,
}

impl AppliedBatch {
    /// A batch that has arrived, and of which nothing is applied.
    pub(super) fn new(now: Nanos, number: u64, sealed: i64) -> Self {
        Self { number, at: now, sealed, deltas: Vec::new(), late: Vec::new() }
    }

    /// Adds a change that was applied. Those of one key follow each other, and are one.
    pub(super) fn add(&mut self, delta: Delta) {
        match self.deltas.last_mut() {
            Some(last) if last.id() == delta.id() => last.change = last.change.then(delta.change),
            _ => self.deltas.push(delta),
        }
    }

    fn size(&self) -> usize {
        self.deltas.len() + self.late.len()
    }
}

impl Recent {
    /// Adds the batch that was applied last.
    pub(super) fn push(&mut self, mut seen: AppliedBatch) {
        let now = seen.at;
        seen.deltas.sort_unstable_by_key(Delta::id);
        self.deltas += seen.size();
        self.batches.push_back(seen);
        while let Some(first) = self.batches.front()
            && (first.at.saturating_add(AGE) < now || self.deltas > MAX_DELTAS)
        {
            self.deltas -= first.size();
            self.batches.pop_front();
        }
    }

    /// Whether all batches after `number` up to `last` are kept.
    pub(super) fn reaches(&self, number: u64, last: u64) -> bool {
        number >= last || self.batches.front().is_some_and(|first| first.number <= number + 1)
    }

    /// When the last batch was applied.
    pub(super) fn last_at(&self) -> Option<Nanos> {
        self.batches.back().map(|seen| seen.at)
    }

    /// The batches after `number`, the newest first.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = &AppliedBatch> {
        self.newest().take_while(move |seen| seen.number > number)
    }

    /// The batches, the newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &AppliedBatch> {
        self.batches.iter().rev()
    }
}

/// The change of a key among deltas that are sorted.
pub(super) fn find(deltas: &[Delta], id: KeyId) -> Option<Change> {
    let place = deltas.binary_search_by_key(&id, Delta::id).ok()?;
    deltas.get(place).map(|delta| delta.change)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was given back, and what was consumed after that, comes as two changes.
    #[test]
    fn a_key_has_one_change_in_a_batch() {
        let mut seen = AppliedBatch::new(0, 1, 100);
        let parts: Vec<Change> = Change::new(-70, 130).parts(100).collect();
        assert_eq!(parts.len(), 2);
        for key in [2, 1] {
            for change in &parts {
                seen.add(Delta { limit: 1, key, change: *change });
            }
        }
        let mut recent = Recent::default();
        recent.push(seen);
        let kept = recent.newest().next().map(|seen| find(&seen.deltas, (1, 2)));
        assert_eq!(kept, Some(Some(Change::new(-70, 130))));
    }
}
