//! One count a period: the algorithm of fixed and calendar windows.
//!
//! ```text
//! value (59)   period | count
//! ```
//!
//! A cost is admitted if the sum of count and cost is at most the limit. When a period is over, its
//! count has expired.

use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::word::{State, Update};
use crate::rule::algorithm::{Algorithm, Saves};
use crate::rule::quota::QuotaError;
use crate::rule::saved::{SavedState, SnapshotKind};
use crate::time::Timestamp;

use super::{Periods, count_bits, instant, largest};

/// A limit on what is admitted in each period.
#[derive(Clone, Copy, Debug)]
pub struct Count<P> {
    periods: P,
    limit: u64,
    /// Bits of the count.
    bits: u32,
}

/// What a key has been charged in a period.
#[derive(Clone, Copy)]
struct Counted {
    period: u64,
    count: u64,
}

impl<P: Periods> Count<P> {
    pub(crate) fn new(periods: P, limit: u64) -> Result<Self, QuotaError> {
        Ok(Self { periods, limit, bits: count_bits(&periods, limit, 1)? })
    }

    #[inline]
    fn unpack(&self, value: u64) -> Counted {
        Counted { period: value >> self.bits, count: value & largest(self.bits) }
    }

    #[inline]
    fn pack(&self, Counted { period, count }: Counted) -> u64 {
        (period << self.bits) | count
    }

    /// The period and count in force at `now`.
    #[inline]
    fn counted(&self, value: u64, now: u64) -> Counted {
        let counted = self.unpack(value);
        if self.periods.end(counted.period) > now {
            return counted;
        }
        Counted { period: self.periods.at(now), count: 0 }
    }

    /// The answer to a peek, or to a check that was denied.
    #[inline]
    fn unchanged(&self, value: u64, now: u64, cost: u64) -> Decision {
        let Counted { period, count } = self.counted(value, now);
        let remaining = self.limit.saturating_sub(count);
        let reset = self.fresh_from(value).saturating_sub(now);
        if cost > self.limit {
            return Decision::never(self.limit, remaining, reset);
        }
        if cost == 0 && count <= self.limit {
            return Decision::allowed(self.limit, remaining, reset);
        }
        Decision::denied(self.limit, remaining, self.periods.end(period) - now, reset)
    }
}

impl<P: Periods> State for Count<P> {
    /// A key that has been charged nothing in its period is fresh from the period's beginning.
    #[inline]
    fn fresh_from(&self, value: u64) -> u64 {
        let Counted { period, count } = self.unpack(value);
        if count == 0 { self.periods.start(period) } else { self.periods.end(period) }
    }
}

impl<P: Periods> Algorithm for Count<P> {
    type State = Self;

    fn state(&self) -> Self {
        *self
    }

    #[inline]
    fn instant(&self, now: Timestamp) -> u64 {
        instant(now)
    }

    #[inline]
    fn admit(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        // A cost above the limit can never fit, and could wrap the sum.
        if cost > self.limit {
            return None;
        }
        let Counted { period, count } = self.counted(value, now);
        let count = count + cost;
        (count <= self.limit).then(|| self.pack(Counted { period, count }))
    }

    fn charge(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let Counted { period, count } = self.counted(value, now);
        let raised = count.saturating_add(cost).min(largest(self.bits));
        (raised > count).then(|| self.pack(Counted { period, count: raised }))
    }

    fn refund(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        let Counted { period, count } = self.counted(value, now);
        let lowered = count.saturating_sub(cost);
        (lowered < count).then(|| self.pack(Counted { period, count: lowered }))
    }

    /// The count of a later period does not include that charge.
    fn give_back(&self, value: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        let counts = self.counted(value, now).period == self.unpack(charged).period;
        if counts { self.refund(value, now, cost) } else { None }
    }

    fn reset(&self, value: u64, now: u64) -> Option<u64> {
        let fresh = Counted { period: self.periods.at(now), count: 0 };
        (self.fresh_from(value) > now).then(|| self.pack(fresh))
    }

    #[inline]
    fn can_fit(&self, cost: u64) -> bool {
        cost <= self.limit
    }

    #[inline]
    fn answer(&self, update: Update, cost: u64) -> Decision {
        match update {
            Update::Written { before, now } => {
                let Counted { period, count } = self.counted(before, now);
                let remaining = self.limit.saturating_sub(count + cost);
                Decision::allowed(self.limit, remaining, self.periods.end(period) - now)
            }
            Update::Unchanged { found, now } => self.unchanged(found, now, cost),
            Update::Full { fresh_from, now, admitted } => {
                super::full(self.limit, fresh_from - now, admitted)
            }
        }
    }
}

impl<P: Periods> Saves for Count<P> {
    fn kind(&self) -> SnapshotKind {
        self.periods.kind()
    }

    fn save(&self, value: u64, now: Timestamp) -> Option<SavedState> {
        let now = instant(now);
        let Counted { period, count } = self.counted(value, now);
        (count > 0).then(|| self.periods.save(period, count, now))
    }

    fn load(&self, state: SavedState, downtime: Duration, now: Timestamp) -> Option<u64> {
        let (period, count) = self.periods.load(state, downtime, instant(now))?;
        Some(self.pack(Counted { period, count: count.min(largest(self.bits)) }))
    }

    /// The join of both values: the later period and the larger count, which is never below either.
    fn raise(&self, value: u64, now: u64, to: u64) -> Option<u64> {
        let (counted, to) = (self.counted(value, now), self.counted(to, now));
        let period = counted.period.max(to.period);
        let raised = self.pack(Counted { period, count: counted.count.max(to.count) });
        (to.count > 0 && raised != self.pack(counted)).then_some(raised)
    }
}
