//! Words that owe less here than others have reported.
//!
//! What a key of this node's limit cannot owe is refused: it is in the words of others and not in
//! this one. Nodes that have different quotas under one name report such debts to each other all
//! the time, and so does a node that sends what no honest one does. Agreement would take half of
//! the difference from the others' words, and as what they ask this node to owe instead is refused
//! as well, they would admit that anew, again and again. So a word that lacks something is not
//! compared, and no level of it is sent, until what was refused has drained.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::delta::{KeyId, signed, word_id};
use super::time::{Nanos, SECOND};

/// Words of which it is known, at most; beyond them it holds for all words of a limit.
const MAX_WORDS: usize = 1 << 12;
/// For how long a word lacks something, at most: it may be reported of years.
const LONGEST: Nanos = 31 * 86_400 * SECOND;

/// Between two reports to an operator, at least.
const REPORTED_EVERY: Nanos = 60 * SECOND;

#[derive(Debug, Default)]
pub(super) struct Refused {
    /// The TAT of each word with what it lacks.
    words: FxHashMap<KeyId, i64>,
    /// By limit the last of those for which there was no room.
    limits: BTreeMap<u64, i64>,
    /// When the next report to an operator may be made.
    report_at: Nanos,
}

impl Refused {
    /// Of a key that owes `most` this was refused.
    pub(super) fn add(&mut self, now: Nanos, id: KeyId, (most, refused): (Nanos, i64)) {
        let word = word_id(id);
        let with = |tat: i64| {
            let tat = tat.max(signed(now.saturating_add(most))).saturating_add(refused);
            tat.min(signed(now.saturating_add(LONGEST)))
        };
        if let Some(tat) = self.words.get_mut(&word) {
            *tat = with(*tat);
            return;
        }
        if self.words.len() >= MAX_WORDS {
            self.words.retain(|_, tat| *tat > signed(now));
        }
        let tat = with(0);
        if self.words.len() < MAX_WORDS {
            self.words.insert(word, tat);
        } else {
            let last = self.limits.entry(word.0).or_insert(tat);
            *last = tat.max(*last);
        }
    }

    /// Whether to report to an operator that something was refused; once.
    pub(super) fn is_to_be_reported(&mut self, now: Nanos) -> bool {
        let is_due = self.report_at <= now;
        if is_due {
            self.report_at = now.saturating_add(REPORTED_EVERY);
        }
        is_due
    }

    /// Whether others know of debt of a key's word that was refused here.
    pub(super) fn is_lacking(&self, now: Nanos, id: KeyId) -> bool {
        let word = word_id(id);
        let is_left = |tat: &i64| *tat > signed(now);
        self.words.get(&word).is_some_and(is_left) || self.limits.get(&word.0).is_some_and(is_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_lacks_what_is_refused_until_that_has_drained() {
        let (mut refused, id) = (Refused::default(), (1, 7));
        assert!(!refused.is_lacking(0, id));
        refused.add(SECOND, id, (10 * SECOND, signed(5 * SECOND)));
        refused.add(2 * SECOND, id, (10 * SECOND, signed(5 * SECOND)));
        assert!(refused.is_lacking(21 * SECOND - 1, id) && !refused.is_lacking(21 * SECOND, id));
        assert!(!refused.is_lacking(3 * SECOND, (1, 8)) && !refused.is_lacking(3 * SECOND, (2, 7)));
        refused.add(22 * SECOND, id, (0, i64::MAX));
        let end = 22 * SECOND + LONGEST;
        assert!(refused.is_lacking(end - 1, id) && !refused.is_lacking(end, id));
    }

    #[test]
    fn without_room_all_words_of_a_limit_lack_something() {
        let mut refused = Refused::default();
        for key in 0..=MAX_WORDS as u64 {
            refused.add(0, (1, key), (SECOND, 1));
        }
        assert!(refused.is_lacking(SECOND, (1, u64::MAX)) && !refused.is_lacking(0, (2, 0)));
        assert_eq!((refused.words.len(), refused.limits.len()), (MAX_WORDS, 1));
        refused.add(2 * SECOND, (2, 1), (SECOND, 1));
        assert!(refused.is_lacking(2 * SECOND, (2, 1)), "what has drained makes room");
        assert!(!refused.is_lacking(2 * SECOND, (2, 2)) && !refused.is_lacking(2 * SECOND, (1, 1)));
    }
}
