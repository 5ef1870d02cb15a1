//! A quota in force, and how values from before it are read.
//!
//! Values of different epochs lie apart: an epoch's time begins at its *floor*, which is above every value
//! of the epoch before it. So a value tells by itself which epoch it is of, and nothing has to be
//! rewritten at the moment of a change: a value below the floor is *carried* over when it is read.

use core::time::Duration;

use crate::clock::Timestamp;
use crate::gcra::{Gcra, NOW_MAX, Scale, TAT_MAX};
use crate::quota::{Quota, QuotaError};

use super::Inheritance;

/// Words of an epoch that tell the time.
pub(super) const TIME: usize = 4;
/// Words of an epoch by which values of its own are decided.
pub(super) const RULE: usize = TIME + Gcra::WORDS;
/// Words of an epoch.
pub(super) const WORDS: usize = RULE + 8;

/// A change is refused when it leaves less than this for the time to come, in units: 2^55, at least
/// 1.1 years.
const TIME_LEFT_MIN: u64 = 1 << 55;

/// Debt further beyond the burst is not carried over as it is, in units: 2^52, at least 52 days. So a
/// key that was told a debt of years does not use up the limiter's time.
const BEYOND_MAX: u64 = 1 << 52;

/// Room above the highest value for what checks that are under way still charge, in units: a
/// second.
const UNDER_WAY: u64 = 1 << 30;

/// The time of an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) scale: Scale,
    /// The epoch's first instant.
    pub(super) floor: u64,
    /// What the clock showed then, in units.
    base: u64,
}

impl Time {
    #[inline]
    pub(super) fn from_words([units, nanos, floor, base]: [u64; TIME]) -> Self {
        Self { scale: Scale::from_words([units, nanos]), floor, base }
    }

    /// An instant of the epoch, its first for times before it.
    #[inline]
    pub(super) fn instant(self, now: Timestamp) -> u64 {
        let since = self.scale.to_units(now.as_nanos()).saturating_sub(self.base);
        self.floor.saturating_add(since).min(NOW_MAX)
    }

    /// How long before the epoch's first instant a time lies, in units.
    pub(super) fn until_first(self, now: Timestamp) -> u64 {
        self.base.saturating_sub(self.scale.to_units(now.as_nanos()))
    }
}

/// What of the values of the epoch before is carried over.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// The last instant of the epoch before: what a value is beyond it was debt at the change.
    end: u64,
    /// The burst tolerance of the epoch before.
    tau: u64,
    /// Units of this epoch for each of the one before, as a fraction.
    units: (u64, u64),
    /// The most that debt of up to a burst becomes.
    most: u64,
}

impl Past {
    fn carry(self, units: u64) -> u64 {
        let (numerator, denominator) = (u128::from(self.units.0), u128::from(self.units.1));
        let carried = (u128::from(units) * numerator).div_ceil(denominator);
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
        let time = Time { scale: gcra.scale(), floor: 0, base: 0 };
        let past = Past { end: 0, tau: 0, units: (0, 1), most: 0 };
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
        let end = self.time.instant(at);
        let tau = self.gcra.tau();
        let floor = highest.min(end + tau + BEYOND_MAX).max(end + tau) + UNDER_WAY;
        if floor > NOW_MAX - TIME_LEFT_MIN {
            return Err(QuotaError::NoTimeLeft);
        }
        let scale = gcra.scale();
        let durations = (scale.to_words()[0], self.time.scale.to_words()[0]);
        let have_rates = gcra.burst() > 0 && self.gcra.burst() > 0;
        let (units, most) = match inheritance {
            Inheritance::Reset => ((0, 1), 0),
            Inheritance::Proportional if have_rates => {
                ((gcra.interval(), self.gcra.interval()), gcra.tau())
            }
            Inheritance::Proportional | Inheritance::Keep => (durations, TAT_MAX),
        };
        let time = Time { scale, floor, base: scale.to_units(at.as_nanos()) };
        Ok(Self { time, gcra, past: Past { end, tau, units, most }, quota })
    }

    /// The value in this epoch's terms; 0 for one that is not live.
    #[inline]
    pub(super) fn tat(&self, value: u64) -> u64 {
        if value >= self.time.floor { value } else { self.carried(value) }
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
            past.units.0,
            past.units.1,
            past.most, // past
            quota.count(),
            period,
            quota.burst_size(),
        ]
    }

    pub(super) fn from_words(words: [u64; WORDS]) -> Self {
        let [units, nanos, floor, base, interval, tau, burst, reciprocal, unlimited, rest @ ..] =
            words;
        let [end, past_tau, numerator, denominator, most, count, period, burst_size] = rest;
        let time = Time::from_words([units, nanos, floor, base]);
        Self {
            time,
            gcra: Gcra::from_words(time.scale, [interval, tau, burst, reciprocal, unlimited]),
            past: Past { end, tau: past_tau, units: (numerator, denominator), most },
            quota: Quota::new(count, Duration::from_nanos(period)).burst(burst_size),
        }
    }
}
