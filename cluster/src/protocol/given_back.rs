//! What was given back of words around a stop, and by which batches.
//!
//! A level of a node that did not know of it yet would bring it back: it says what a word owed
//! before, and raises this node's word to that.

use std::collections::BTreeMap;

use super::delta::{Delta, KeyId};
use super::id::Origin;

/// How far the words that levels are of contain each origin.
pub(super) type LevelsCut = BTreeMap<Origin, u64>;

/// Words of which it is known, at most: beyond them it holds for all words.
const MAX_WORDS: usize = 1 << 14;

/// By word, the last batch of each origin in which something was given back.
#[derive(Debug, Default)]
pub(super) struct GivenBack {
    words: BTreeMap<KeyId, BTreeMap<Origin, u64>>,
    is_beyond: bool,
}

impl GivenBack {
    /// Something was given back of a word, in a batch of this number or before.
    pub(super) fn add(&mut self, word: KeyId, origin: Origin, number: u64) {
        if self.words.len() >= MAX_WORDS && !self.words.contains_key(&word) {
            self.is_beyond = true;
            return;
        }
        let last = self.words.entry(word).or_default().entry(origin).or_default();
        *last = number.max(*last);
    }

    /// Adds what was given back in a batch that was sealed at `at`.
    pub(super) fn add_batch(&mut self, origin: Origin, number: u64, at: i64, deltas: &[Delta]) {
        for delta in deltas.iter().filter(|delta| delta.change.given_back(at) > 0) {
            self.add(delta.word_id(), origin, number);
        }
    }

    /// Whether a word with this cut lacks something of it.
    pub(super) fn is_lacked_by(&self, word: KeyId, cut: &LevelsCut) -> bool {
        let lacks = |(origin, number): (&Origin, &u64)| {
            cut.get(origin).is_none_or(|through| through < number)
        };
        self.is_beyond || self.words.get(&word).is_some_and(|of| of.iter().any(lacks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_all_words_lack_something() {
        let origin = Origin { addr: ([10, 0, 0, 1], 1).into(), generation: 1 };
        let mut given_back = GivenBack::default();
        for key in 0..MAX_WORDS as u64 {
            given_back.add((1, key), origin, 5);
        }
        let lacked = |given_back: &GivenBack, key, through| {
            given_back.is_lacked_by((1, key), &[(origin, through)].into())
        };
        let known = [(7, 4), (7, 5), (u64::MAX, 0)];
        assert_eq!(known.map(|(k, n)| lacked(&given_back, k, n)), [true, false, false]);
        given_back.add((1, 7), origin, 6);
        assert!(lacked(&given_back, 7, 5) && !lacked(&given_back, u64::MAX, 0));
        given_back.add((1, u64::MAX - 1), origin, 5);
        assert!(lacked(&given_back, u64::MAX, 9));
    }
}
