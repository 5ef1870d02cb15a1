//! The word: units in flight in bits 0 to 31, the limit in bits 32 to 62, and in bit 63 whether somebody waits.

use crate::backoff::Backoff;
use crate::decision::Decision;
use crate::sync::{AtomicU64, Ordering};

use super::MAX_CONCURRENCY;

const LIMIT_SHIFT: u32 = 32;
const IN_FLIGHT_MASK: u64 = (1 << LIMIT_SHIFT) - 1;
const WAITERS: u64 = 1 << 63;

/// Nanoseconds after which a permit may have come back: at any moment.
const AT_ANY_MOMENT: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) fn new(limit: u64) -> Self {
        Self(limit.min(MAX_CONCURRENCY) << LIMIT_SHIFT)
    }

    #[inline]
    pub(super) fn in_flight(self) -> u64 {
        self.0 & IN_FLIGHT_MASK
    }

    #[inline]
    pub(super) fn limit(self) -> u64 {
        (self.0 & !WAITERS) >> LIMIT_SHIFT
    }

    #[inline]
    pub(super) fn has_waiters(self) -> bool {
        self.0 & WAITERS != 0
    }

    pub(super) fn with_waiters(self, waiters: bool) -> Self {
        Self(if waiters { self.0 | WAITERS } else { self.0 & !WAITERS })
    }

    pub(super) fn with_limit(self, limit: u64) -> Self {
        Self(Self::new(limit).0 | (self.0 & (IN_FLIGHT_MASK | WAITERS)))
    }

    #[inline]
    fn remaining(self) -> u64 {
        self.limit().saturating_sub(self.in_flight())
    }

    /// With `cost` more in flight; `None` when that exceeds the limit.
    #[inline]
    pub(super) fn taken(self, cost: u64) -> Option<Self> {
        (cost <= self.remaining()).then(|| Self(self.0 + cost))
    }

    /// As [`Word::taken`], for somebody who passes nobody: `None` also while others wait and the cost is not 0.
    #[inline]
    pub(super) fn taken_by_newcomer(self, cost: u64) -> Option<Self> {
        // With its highest bit, that somebody waits, the limit is a number below 0: one comparison tells both.
        let room = (self.0.cast_signed() >> LIMIT_SHIFT) - self.in_flight().cast_signed();
        let fits = cost == 0 || room > 0 && cost <= room.cast_unsigned();
        fits.then(|| Self(self.0 + cost))
    }

    /// With `cost` less in flight, which have been taken.
    #[inline]
    pub(super) fn returned(self, cost: u64) -> Self {
        debug_assert!(cost <= self.in_flight(), "more came back than was taken");
        Self(self.0 - cost.min(self.in_flight()))
    }

    /// The answer to who has taken `cost` of this.
    #[inline]
    pub(super) fn granted(self, cost: u64) -> Decision {
        Decision::allowed(self.limit(), self.remaining().saturating_sub(cost), 0)
    }

    /// The answer to who was denied `cost`.
    #[inline]
    pub(super) fn denied(self, cost: u64) -> Decision {
        if cost > self.limit() {
            return Decision::never(self.limit(), self.remaining(), 0);
        }
        Decision::denied(self.limit(), self.remaining(), AT_ANY_MOMENT, 0)
    }

    /// The answer to who looks whether `cost` is free.
    pub(super) fn answer(self, cost: u64) -> Decision {
        if cost <= self.remaining() { self.granted(0) } else { self.denied(cost) }
    }
}

/// Replaces the word by what `change` makes of it, and tells what it was; or what it is, if `change` leaves it.
/// For who holds the list's lock, so it does not pause after an exchange that it loses.
#[inline]
pub(super) fn update(
    word: &AtomicU64,
    ordering: Ordering,
    change: impl Fn(Word) -> Option<Word>,
) -> Result<Word, Word> {
    exchange(word, ordering, change, || ())
}

/// As [`update`], for who holds no lock: with a pause after each exchange that it loses.
#[inline]
pub(super) fn update_pausing(
    word: &AtomicU64,
    ordering: Ordering,
    change: impl Fn(Word) -> Option<Word>,
) -> Result<Word, Word> {
    let mut backoff = Backoff::new();
    exchange(word, ordering, change, || backoff = backoff.pause())
}

#[inline]
fn exchange(
    word: &AtomicU64,
    ordering: Ordering,
    change: impl Fn(Word) -> Option<Word>,
    mut lost: impl FnMut(),
) -> Result<Word, Word> {
    loop {
        let found = word.load(Ordering::Relaxed);
        let new = change(Word(found)).ok_or(Word(found))?;
        match word.compare_exchange(found, new.0, ordering, Ordering::Relaxed) {
            Ok(before) => return Ok(Word(before)),
            Err(_) => lost(),
        }
    }
}
