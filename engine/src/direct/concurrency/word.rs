//! The word: units in flight in bits 0 to 31, the limit in bits 32 to 62, and in bit 63 whether
//! there are waiters.

use crate::base::backoff::Backoff;
use crate::base::decision::Decision;
use crate::base::sync::{AtomicU64, Ordering};

/// Maximum limit of a [`Concurrency`](crate::Concurrency), in units: 2^31 - 1.
pub const MAX_CONCURRENCY: u64 = (1 << 31) - 1;

const LIMIT_SHIFT: u32 = 32;
const IN_FLIGHT_MASK: u64 = (1 << LIMIT_SHIFT) - 1;
const WAITERS: u64 = 1 << 63;

/// Nanoseconds until a permit may be returned: at any moment.
const AT_ANY_MOMENT: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PermitWord(pub(super) u64);

impl PermitWord {
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

    /// As [`PermitWord::taken`] for a newcomer, which must not pass waiters: `None` also while
    /// there are waiters and the cost is not 0.
    #[inline]
    pub(super) fn taken_by_newcomer(self, cost: u64) -> Option<Self> {
        // With the waiters bit as sign the limit is negative: one comparison covers both.
        let room = (self.0 as i64 >> LIMIT_SHIFT) - self.in_flight() as i64;
        let fits = cost == 0 || room > 0 && cost <= room as u64;
        fits.then(|| Self(self.0 + cost))
    }

    /// With `cost` units less in flight, which must have been taken.
    #[inline]
    pub(super) fn returned(self, cost: u64) -> Self {
        debug_assert!(cost <= self.in_flight(), "more came back than was taken");
        Self(self.0 - cost.min(self.in_flight()))
    }

    /// The decision for a caller that took `cost` from this word.
    #[inline]
    pub(super) fn granted(self, cost: u64) -> Decision {
        Decision::allowed(self.limit(), self.remaining().saturating_sub(cost), 0)
    }

    /// The decision for a caller that was denied `cost`.
    #[inline]
    pub(super) fn denied(self, cost: u64) -> Decision {
        if cost > self.limit() {
            return Decision::never(self.limit(), self.remaining(), 0);
        }
        Decision::denied(self.limit(), self.remaining(), AT_ANY_MOMENT, 0)
    }

    /// The decision of a peek for `cost`.
    pub(super) fn answer(self, cost: u64) -> Decision {
        if cost <= self.remaining() { self.granted(0) } else { self.denied(cost) }
    }
}

/// Replaces the word by the result of `change` and returns the old one; fails with the current word
/// if `change` returns `None`. For holders of the list's lock: no pause after a lost exchange.
#[inline]
pub(super) fn update(
    word: &AtomicU64,
    ordering: Ordering,
    change: impl Fn(PermitWord) -> Option<PermitWord>,
) -> Result<PermitWord, PermitWord> {
    exchange(word, ordering, change, || ())
}

/// As [`update`] for callers without the lock, with a pause after each lost exchange.
#[inline]
pub(super) fn update_pausing(
    word: &AtomicU64,
    ordering: Ordering,
    change: impl Fn(PermitWord) -> Option<PermitWord>,
) -> Result<PermitWord, PermitWord> {
    let mut backoff = Backoff::new();
    exchange(word, ordering, change, || backoff = backoff.pause())
}

#[inline]
fn exchange(
    word: &AtomicU64,
    ordering: Ordering,
    change: impl Fn(PermitWord) -> Option<PermitWord>,
    mut lost: impl FnMut(),
) -> Result<PermitWord, PermitWord> {
    loop {
        let found = word.load(Ordering::Relaxed); // C3
        let new = change(PermitWord(found)).ok_or(PermitWord(found))?;
        // C1, C2, C4 or C5, as the caller says
        match word.compare_exchange(found, new.0, ordering, Ordering::Relaxed) {
            Ok(before) => return Ok(PermitWord(before)),
            Err(_) => lost(),
        }
    }
}
