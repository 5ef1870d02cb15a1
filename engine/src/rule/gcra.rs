//! The generic cell rate algorithm on one integer: the theoretical arrival time (TAT).
//!
//! ITU-T I.371 gives GCRA as a virtual scheduling algorithm. Here a key's state is its TAT in whole
//! *units* since the clock's origin. The unit is chosen for each quota so that the emission
//! interval T is a whole number of units: charging is exact, no error accumulates, and only the
//! clock is rounded, down to a whole unit. Where T is a whole number of nanoseconds the unit is one
//! nanosecond and nothing is rounded at all; else it is in [1, 2) ns, and below 1.1 ns for rates up
//! to 10^8 per second.
//!
//! Debt is `max(0, TAT - now)`. A cost `c` is admitted when `debt + c * T <= tau`, with the burst
//! tolerance `tau = burst * T`; then `TAT = max(TAT, now) + c * T`.

mod fractional;
mod per_call;
mod range;
#[cfg(feature = "std")]
pub(crate) mod ring;
mod rule;
mod saves;
mod scale;
mod terms;
mod view;

use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::word::{State, Update};
use crate::rule::algorithm::Algorithm;
use crate::rule::quota::{Quota, QuotaError};
use crate::rule::saved::SavedState;
use crate::time::Timestamp;

pub(crate) use per_call::{PerCallQuotas, Scaled, per_call};
pub(crate) use range::{NOW_MAX, TAT_MAX, TAU_MAX};
pub use scale::Scale;
pub(crate) use terms::Terms;
pub(crate) use view::{Bucket, Time, View};

/// The values of a table of TATs: a key is fresh from its TAT on.
#[derive(Clone, Copy, Debug)]
pub struct Tat;

impl State for Tat {
    #[inline]
    fn fresh_from(&self, tat: u64) -> u64 {
        tat
    }
}

/// A quota in the units of one scale: everything a decision needs, computed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    scale: Scale,
    /// Emission interval T in units, at least 1.
    interval: u64,
    /// Burst tolerance in units: `burst * interval`.
    tau: u64,
    /// The largest debt at which a cost of 1 fits: tau - T.
    tau_less_one: u64,
    /// The burst, in cost units.
    burst: u64,
    /// `floor((2^64 - 1) / interval)`, for `tokens`.
    reciprocal: u64,
    /// Whether the interval was, or may have been, rounded up to a whole unit.
    rounded: bool,
    /// Whether everything is admitted. The burst is 0 then, so only a check that would be denied
    /// for good tests this.
    unlimited: bool,
}

impl Gcra {
    /// The quota in its own scale, in which its emission interval is exact.
    pub(crate) fn exact(quota: &Quota) -> Result<Self, QuotaError> {
        let Some((period, count)) = enforceable(quota)? else {
            return Ok(Self::without_rate(quota, Scale::NANOSECOND));
        };
        let units = period / count;
        Self::new(Scale::of_interval(units, period, count), units, quota.burst_size())
    }

    /// The quota in another quota's scale: T is rounded up to a whole unit, and tau with it, so a
    /// burst stays a burst and no interval admits too much.
    pub(crate) fn in_scale(quota: &Quota, scale: Scale) -> Result<Self, QuotaError> {
        let Some((period, count)) = enforceable(quota)? else {
            return Ok(Self::without_rate(quota, scale));
        };
        let (interval, rounded) = if scale == Scale::NANOSECOND {
            let interval = period.div_ceil(count);
            // The product exceeds the period by less than the count, so it cannot wrap to it.
            (interval, interval.wrapping_mul(count) != period)
        } else {
            // period * units <= 2^64 * 2^63.
            let units = u128::from(period) * u128::from(scale.units());
            (units.div_ceil(u128::from(count) << 63) as u64, true)
        };
        Ok(Self { rounded, ..Self::new(scale, interval, quota.burst_size())? })
    }

    fn new(scale: Scale, interval: u64, burst: u64) -> Result<Self, QuotaError> {
        let tau = interval.checked_mul(burst).filter(|tau| *tau <= TAU_MAX);
        let tau = tau.ok_or(QuotaError::BurstTooLong)?;
        let reciprocal = u64::MAX / interval;
        Ok(Self {
            scale,
            interval,
            tau,
            tau_less_one: tau - interval,
            burst,
            reciprocal,
            rounded: false,
            unlimited: false,
        })
    }

    /// Blocked or unlimited: a burst of 0, under which nothing is charged.
    fn without_rate(quota: &Quota, scale: Scale) -> Self {
        Self {
            scale,
            interval: 1,
            tau: 0,
            tau_less_one: 0,
            burst: 0,
            reciprocal: u64::MAX,
            rounded: false,
            unlimited: quota.is_unlimited(),
        }
    }

    /// Nothing is admitted.
    pub(crate) fn blocked(scale: Scale) -> Self {
        Self::without_rate(&Quota::blocked(), scale)
    }

    #[inline]
    pub(crate) const fn scale(&self) -> Scale {
        self.scale
    }

    /// The TAT at `now` of a key that had this debt `downtime` before; `None` for a state that is
    /// not debt.
    pub(crate) fn load_at(&self, state: SavedState, downtime: Duration, now: u64) -> Option<u64> {
        let SavedState::Debt(debt) = state else { return None };
        let debt = debt.saturating_sub(downtime);
        let nanos = u64::try_from(debt.as_nanos()).unwrap_or(u64::MAX);
        Some(charge(0, now, self.scale.to_units(nanos)))
    }

    /// The emission interval T, in units.
    #[cfg(any(feature = "std", test))]
    #[inline]
    pub(crate) const fn interval(&self) -> u64 {
        self.interval
    }

    /// The burst tolerance, in units.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) const fn tau(&self) -> u64 {
        self.tau
    }

    /// The burst, in units of cost.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) const fn burst(&self) -> u64 {
        self.burst
    }

    /// The debt at `now` after a charge of `cost`, at most the burst, to a key with `tat`.
    #[inline]
    const fn debt_after(&self, tat: u64, now: u64, cost: u64) -> u64 {
        tat.saturating_sub(now) + cost * self.interval
    }

    /// The TAT after admitting `cost` at `now` on a key with `tat`; `None` when it does not fit.
    #[inline]
    pub(crate) fn admit(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        // A cost above the burst never fits, and could wrap the product. A cost of 1 cannot wrap
        // it, and where the burst is 0 it exceeds tau.
        if cost > 1 && cost > self.burst {
            return None;
        }
        // The same expression as in the answer, so that the compiler computes it once.
        let debt = self.debt_after(tat, now, cost);
        (debt <= self.tau).then_some(now + debt)
    }

    /// The TAT after charging `cost` at `now` to a key with `tat`, for a start at most `max_wait`
    /// later; `None` if it would start later still. With a `max_wait` of 0 this is [`Gcra::admit`].
    ///
    /// A charge covers the `cost * T` units of time before the TAT it makes, and charges do not
    /// overlap. All it covers is after its start and at most `tau` after it. So what the starts in
    /// `[s, t]` cover is disjoint and within `(s, t + tau]`, and their cost is at most
    /// `burst + rate * (t - s)`. Because TATs only grow, starts keep the order of the charges.
    pub(crate) fn admit_by(&self, tat: u64, now: u64, cost: u64, max_wait: u64) -> Option<u64> {
        if cost > self.burst {
            return None;
        }
        let charged = tat.max(now) + cost * self.interval;
        let latest = (now + self.tau).saturating_add(max_wait).min(TAT_MAX);
        (charged <= latest).then_some(charged)
    }

    /// The debt of `cost` in units, saturating; 0 under a blocked or unlimited quota, which has no
    /// emission interval.
    fn debt_of(&self, cost: u64) -> u64 {
        if self.burst == 0 { 0 } else { cost.saturating_mul(self.interval) }
    }

    /// The TAT after giving back `cost` at `now` to a key with `tat`, never below fresh; `None` if
    /// it does not change.
    pub(crate) fn refund(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        lowered(tat, now, self.debt_of(cost))
    }

    /// As [`Gcra::refund`], for units of the charge that left the TAT `charged`.
    ///
    /// Each charge has its own interval of time, which ends at the TAT it left and drains from its
    /// beginning. What is still to drain at `now` is the time from `now` to that end.
    pub(crate) fn give_back(&self, tat: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        lowered(tat, now, self.debt_of(cost).min(charged.saturating_sub(now)))
    }

    /// The answer to a check of `cost` whose effect on the key's word was `update`.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    pub(crate) fn answer(&self, update: Update, cost: u64) -> Decision {
        match update {
            Update::Written { before, now } => self.allowed(before, now, cost),
            Update::Unchanged { found, now } => self.unchanged(found, now, cost),
            Update::Full { fresh_from, now, admitted } => self.full(fresh_from - now, admitted),
        }
    }

    /// The answer to a charge of `cost` for a start at most `max_wait` later. `retry_after` of a
    /// denial is the time until the same wait suffices.
    pub(crate) fn answer_by(&self, update: Update, cost: u64, max_wait: u64) -> Decision {
        match update {
            Update::Unchanged { found, now } if cost > 0 && cost <= self.burst => {
                let debt = found.saturating_sub(now);
                let wait = (debt + cost * self.interval).saturating_sub(self.tau);
                // At the end of time a wait is denied though it is short enough.
                let missing = wait.saturating_sub(max_wait).max(1);
                let (missing, reset) = (self.scale.to_nanos(missing), self.scale.to_nanos(debt));
                Decision::denied(self.burst, self.tokens(debt), missing, reset)
            }
            update => self.answer(update, cost),
        }
    }

    /// The answer to a check of a fresh key for which there is no slot until `wait` is over.
    #[inline]
    fn full(&self, wait: u64, admitted: bool) -> Decision {
        if admitted {
            return Decision::allowed(self.burst, self.burst, 0);
        }
        let wait = self.scale.to_nanos(wait);
        Decision::denied(self.burst, 0, wait, wait)
    }

    /// The answer to a check of `cost` at `now` that found `tat` and was admitted.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    fn allowed(&self, tat: u64, now: u64, cost: u64) -> Decision {
        let debt = self.debt_after(tat, now, cost);
        if self.scale.is_nanosecond() {
            return Decision::allowed_every(self.interval, self.burst, 0, debt);
        }
        Decision::allowed(self.burst, self.tokens(debt), self.scale.to_nanos(debt))
    }

    /// The answer to a check at `now` that used units of a lease, of which `left` remain, while the
    /// key's word, which counts them as charged, was `tat`.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn leased(&self, tat: u64, now: u64, left: u64) -> Decision {
        let debt = tat.saturating_sub(now);
        if self.scale.is_nanosecond() {
            return Decision::allowed_every(self.interval, self.burst, left, debt);
        }
        crate::base::cold::cold_path();
        Decision::allowed(self.burst, self.tokens(debt) + left, self.scale.to_nanos(debt))
    }

    /// The answer to a check of `cost` at `now` that found `tat` and left it unchanged: a denial,
    /// or a peek (cost 0).
    #[inline]
    fn unchanged(&self, tat: u64, now: u64, cost: u64) -> Decision {
        if self.unlimited {
            return Decision::UNLIMITED;
        }
        let debt = tat.saturating_sub(now);
        let (remaining, reset) = (self.tokens(debt), self.scale.to_nanos(debt));
        if cost > self.burst {
            return Decision::never(self.burst, remaining, reset);
        }
        // For a peek, the debt beyond the burst; for a denial, more than 0.
        let missing = (debt + cost * self.interval).saturating_sub(self.tau);
        debug_assert!(cost == 0 || missing > 0);
        Decision::new(self.burst, remaining, self.scale.to_nanos(missing), reset)
    }

    /// Whole units of cost that fit on top of `debt`.
    #[inline]
    fn tokens(&self, debt: u64) -> u64 {
        // A predicted branch, as in `Scale::is_nanosecond`.
        if debt > self.tau_less_one {
            return 0;
        }
        let room = self.tau - debt;
        // floor(room / interval) by the rounded-down reciprocal: the estimate is at most one short,
        // because room * (1 / interval - reciprocal / 2^64) < 2^57 * 2^-64 + 1 quotient step.
        let estimate = ((u128::from(room) * u128::from(self.reciprocal)) >> 64) as u64;
        if (estimate + 1) * self.interval <= room { estimate + 1 } else { estimate }
    }
}

/// Used by quotas that change.
#[cfg(feature = "std")]
impl Gcra {
    /// Words of [`Gcra::to_words`].
    pub(crate) const WORDS: usize = 5;

    /// All fields but the scale.
    pub(crate) fn to_words(self) -> [u64; Self::WORDS] {
        [self.interval, self.tau, self.burst, self.reciprocal, u64::from(self.unlimited)]
    }

    #[inline]
    pub(crate) const fn from_words(
        scale: Scale,
        [interval, tau, burst, reciprocal, unlimited]: [u64; Self::WORDS],
    ) -> Self {
        Self {
            scale,
            interval,
            tau,
            // A quota without a rate has a tau of 0.
            tau_less_one: tau.saturating_sub(interval),
            burst,
            reciprocal,
            rounded: false,
            unlimited: unlimited != 0,
        }
    }

    /// The answer to a check of `cost` that another quota admitted just before, and this one would
    /// deny.
    #[cold]
    pub(crate) fn overcharged(&self, tat: u64, now: u64, cost: u64) -> Decision {
        if self.unlimited {
            return Decision::UNLIMITED;
        }
        let debt = charge(tat, now, self.debt_of(cost)) - now;
        Decision::allowed(self.burst, self.tokens(debt), self.scale.to_nanos(debt))
    }

    /// The answer to a check that another quota denied just before, and this one would admit: retry
    /// at once.
    #[cold]
    pub(crate) fn denied_before(&self, tat: u64, now: u64) -> Decision {
        let debt = tat.saturating_sub(now);
        Decision::denied(self.burst, self.tokens(debt), 1, self.scale.to_nanos(debt))
    }
}

impl Algorithm for Gcra {
    type State = Tat;

    fn state(&self) -> Tat {
        Tat
    }

    #[inline]
    fn instant(&self, now: Timestamp) -> u64 {
        self.scale.instant(now)
    }

    #[inline]
    fn admit(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        self.admit(tat, now, cost)
    }

    fn charge(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        let charged = charge(tat, now, self.debt_of(cost));
        (charged > tat && charged > now).then_some(charged)
    }

    fn charge_denied(&self, tat: u64, now: u64, cost: u64, bursts: u64) -> Option<u64> {
        self.view(tat, now).charge_denied(cost, bursts)
    }

    fn refund(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        self.refund(tat, now, cost)
    }

    fn give_back(&self, tat: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        self.give_back(tat, now, cost, charged)
    }

    fn owes_beyond(&self, tat: u64, now: u64, tolerance: u64) -> bool {
        tat > now.saturating_add(self.scale.to_units(tolerance))
    }

    fn reset(&self, tat: u64, now: u64) -> Option<u64> {
        reset(tat, now)
    }

    #[inline]
    fn can_fit(&self, cost: u64) -> bool {
        cost <= self.burst || self.unlimited
    }

    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    fn answer(&self, update: Update, cost: u64) -> Decision {
        self.answer(update, cost)
    }
}

/// Period in nanoseconds and count of a quota that can be enforced; `None` for one that is blocked
/// or unlimited.
#[inline]
fn enforceable(quota: &Quota) -> Result<Option<(u64, u64)>, QuotaError> {
    if quota.period().is_zero() {
        return if quota.is_unlimited() { Ok(None) } else { Err(QuotaError::ZeroPeriod) };
    }
    if quota.count() == 0 {
        return if quota.is_blocked() { Ok(None) } else { Err(QuotaError::StrictBurst) };
    }
    if quota.burst_size() == 0 {
        return Err(QuotaError::ZeroBurst);
    }
    let period = u64::try_from(quota.period().as_nanos()).map_err(|_| QuotaError::PeriodTooLong)?;
    if quota.count() > period {
        return Err(QuotaError::RateTooHigh);
    }
    Ok(Some((period, quota.count())))
}

/// The TAT less `units`, never below fresh; `None` if it does not change.
pub(crate) fn lowered(tat: u64, now: u64, units: u64) -> Option<u64> {
    (tat > now && units > 0).then(|| tat.saturating_sub(units).max(now))
}

/// The TAT of a key whose debt is forgotten at `now`; `None` when it has none.
pub(crate) fn reset(tat: u64, now: u64) -> Option<u64> {
    (tat > now).then_some(now)
}

/// `TAT = max(TAT, at) + debt`, saturating: an unconditional charge.
#[inline]
pub(crate) fn charge(tat: u64, at: u64, debt: u64) -> u64 {
    tat.max(at).saturating_add(debt).min(TAT_MAX)
}

/// The TAT that replaces `tat` to raise it to `to`; `None` if that is not larger, or not live.
pub(crate) fn raised(tat: u64, now: u64, to: u64) -> Option<u64> {
    (to > tat && to > now).then_some(to)
}

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "gcra_tests.rs"]
mod tests;
