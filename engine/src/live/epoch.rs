//! A quota in force, and how values from before it are read.
//!
//! Values of different epochs lie apart: an epoch's time begins at its *floor*, which is above every value
//! of the epoch before it. So a value tells by itself which epoch it is of, and nothing has to be
//! rewritten at the moment of a change: a value below the floor is *carried* over when it is read.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::clock::Timestamp;
use crate::gcra::{self, Gcra, NOW_MAX, Scale, TAT_MAX, Time, View};
use crate::quota::{Quota, QuotaError};

use super::Inheritance;

/// Words of an epoch that tell the time.
pub(super) const TIME: usize = 4;
/// Words of an epoch by which values of its own are decided.
pub(super) const RULE: usize = TIME + Gcra::WORDS;
/// Words of an epoch.
pub(super) const WORDS: usize = RULE + 10;

/// A change is refused when it leaves less than this for the time to come, in units: 2^55, at least
/// 1.1 years.
const TIME_LEFT_MIN: u64 = 1 << 55;

/// Debt further beyond the burst is not carried over as it is, in units: 2^52, at least 52 days. So a
/// key that was told a debt of years does not use up the limiter's time.
const BEYOND_MAX: u64 = 1 << 52;

/// Room above the highest value for what is still charged by those who are under way, in units: 2^36, at
/// least 68 seconds.
const UNDER_WAY: u64 = 1 << 36;

/// The instant of an epoch, its first for times before it.
#[inline]
pub(super) fn instant(time: Time, now: Timestamp) -> u64 {
    time.point(now).max(time.floor)
}

#[inline]
pub(super) fn time_from_words([units, nanos, floor, base]: [u64; TIME]) -> Time {
    Time { scale: Scale::from_words([units, nanos]), floor, base }
}

/// What of the values of the epoch before is carried over.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// The last instant of the epoch before: what a value is beyond it was debt at the change.
    end: u64,
    /// The burst tolerance of the epoch before.
    tau: u64,
    /// Its emission interval.
    interval: u64,
    /// Units of this epoch for each of the one before, as a fraction.
    units: (u64, u64),
    /// The most that debt of up to a burst becomes.
    most: u64,
}

impl Past {
    /// Units of the epoch before in those of this one, rounded up.
    fn carry(self, units: u64) -> u64 {
        let (numerator, denominator) = (u128::from(self.units.0), u128::from(self.units.1));
        let carried = (u128::from(units) * numerator).div_ceil(denominator);
        carried.min(u128::from(TAT_MAX)) as u64
    }

    /// As [`Past::carry`], rounded down.
    fn carry_whole(self, units: u64) -> u64 {
        let carried = u128::from(units) * u128::from(self.units.0) / u128::from(self.units.1);
        carried.min(u128::from(TAT_MAX)) as u64
    }

    /// The debt of a value of the epoch before, in units of this one.
    fn debt(self, value: u64) -> u64 {
        // Values of earlier epochs lie below the end of the one before: they have been carried, or
        // were not live.
        let debt = value.saturating_sub(self.end);
        let within = debt.min(self.tau);
        self.carry(within).min(self.most).saturating_add(self.carry(debt - within))
    }

    /// What `cost` units of the charge that left the value `charged` are, as far as they had not drained
    /// at the change, in units of this epoch.
    ///
    /// Of debt up to a burst, what was above the new burst is forgotten. Whose units those were can not be
    /// told: what was charged later is not known. So all of them are taken to be of this charge, and no
    /// more is given back than others would have without it.
    fn returned(self, cost: u64, charged: u64) -> u64 {
        let counted = charged.saturating_sub(self.end).min(cost.saturating_mul(self.interval));
        let forgotten = self.carry(self.tau).saturating_sub(self.most);
        self.carry_whole(counted).saturating_sub(forgotten)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    pub(super) time: Time,
    pub(super) gcra: Gcra,
    past: Past,
    pub(super) quota: Quota,
}

impl Epoch {
    /// The first one: no value is below its floor.
    pub(super) fn first(quota: Quota) -> Result<Self, QuotaError> {
        let gcra = Gcra::exact(&quota)?;
        let time = Time::always(gcra.scale());
        let past = Past { end: 0, tau: 0, interval: 0, units: (0, 1), most: 0 };
        Ok(Self { time, gcra, past, quota })
    }

    /// The epoch that begins at `at`, where no value of this one is above `highest` then.
    pub(super) fn next(
        &self,
        quota: Quota,
        inheritance: Inheritance,
        at: Timestamp,
        highest: u64,
    ) -> Result<Self, QuotaError> {
        let gcra = Gcra::exact(&quota)?;
        let end = instant(self.time, at);
        let (tau, interval) = (self.gcra.tau(), self.gcra.interval());
        let floor = highest.min(end + tau + BEYOND_MAX).max(end + tau) + UNDER_WAY;
        if floor > NOW_MAX - TIME_LEFT_MIN {
            return Err(QuotaError::NoTimeLeft);
        }
        let scale = gcra.scale();
        let durations = (scale.units(), self.time.scale.units());
        let have_rates = gcra.burst() > 0 && self.gcra.burst() > 0;
        let (units, most) = match inheritance {
            Inheritance::Reset => ((0, 1), 0),
            Inheritance::Proportional if have_rates => {
                ((gcra.interval(), self.gcra.interval()), gcra.tau())
            }
            Inheritance::Proportional | Inheritance::Keep => (durations, TAT_MAX),
        };
        let time = Time { scale, floor, base: scale.to_units(at.as_nanos()) };
        Ok(Self { time, gcra, past: Past { end, tau, interval, units, most }, quota })
    }

    /// The value in this epoch's terms; 0 for one that is not live.
    #[inline]
    pub(super) fn tat(&self, value: u64) -> u64 {
        if value >= self.time.floor { value } else { self.carried(value) }
    }

    /// A value and a `now` that may be of the epoch before in terms of this one.
    pub(super) fn view(&self, value: u64, now: u64) -> View {
        let (time, now) = (self.time, now.max(self.time.floor));
        View { gcra: self.gcra, time, tat: self.tat(value), now }
    }

    /// The value after giving back `cost` units of the charge that left the value `charged`, as far as they
    /// still count; `None` when it stays. Of a charge from before the epoch before, nothing does.
    pub(super) fn give_back(&self, value: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        let View { gcra, tat, now, .. } = self.view(value, now);
        if charged >= self.time.floor {
            return gcra.give_back(tat, now, cost, charged);
        }
        let left = self.tat(charged).saturating_sub(now);
        gcra::lowered(tat, now, self.past.returned(cost, charged).min(left))
    }

    #[cold]
    fn carried(&self, value: u64) -> u64 {
        match self.past.debt(value) {
            0 => 0,
            debt => self.time.floor.saturating_add(debt).min(TAT_MAX),
        }
    }

    pub(super) fn to_words(self) -> [u64; WORDS] {
        let Self { time, gcra, past, quota } = self;
        let [units, nanos] = time.scale.to_words();
        let [interval, tau, burst, reciprocal, unlimited] = gcra.to_words();
        let period = u64::try_from(quota.period().as_nanos()).unwrap_or(u64::MAX);
        [
            units,
            nanos,
            time.floor,
            time.base, // time
            interval,
            tau,
            burst,
            reciprocal,
            unlimited, // rule
            past.end,
            past.tau,
            past.interval,
            past.units.0,
            past.units.1,
            past.most, // past
            quota.count(),
            period,
            quota.burst_size(),
            quota.strict_limit().map_or(0, NonZeroU64::get),
        ]
    }

    pub(super) fn from_words(words: [u64; WORDS]) -> Self {
        let [units, nanos, floor, base, interval, tau, burst, reciprocal, unlimited, rest @ ..] =
            words;
        let [end, past_tau, past_interval, numerator, denominator, most, quota @ ..] = rest;
        let [count, period, burst_size, limit] = quota;
        let period = Duration::from_nanos(period);
        let quota = match limit {
            0 => Quota::new(count, period).burst(burst_size),
            limit => Quota::strict(limit, period, burst_size),
        };
        let time = time_from_words([units, nanos, floor, base]);
        Self {
            time,
            gcra: Gcra::from_words(time.scale, [interval, tau, burst, reciprocal, unlimited]),
            past: Past {
                end,
                tau: past_tau,
                interval: past_interval,
                units: (numerator, denominator),
                most,
            },
            quota,
        }
    }
}
