//! What was given back of words around a stop, and by which batches.
//!
//! A level of a node that did not know of it yet would bring it back: it says what a word owed
//! before, and raises this node's word to that.

use std::collections::{BTreeMap, BTreeSet};

use super::delta::{Delta, KeyId};
use super::id::Origin;

/// How far the words that levels are of contain each origin.
pub(super) type LevelsCut = BTreeMap<Origin, u64>;

/// Words, each with an origin, of which it is known exactly, at most: about 4 MiB. Of what comes
/// beyond them only the word's place is known, out of 65,536 that all words share.
const MAX_ENTRIES: usize = 1 << 14;

/// By word, the last batch of each origin in which something was given back.
#[derive(Debug, Default)]
pub(super) struct GivenBack {
    words: BTreeMap<KeyId, Vec<(Origin, u64)>>,
    entries: usize,
    /// Places of words of which there was no room to know more.
    beyond: BTreeSet<u16>,
}

impl GivenBack {
    /// Something was given back of a word, in a batch of this number or before.
    pub(super) fn add(&mut self, word: KeyId, origin: Origin, number: u64) {
        let known = self.words.get_mut(&word).into_iter().flatten().find(|(of, _)| *of == origin);
        match known {
            Some((_, last)) => *last = number.max(*last),
            None if self.entries < MAX_ENTRIES => {
                self.words.entry(word).or_default().push((origin, number));
                self.entries += 1;
            }
            None => {
                self.beyond.insert(place(word));
            }
        }
    }

    /// Adds what was given back in a batch that was sealed at `at`.
    pub(super) fn add_batch(&mut self, origin: Origin, number: u64, at: i64, deltas: &[Delta]) {
        for delta in deltas.iter().filter(|delta| delta.change.given_back(at) > 0) {
            self.add(delta.word_id(), origin, number);
        }
    }

    /// Whether a word with this cut lacks something of it, or may.
    pub(super) fn is_lacked_by(&self, word: KeyId, cut: &LevelsCut) -> bool {
        let lacks = |(origin, number): &(Origin, u64)| {
            cut.get(origin).is_none_or(|through| through < number)
        };
        let known = self.words.get(&word).is_some_and(|origins| origins.iter().any(lacks));
        known || self.beyond.contains(&place(word))
    }
}

/// The place of a word, by its key, which is a hash.
fn place((_, key): KeyId) -> u16 {
    key as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_a_word_lacks_something_where_its_place_does() {
        let origin = |place| Origin { addr: ([10, 0, 0, 1], place).into(), generation: 1 };
        let mut given_back = GivenBack::default();
        let lacked = |given_back: &GivenBack, key, through| {
            given_back.is_lacked_by((1, key), &[(origin(1), through)].into())
        };
        for key in 0..MAX_ENTRIES as u64 {
            given_back.add((1, key), origin(1), 5);
        }
        let known = [(7, 4), (7, 5), (1 << 15, 0)];
        assert_eq!(known.map(|(k, n)| lacked(&given_back, k, n)), [true, false, false]);
        // What is known already is known exactly, and what is new takes its place.
        given_back.add((1, 7), origin(1), 6);
        assert!(lacked(&given_back, 7, 5) && !lacked(&given_back, 7, 6));
        given_back.add((1, 1 << 15), origin(1), 5);
        given_back.add((1, 8), origin(2), 5);
        let known = [(1 << 15, 9), (1 << 15 | 1 << 20, 9), (1 << 15 | 1, 0), (8, 9), (9, 9)];
        let expected = [true, true, false, true, false];
        assert_eq!(known.map(|(k, n)| lacked(&given_back, k, n)), expected);
    }
}
