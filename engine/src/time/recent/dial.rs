//! The word that a recent clock's readers load, and how late they may have been.
//!
//! ```text
//!            read: first reader              close: upkeep, or a reader in its stead
//! Closed(t) ------------------------> Open(v) ------------------------> Closing(v)
//!     ^                                                                     |
//!     +---------------------------------------------------------------------+
//!                account: any thread that finds it; records the gap from v to t
//! ```
//!
//! `Open(v)`: readers take `v` as the time. In the other two states they read the source
//! themselves, so none is late.
//!
//! # Why the staleness is never below what a reader saw
//! A reader that returned `v` loaded the word while it was `Open(v)`, so before it became
//! `Closing(v)`. A source reading taken after `Closing(v)` was observed is later than that load,
//! and the gap up to such a reading is recorded before the word leaves `Closing(v)`. Until then
//! [`Dial::staleness`] adds the gap itself. `Open(v)` occurs only once for each `v`, because a
//! closed word opens only with a later reading; so a delayed step finds what it expects or fails.
//! The gap exceeds what readers saw by as much as the reading is late.
//!
//! Readings are points in real time, which memory orderings do not cover: "later" holds as far as a
//! processor does not read its counter ahead of earlier instructions, and is off by less than a
//! microsecond where it does.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | D1 word, any load but D4; open, close | relaxed | none: coherence of the one word makes it monotone for each reader, and its time guards no other memory | - | - |
//! | D2 word, account | release | D4, also by way of later read-modify-writes | D4 overlooks a gap whose end it saw | `dial-account-relaxed` |
//! | D3 staleness | relaxed | ordered before D2 | - | `dial-gap-recorded-too-late` |
//! | D4 word, staleness | acquire | D2 | as D2 | `dial-staleness-relaxed` |

use crossbeam_utils::CachePadded;

use crate::base::sync::{AtomicU64, Ordering};
use crate::time::{Clock, Timestamp};

#[derive(Debug)]
pub(crate) struct Dial {
    /// On its own cache line, which is written twice an interval.
    word: CachePadded<AtomicU64>,
    /// The longest recorded gap in nanoseconds.
    staleness: AtomicU64,
}

impl Dial {
    /// A dial that has not been read.
    pub(crate) fn new(now: Timestamp) -> Self {
        let word = DialWord::new(Phase::Closed, now);
        Self { word: CachePadded::new(AtomicU64::new(word.0)), staleness: AtomicU64::new(0) }
    }

    /// The time, if the source need not be read.
    #[inline]
    pub(crate) fn glance(&self) -> Option<Timestamp> {
        let word = DialWord(self.word.load(Ordering::Relaxed)); // D1
        word.is_open().then(|| word.time())
    }

    /// The time; for the first reader since the dial was closed, a reading of `source`.
    ///
    /// Lock-free: a step is repeated only when another thread has made one.
    pub(crate) fn read(&self, source: &impl Clock) -> Timestamp {
        loop {
            let word = DialWord(self.word.load(Ordering::Relaxed)); // D1
            match word.phase() {
                Phase::Open => return word.time(),
                Phase::Closing => self.account(word, source),
                Phase::Closed => {
                    let open = DialWord::new(Phase::Open, source.now());
                    // Where the source has stepped back, time stands still.
                    if open.time() <= word.time() {
                        return word.time();
                    }
                    // D1
                    if self.replace(word, open, Ordering::Relaxed) {
                        return open.time();
                    }
                }
            }
        }
    }

    /// Makes the next reader read the source.
    pub(crate) fn close(&self, source: &impl Clock) {
        let word = DialWord(self.word.load(Ordering::Relaxed)); // D1
        let closing = DialWord::new(Phase::Closing, word.time());
        match word.phase() {
            Phase::Open if !self.replace(word, closing, Ordering::Relaxed) => {} // D1
            Phase::Open | Phase::Closing => self.account(closing, source),
            Phase::Closed => {}
        }
    }

    /// [`Dial::read`], closing first what has been open for longer than `nanos`.
    pub(crate) fn read_within(&self, nanos: u64, source: &impl Clock) -> Timestamp {
        let late = |time: &Timestamp| source.now().as_nanos().saturating_sub(time.as_nanos());
        if self.glance().is_some_and(|time| late(&time) > nanos) {
            self.close(source);
        }
        self.read(source)
    }

    /// The longest time in nanoseconds by which a reader can have been late so far.
    pub(crate) fn staleness(&self, source: &impl Clock) -> u64 {
        let word = DialWord(self.word.load(Ordering::Acquire)); // D4
        let recorded = self.staleness.load(Ordering::Relaxed); // D3
        match word.phase() {
            Phase::Closed => recorded,
            Phase::Open | Phase::Closing => recorded.max(word.gap_until(source.now())),
        }
    }

    /// Records how late readers of a closing word can have been, and closes it.
    fn account(&self, closing: DialWord, source: &impl Clock) {
        let now = source.now().max(closing.time());
        // D1. Another thread may have closed it: then `now` says nothing about this word's readers.
        if self.word.load(Ordering::Relaxed) == closing.0 {
            self.staleness.fetch_max(closing.gap_until(now), Ordering::Relaxed); // D3
            self.replace(closing, DialWord::new(Phase::Closed, now), Ordering::Release); // D2
        }
    }

    fn replace(&self, from: DialWord, to: DialWord, success: Ordering) -> bool {
        self.word.compare_exchange(from.0, to.0, success, Ordering::Relaxed).is_ok() // D1, D2
    }
}

/// A phase in the two lowest bits, nanoseconds above them: 146 years.
#[derive(Clone, Copy)]
struct DialWord(u64);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open = 0,
    Closing = 1,
    Closed = 2,
}

const PHASE_BITS: u32 = 2;
const PHASE_MASK: u64 = (1 << PHASE_BITS) - 1;

impl DialWord {
    fn new(phase: Phase, time: Timestamp) -> Self {
        Self((time.as_nanos().min(u64::MAX >> PHASE_BITS) << PHASE_BITS) | phase as u64)
    }

    #[inline]
    const fn is_open(self) -> bool {
        self.0 & PHASE_MASK == Phase::Open as u64
    }

    const fn phase(self) -> Phase {
        match self.0 & PHASE_MASK {
            0 => Phase::Open,
            1 => Phase::Closing,
            _ => Phase::Closed,
        }
    }

    #[inline]
    const fn time(self) -> Timestamp {
        Timestamp::from_nanos(self.0 >> PHASE_BITS)
    }

    const fn gap_until(self, now: Timestamp) -> u64 {
        now.as_nanos().saturating_sub(self.time().as_nanos())
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "dial_tests.rs"]
mod tests;
