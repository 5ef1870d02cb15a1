//! Rewriting all words, when what their values mean has changed.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | W1 fence | sequentially consistent | C4 of a claimer; orders the change, made before, ahead of W2. As a release fence it also orders it ahead of W3 | a claim that W2 misses is confirmed with a value from before the change | `sweep-without-fence` |
//! | W2 word, read | relaxed | none: W3 fails if it has changed | - | - |
//! | W3 word, rewritten | relaxed | U2, C1, by W1. As a read-modify-write it continues the release sequences of C6 and U5 | - | - |

use crate::base::sync::{Ordering, fence};
use crate::base::word::State;
use crate::rule::live::Words;

use super::Table;
use super::bits::Word;
use super::line::Slot;

impl<S: State> Words for Table<S> {
    fn highest(&self, tat: impl Fn(u64) -> u64) -> u64 {
        let words = self.slots().map(|slot| Word(slot.word.load(Ordering::Relaxed))); // W2
        words.filter(|word| !word.is_claimed()).map(|word| tat(word.value())).max().unwrap_or(0)
    }

    /// Charges that were decided before fail, because their word has another value. So do claims,
    /// because they are withdrawn: one that begins later sees the change (W1). Slots that have
    /// never had a key stay as they are; only a claim charges them.
    fn convert(&self, convert: impl Fn(u64) -> Option<u64>) {
        fence(Ordering::SeqCst); // W1
        for slot in self.slots() {
            slot.convert(&convert);
        }
    }
}

impl<S> Table<S> {
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.lines.all().iter().flat_map(|line| &line.slots)
    }
}

impl Slot {
    fn convert(&self, convert: &impl Fn(u64) -> Option<u64>) {
        let mut word = Word(self.word.load(Ordering::Relaxed)); // W2
        loop {
            let new = if word.is_free() {
                return;
            } else if word.is_claimed() {
                word.withdrawn()
            } else if word.value() == 0 {
                return;
            } else {
                let Some(value) = convert(word.value()) else { return };
                word.with_value(value)
            };
            // W3
            match self.word.compare_exchange(word.0, new.0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => word = Word(found),
            }
        }
    }
}
