//! Quotas whose emission interval is not a whole number of units, on words shared by many quotas.
//!
//! # How a fraction is charged
//! The time axis is cut into *cells*: cell `k` begins at the edge `ceil(k * T)`, so cells are
//! `floor(T)` or `ceil(T)` units long. A charge of `c` units from a point in cell `k` is the
//! distance from the edge of `k` to the edge of `k + c`. So no state is needed: the position of a
//! TAT determines how the next fraction is rounded. This is Bresenham's line, drawn along the time
//! axis.
//!
//! # Why rounding never adds up
//! A charge of `c` moves a TAT at least `c` cells on, and waiting moves it on as well. So after `n`
//! units from a point in cell `k`, with any waits between them, the TAT is `m >= n` cells on:
//! * If `m = n`, its distance from the edge of its cell has not shrunk, so the distance covered is
//!   at least `ceil((k + n) * T) - ceil(k * T) > n * T - 1`.
//! * Each cell passed beyond `n` adds at least `floor(T)`, and the distance from the edge shrinks
//!   by at most that.
//!
//! So `n` units take more than `n * T - 1` units of time, for any `n`: the rate is exact and the
//! error of an interval's length stays below a unit however long it is. Without waiting they take
//! less than `n * T + 2`: one for each of two ends, and a TAT at the very end of a long cell moves
//! on into the next but one at most once, after which it is on edges. The burst tolerance has room
//! for that, so a burst is admitted whole wherever it begins; a unit more does not fit since
//! `T >= 4`.
//!
//! # Giving back
//! Giving back `c` units of a TAT in cell `k` lowers it by the distance from the edge of `k` to
//! that of `k - c`: the TAT is then where it would be had the units never been charged, whatever
//! was charged after them. It keeps its distance from the edge of its cell, or is at the next edge
//! if its cell is too short for that. Measure a TAT in cell `k` as `k * T` plus its distance from
//! the edge: giving back `c` units lowers this by at most `c * T`. So rounding does not add up here
//! either: `n` units that are kept take more than `n * T - 1`.
//!
//! Where quotas share a word, each change of quota may round anew, by less than a unit.

use crate::base::decision::Decision;
use crate::base::word::Update;
use crate::rule::algorithm::Algorithm;
use crate::rule::quota::Quota;
use crate::time::Timestamp;

use super::{Gcra, Scale, TAT_MAX, TAU_MAX, Tat, enforceable, lowered};

/// Fractional bits of an emission interval: it is off by at most 2^-32 units, less than 10^-10 of
/// the shortest.
const FRACTION_BITS: u32 = 32;
/// The shortest emission interval that is not rounded up, in whole units: a burst is exact from 4
/// on.
const LEAST: u64 = 4;
/// The longest, in units: rounding up a longer one lengthens it by less than 10^-6.
const MOST: u64 = 1 << 20;

/// A quota in the units of a scale in which its emission interval has a fraction.
#[derive(Clone, Copy, Debug)]
pub struct Fractional {
    /// The quota with its interval rounded up.
    rounded: Gcra,
    /// The emission interval T in 2^-32 units, rounded up; from 2^34 to 2^52.
    interval: u64,
    /// `floor(2^96 / interval)`, below 2^62.
    reciprocal: u64,
    /// Burst tolerance in units: `ceil(burst * T) + 1`.
    pub(super) tau: u64,
}

impl Fractional {
    /// The quota, given its `rounded` form in the same scale; `None` if that is as good.
    #[inline]
    pub(crate) fn of(quota: &Quota, rounded: &Gcra) -> Option<Self> {
        let in_range = LEAST < rounded.interval && rounded.interval <= MOST;
        if !rounded.rounded || !in_range {
            return None;
        }
        let (period, count) = enforceable(quota).ok()??;
        Some(Self::new(rounded, period, count))
    }

    #[inline(never)]
    fn new(rounded: &Gcra, period: u64, count: u64) -> Self {
        let interval = Self::interval(rounded.scale, period, count);
        // The interval is at least 2^34: `rounded` is above 4.
        let reciprocal = ((1_u128 << 96) / u128::from(interval)) as u64;
        // Above the last instant a word has no room for more.
        let tau = (edge(interval, rounded.burst) + 1).min(TAU_MAX);
        Self { rounded: *rounded, interval, reciprocal, tau }
    }

    /// The emission interval in 2^-32 units, rounded up.
    fn interval(scale: Scale, period: u64, count: u64) -> u64 {
        if scale.is_nanosecond() {
            // The period is at most 2^20 times the count, so the quotient cannot wrap.
            return (u128::from(period) << FRACTION_BITS).div_ceil(u128::from(count)) as u64;
        }
        // Units a nanosecond are times 2^63; the product is at most 2^127.
        let units = u128::from(period) * u128::from(scale.units());
        units.div_ceil(u128::from(count) << (63 - FRACTION_BITS)) as u64
    }

    /// The cell of a point in time: `floor(at / T)`.
    #[inline]
    fn cell(&self, at: u64) -> u64 {
        // The reciprocal is less than 1 too small and `at` below 2^60, so the estimate is less than
        // 2^-4 and its rounding too small: at most one short.
        let estimate = ((u128::from(at) * u128::from(self.reciprocal)) >> 64) as u64;
        let next = u128::from(estimate + 1) * u128::from(self.interval);
        if next <= u128::from(at) << FRACTION_BITS { estimate + 1 } else { estimate }
    }

    /// The charge of `cost`, at most the burst, from `start` on.
    #[inline]
    fn charge(&self, start: u64, cost: u64) -> u64 {
        let cell = self.cell(start);
        edge(self.interval, cell + cost) - edge(self.interval, cell)
    }

    /// The TAT after admitting `cost`; `None` when it does not fit.
    #[inline]
    pub(super) fn admit(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        if cost > self.rounded.burst {
            return None;
        }
        let start = tat.max(now);
        let charged = start + self.charge(start, cost);
        (charged - now <= self.tau).then_some(charged)
    }

    /// As [`Gcra::admit_by`].
    pub(super) fn admit_by(&self, tat: u64, now: u64, cost: u64, max_wait: u64) -> Option<u64> {
        if cost > self.rounded.burst {
            return None;
        }
        let start = tat.max(now);
        let charged = start + self.charge(start, cost);
        let latest = (now + self.tau).saturating_add(max_wait).min(TAT_MAX);
        (charged <= latest).then_some(charged)
    }

    /// As [`Gcra::answer_by`].
    pub(super) fn answer_by(&self, update: Update, cost: u64, max_wait: u64) -> Decision {
        match update {
            Update::Unchanged { found, now } if cost > 0 && cost <= self.rounded.burst => {
                self.denied(found.max(now), now, cost, max_wait)
            }
            update => self.answer(update, cost),
        }
    }

    /// By how much giving back `cost` lowers `tat`.
    fn returned(&self, tat: u64, cost: u64) -> u64 {
        let cell = self.cell(tat);
        edge(self.interval, cell) - edge(self.interval, cell.saturating_sub(cost))
    }

    /// The TAT after giving back `cost`, never below fresh; `None` if it does not change.
    pub(super) fn refund(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        lowered(tat, now, self.returned(tat, cost))
    }

    /// As [`Gcra::give_back`].
    pub(super) fn give_back(&self, tat: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        lowered(tat, now, self.returned(tat, cost).min(charged.saturating_sub(now)))
    }

    /// Units of cost that fit at once at `now` on top of `tat`.
    #[inline]
    fn tokens(&self, tat: u64, now: u64) -> u64 {
        let start = tat.max(now);
        let Some(room) = (now + self.tau).checked_sub(start) else { return 0 };
        let cell = self.cell(start);
        // The last cell whose edge is within the room. The burst tolerance exceeds that of the
        // burst a little, by less than a cell.
        self.cell(edge(self.interval, cell) + room) - cell
    }

    /// The answer to a check of `cost`, at least 1, that found `tat`, not before `now`, and was
    /// denied a start at most `max_wait` later.
    fn denied(&self, tat: u64, now: u64, cost: u64, max_wait: u64) -> Decision {
        let wait = (tat + self.charge(tat, cost) - now).saturating_sub(self.tau);
        let missing = wait.saturating_sub(max_wait).max(1);
        let scale = self.rounded.scale;
        let (wait, reset) = (scale.to_nanos(missing), scale.to_nanos(tat - now));
        Decision::denied(self.rounded.burst, self.tokens(tat, now), wait, reset)
    }

    fn peeked(&self, tat: u64, now: u64, cost: u64) -> Decision {
        let debt = tat.saturating_sub(now);
        let (burst, scale) = (self.rounded.burst, self.rounded.scale);
        let (remaining, reset) = (self.tokens(tat, now), scale.to_nanos(debt));
        if cost > 0 {
            return Decision::never(burst, remaining, reset);
        }
        match debt.checked_sub(self.tau) {
            None | Some(0) => Decision::allowed(burst, remaining, reset),
            Some(missing) => Decision::denied(burst, 0, scale.to_nanos(missing), reset),
        }
    }
}

/// Where a cell begins: `ceil(cell * T)`, for T in 2^-32 units. Cells below 2^58 plus the cost of a
/// burst are far from wrapping.
#[inline]
fn edge(interval: u64, cell: u64) -> u64 {
    edge_of(interval, u128::from(cell)) as u64
}

/// As [`edge`], for a cell below 2^75, where the result may exceed 64 bits.
#[inline]
fn edge_of(interval: u64, cell: u128) -> u128 {
    const ROUND_UP: u128 = (1 << FRACTION_BITS) - 1;
    (cell * u128::from(interval) + ROUND_UP) >> FRACTION_BITS
}

impl Algorithm for Fractional {
    type State = Tat;

    fn state(&self) -> Tat {
        Tat
    }

    #[inline]
    fn instant(&self, now: Timestamp) -> u64 {
        self.rounded.scale.instant(now)
    }

    #[inline]
    fn admit(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        self.admit(tat, now, cost)
    }

    fn charge(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        let start = tat.max(now);
        let cell = self.cell(start);
        // The charge saturates at the end of time: edges beyond it are not needed.
        let cost = cost.min(TAT_MAX);
        let debt = edge_of(self.interval, u128::from(cell) + u128::from(cost))
            - u128::from(edge(self.interval, cell));
        let charged = (u128::from(start) + debt).min(u128::from(TAT_MAX)) as u64;
        (charged > start).then_some(charged)
    }

    fn refund(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        self.refund(tat, now, cost)
    }

    fn give_back(&self, tat: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        self.give_back(tat, now, cost, charged)
    }

    fn reset(&self, tat: u64, now: u64) -> Option<u64> {
        super::reset(tat, now)
    }

    fn can_fit(&self, cost: u64) -> bool {
        cost <= self.rounded.burst
    }

    #[inline]
    fn answer(&self, update: Update, cost: u64) -> Decision {
        match update {
            Update::Written { before, now } => {
                let start = before.max(now);
                let charged = start + self.charge(start, cost);
                let reset = self.rounded.scale.to_nanos(charged - now);
                Decision::allowed(self.rounded.burst, self.tokens(charged, now), reset)
            }
            Update::Unchanged { found, now } if cost == 0 || cost > self.rounded.burst => {
                self.peeked(found, now, cost)
            }
            Update::Unchanged { found, now } => self.denied(found, now, cost, 0),
            Update::Full { .. } => self.rounded.answer(update, cost),
        }
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "fractional_tests.rs"]
mod tests;
