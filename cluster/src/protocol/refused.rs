//! Words that owe less here than others have reported.
//!
//! What a key of this node's limit cannot owe is refused: it is in the words of others and not in
//! this one. Nodes that have different quotas under one name report such debts to each other all
//! the time, and so does a node that sends what no honest one does. Agreement would take half of
//! the difference from the others' words, and as what they ask this node to owe instead is refused
//! as well, they would admit that anew, again and again. So a word that lacks something is not
//! compared, and no level of it is sent, until what was refused has drained.
//!
//! Words are told apart by their hash, in a table of one size: where another word lacks something
//! that has the same place, one that does not is not compared either.

use super::delta::{KeyId, signed, word_id};
use super::time::{Nanos, SECOND};

/// Places of words: half a megabyte, from the first word that lacks something.
const PLACES: usize = 1 << 16;
/// For how long a word lacks something, at most: it may be reported of years.
const LONGEST: Nanos = 31 * 86_400 * SECOND;

/// Between two reports to an operator, at least.
const REPORTED_EVERY: Nanos = 60 * SECOND;

#[derive(Debug, Default)]
pub(super) struct Refused {
    /// By place, the last TAT of a word with what it lacks; empty until there is one.
    tats: Box<[i64]>,
    /// When the next report to an operator may be made.
    report_at: Nanos,
}

impl Refused {
    /// Of a key that owes `most` this was refused.
    pub(super) fn add(&mut self, now: Nanos, id: KeyId, (most, refused): (Nanos, i64)) {
        if self.tats.is_empty() {
            self.tats = vec![0; PLACES].into();
        }
        if let Some(tat) = self.tats.get_mut(place(id)) {
            let with = (*tat).max(signed(now.saturating_add(most))).saturating_add(refused);
            *tat = with.min(signed(now.saturating_add(LONGEST)));
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
        self.tats.get(place(id)).is_some_and(|tat| *tat > signed(now))
    }
}

/// The place of a word. Keys are hashes already.
fn place(id: KeyId) -> usize {
    let (limit, key) = word_id(id);
    (limit ^ key) as usize % PLACES
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

    /// As where a burst tolerance is made shorter while many keys owe more.
    #[test]
    fn few_words_share_a_place_with_one_that_lacks_something() {
        let mut refused = Refused::default();
        let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
        for n in 0..5_000 {
            refused.add(0, (1, key(n)), (SECOND, 1));
        }
        assert!((0..5_000).all(|n| refused.is_lacking(SECOND, (1, key(n)))));
        let others = (5_000..15_000).filter(|n| refused.is_lacking(SECOND, (1, key(*n)))).count();
        assert!(others < 1_000, "{others} of 10,000");
        assert_eq!(refused.tats.len(), PLACES);
    }
}
