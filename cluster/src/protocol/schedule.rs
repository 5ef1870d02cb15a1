//! When the level of which key is sent.
//!
//! A key that changed is sent with the next levels. Then it is sent again and again, after twice
//! the time each time, as long as it is deep in debt: a comparison that was not possible, as after
//! a partition, is made up for, and no difference stays because load has ended.
//!
//! A key has one word, and so one turn, whatever quotas come with its checks; it is sent under the
//! limit that changed it, where a state brought it under none.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::delta::{KeyId, word_id};
use super::time::{Nanos, SECOND};

/// How often a key's level is sent, at most.
pub(super) const LEVELS_EVERY: Nanos = SECOND / 10;
/// How often it is sent of a key that no longer changes, at least: a difference is mended after
/// this time at the latest, if the key drains slower than that.
const MAX_WAIT: Nanos = 60 * SECOND;
/// Keys that wait for another turn, at most: about 400 KiB.
const MAX_WAITING: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct LevelSchedule {
    /// By word.
    waiting: BTreeMap<KeyId, LevelTurn>,
    /// No turn comes before.
    next_at: Nanos,
    /// The word whose level was sent last: those after it are next.
    last: KeyId,
}

#[derive(Clone, Copy, Debug)]
struct LevelTurn {
    limit: u64,
    at: Nanos,
    wait: Nanos,
}

impl LevelSchedule {
    /// A word has changed: its level is due soon.
    pub(super) fn changed(&mut self, now: Nanos, id: KeyId) {
        let (limit, word) = (id.0, word_id(id));
        let known = self.waiting.get(&word).map(|turn| turn.limit);
        if self.waiting.len() < MAX_WAITING || known.is_some() {
            let limit = known.map_or(limit, |known| known.max(limit));
            self.waiting.insert(word, LevelTurn { limit, at: now, wait: LEVELS_EVERY });
            self.next_at = self.next_at.min(now);
        }
    }

    /// Words can be compared that could not be: all levels are due again soon.
    pub(super) fn begin_anew(&mut self, now: Nanos) {
        for turn in self.waiting.values_mut() {
            let at = turn.at.min(now + LEVELS_EVERY);
            *turn = LevelTurn { at, wait: LEVELS_EVERY, ..*turn };
        }
        self.next_at = self.next_at.min(now + LEVELS_EVERY);
    }

    /// When the next turn comes.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        (!self.waiting.is_empty()).then_some(self.next_at)
    }

    /// The keys whose turn it is, and those that changed, in turn: calls `take_turn`, which returns
    /// whether the key goes on to have turns, at most `most` times with true.
    pub(super) fn take(
        &mut self,
        now: Nanos,
        changed: BTreeSet<KeyId>,
        most: usize,
        mut take_turn: impl FnMut(KeyId) -> bool,
    ) {
        // Limits whose ids say more come last.
        let changed: BTreeMap<KeyId, u64> =
            changed.into_iter().map(|id| (word_id(id), id.0)).collect();
        let mut due = changed.clone();
        for (word, turn) in self.waiting.iter().filter(|(_, turn)| turn.at <= now) {
            due.entry(*word).or_insert(turn.limit);
        }
        let after = due.range((Bound::Excluded(self.last), Bound::Unbounded));
        let before = due.range(..=self.last);
        let mut taken = 0;
        for (word, limit) in after.chain(before) {
            if taken == most {
                break;
            }
            if !take_turn((*limit, word.1)) {
                self.waiting.remove(word);
                continue;
            }
            taken += 1;
            self.last = *word;
            let known = if changed.contains_key(word) { None } else { self.waiting.get(word) };
            let wait = known.map_or(LEVELS_EVERY, |turn| (2 * turn.wait).min(MAX_WAIT));
            if self.waiting.len() < MAX_WAITING || self.waiting.contains_key(word) {
                self.waiting.insert(*word, LevelTurn { limit: *limit, at: now + wait, wait });
            }
        }
        self.next_at = self.waiting.values().map(|turn| turn.at).min().unwrap_or(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inline;

    const KEY: KeyId = (1, 1);
    const MS: Nanos = 1_000_000;

    /// The keys whose levels are sent at this time.
    fn taken(turns: &mut LevelSchedule, now: Nanos, most: usize) -> Vec<u64> {
        let mut taken = Vec::new();
        turns.take(now, BTreeSet::new(), most, |(_, key)| {
            taken.push(key);
            true
        });
        taken
    }

    #[test]
    fn a_key_that_no_longer_changes_has_fewer_and_fewer_turns_and_is_never_forgotten() {
        let mut turns = LevelSchedule::default();
        turns.changed(0, KEY);
        let mut at = Vec::new();
        while at.len() < 14 {
            let next = turns.next_at().unwrap();
            assert_eq!(taken(&mut turns, next, 9), [1]);
            at.push(next / (100 * MS));
        }
        let waits: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600, 600]);
        turns.begin_anew(at[13] * 100 * MS);
        assert_eq!(turns.next_at(), Some((at[13] + 1) * 100 * MS));
        turns.take(Nanos::MAX / 2, BTreeSet::new(), 9, |_| false);
        assert_eq!(turns.next_at(), None, "out of debt");
    }

    #[test]
    fn a_word_has_one_turn_under_the_limit_that_says_most() {
        let (mut turns, quota) = (LevelSchedule::default(), inline::id(1_000, 10));
        turns.changed(0, (quota, 1));
        turns.changed(0, (0, 1));
        for changed in [vec![], vec![(0, 1), (quota, 1)]] {
            let mut taken = Vec::new();
            turns.take(200 * MS, changed.into_iter().collect(), 9, |id| {
                taken.push(id);
                true
            });
            assert_eq!(taken, [(quota, 1)]);
        }
    }

    #[test]
    fn keys_take_turns() {
        let mut turns = LevelSchedule::default();
        (1..=5).for_each(|key| turns.changed(0, (1, key)));
        assert_eq!(taken(&mut turns, 0, 2), [1, 2]);
        assert_eq!(taken(&mut turns, 0, 2), [3, 4]);
        assert_eq!(taken(&mut turns, 200 * MS, 3), [5, 1, 2]);
    }
}
