//! A few integers that change together, read without waiting.
//!
//! A seqlock with two buffers, so that readers never wait. There are two sets of words; the
//! version's lowest bit selects the one to read. A change writes the other set and then raises the
//! version. A reader reads the version again after the words and starts anew if it moved: only then
//! can the change after next have overwritten the set during the read. So a reader repeats only
//! what a completed change made it repeat, and a writer that stops at any step blocks no reader.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | V1 version, first read | acquire | V4 | words from before the change that the version announces | `live-cell-first-read-relaxed` |
//! | V2 words, read | acquire | V3; also keeps V5 behind | a word of the change after next is taken for one of this set, V5 having read the old version | `live-cell-words-relaxed` |
//! | V3 words, written | release | V2; orders the previous raise of the version (V4) before | as V2 | `live-cell-written-relaxed` |
//! | V4 version, raised | release | V1 | as V1 | `live-cell-version-relaxed` |
//! | V5 version, second read | relaxed | ordered after V2 by its acquire | - | `live-cell-read-once` |
//! | V6 version, read by the writer | relaxed | none: the caller serializes changes | - | - |
//! | V7 word, amended | release | V2: what preceded the amendment | - | `live-swept-relaxed` |

use crate::base::sync::{AtomicU64, Ordering};

/// `N` integers. Changed by one thread at a time.
#[derive(Debug)]
pub(super) struct SeqCell<const N: usize> {
    version: AtomicU64,
    sets: [[AtomicU64; N]; 2],
}

impl<const N: usize> SeqCell<N> {
    pub(super) fn new(words: [u64; N]) -> Self {
        Self { version: AtomicU64::new(0), sets: [words, words].map(|set| set.map(AtomicU64::new)) }
    }

    /// The `M` words from number `FIRST` on, all of one change. Lock-free.
    #[inline]
    pub(super) fn read<const FIRST: usize, const M: usize>(&self) -> [u64; M] {
        const { assert!(FIRST + M <= N) };
        loop {
            let version = self.version.load(Ordering::Acquire); // V1
            let set = &self.sets[(version & 1) as usize];
            // V2
            let words = core::array::from_fn(|index| set[FIRST + index].load(Ordering::Acquire));
            // V5
            if self.version.load(Ordering::Relaxed) == version {
                return words;
            }
        }
    }

    /// Replaces all words. The caller serializes writers.
    pub(super) fn write(&self, words: [u64; N]) {
        let version = self.version.load(Ordering::Relaxed).wrapping_add(1); // V6
        for (word, value) in self.sets[(version & 1) as usize].iter().zip(words) {
            word.store(value, Ordering::Release); // V3
        }
        self.version.store(version, Ordering::Release); // V4
    }

    /// Replaces one word; readers see it together with any of the others. The caller serializes
    /// writers.
    pub(super) fn amend(&self, index: usize, value: u64) {
        let version = self.version.load(Ordering::Relaxed); // V6
        self.sets[(version & 1) as usize][index].store(value, Ordering::Release); // V7
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use crate::explore;

    use super::SeqCell;

    /// Explores a reader that reads twice during `changes` consecutive changes: every interleaving,
    /// or those with at most `preemptions` preemptions a run. The reader is spawned: loom runs the
    /// spawning thread first, and finds no other order where the reader's loads come before all
    /// writes of other threads.
    fn explore(changes: u64, preemptions: Option<usize>) {
        explore::explore(preemptions, move || {
            let cell = Arc::new(SeqCell::new([0, 0]));
            let reader = Arc::clone(&cell);
            let reading = thread::spawn(move || {
                let mut seen = 0;
                for _ in 0..2 {
                    let [first, second] = reader.read::<0, 2>();
                    assert_eq!(first, second, "words of different changes");
                    assert!(first >= seen, "an older change was seen later");
                    seen = first;
                }
            });
            for change in 1..=changes {
                cell.write([change, change]);
            }
            reading.join().unwrap();
            assert_eq!(cell.read::<0, 2>(), [changes; 2]);
        });
    }

    #[test]
    fn a_reader_during_a_change() {
        explore(1, None);
    }

    #[test]
    fn a_reader_during_three_changes() {
        explore(3, Some(3));
    }
}
