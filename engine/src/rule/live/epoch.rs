//! A quota in force, and how values from before it are read.
//!
//! Values of different epochs do not overlap: an epoch's time begins at its *floor*, which is above
//! every value of the epoch before it. So a value by itself shows which epoch it is of, and a
//! change rewrites no word: a value below the floor is *carried over* when it is read.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::rule::gcra::{self, Gcra, NOW_MAX, Scale, TAT_MAX, Time, View};
use crate::rule::quota::{Quota, QuotaError};
use crate::time::Timestamp;

use super::Inheritance;

// An epoch's words in a `Cell`: time, rule, past, quota. Those that a check needs come first, so
// that it reads no others.

/// Words of the time: those of its scale, its floor and its base.
pub(super) const TIME: usize = 4;
/// Words of the time and the rule, by which values of this epoch are decided.
pub(super) const RULE: usize = TIME + Gcra::WORDS;
/// Words of the time, the rule and the past.
const PAST: usize = RULE + Past::WORDS;
/// Words of an epoch.
pub(super) const WORDS: usize = PAST + QUOTA;
/// Words of a quota: count, period, burst and strict limit.
const QUOTA: usize = 4;

/// A change is refused when it leaves less than this until time saturates, in units: 2^55, at least
/// 1.1 years.
const TIME_LEFT_MIN: u64 = 1 << 55;

/// The most debt beyond the burst for which the next floor makes room, in units: 2^52, at least 52
/// days; more is not carried over as it is. So a key charged a debt of years does not use up the
/// limiter's time.
const BEYOND_MAX: u64 = 1 << 52;

/// Room above the highest value for what concurrent calls still charge under the old epoch, in
/// units: 2^36, at least 68 seconds.
const UNDER_WAY: u64 = 1 << 36;

/// The instant of `now` in an epoch; the epoch's first one for times before it.
#[inline]
pub(super) fn instant(time: Time, now: Timestamp) -> u64 {
    time.point(now).max(time.floor)
}

/// What is carried over of the values of the epoch before.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// The last instant of the epoch before: what a value is beyond it was debt at the change.
    end: u64,
    /// The burst tolerance of the epoch before.
    tau: u64,
    /// Its emission interval.
    interval: u64,
    /// Units of this epoch for each of the one before.
    ratio: Ratio,
    /// The most that debt of up to a burst becomes.
    most: u64,
}

impl Past {
    /// Before the first epoch: no debt is carried over.
    const NONE: Self = Self { end: 0, tau: 0, interval: 0, ratio: Ratio::ZERO, most: 0 };

    /// The debt of a value of the epoch before, in units of this one.
    fn debt(self, value: u64) -> u64 {
        // Values of earlier epochs are below the end of the one before: they have been carried
        // over, or were not live.
        let debt = value.saturating_sub(self.end);
        let within = debt.min(self.tau);
        let beyond = debt - within;
        self.ratio.rounded_up(within).min(self.most).saturating_add(self.ratio.rounded_up(beyond))
    }

    /// The part of `cost` units of the charge that left the value `charged` that had not drained at
    /// the change, in units of this epoch.
    ///
    /// Of debt up to a burst, the excess over the new burst is forgotten. Which charge that excess
    /// belonged to is unknown, because later charges are not recorded. So all of it is attributed
    /// to this charge, and no more is given back than other charges would have without it.
    fn returned(self, cost: u64, charged: u64) -> u64 {
        let counted = charged.saturating_sub(self.end).min(cost.saturating_mul(self.interval));
        let forgotten = self.ratio.rounded_up(self.tau).saturating_sub(self.most);
        self.ratio.rounded_down(counted).saturating_sub(forgotten)
    }
}

/// A fraction.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    const ZERO: Self = Self::new(0, 1);

    const fn new(numerator: u64, denominator: u64) -> Self {
        Self { numerator, denominator }
    }

    /// `units` times this, rounded up, at most [`TAT_MAX`].
    fn rounded_up(self, units: u64) -> u64 {
        let product = u128::from(units) * u128::from(self.numerator);
        product.div_ceil(u128::from(self.denominator)).min(u128::from(TAT_MAX)) as u64
    }

    /// `units` times this, rounded down, at most [`TAT_MAX`].
    fn rounded_down(self, units: u64) -> u64 {
        let product = u128::from(units) * u128::from(self.numerator);
        (product / u128::from(self.denominator)).min(u128::from(TAT_MAX)) as u64
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
    /// The first epoch: no value is below its floor.
    pub(super) fn first(quota: Quota) -> Result<Self, QuotaError> {
        let gcra = Gcra::exact(&quota)?;
        let time = Time::always(gcra.scale());
        Ok(Self { time, gcra, past: Past::NONE, quota })
    }

    /// The epoch that begins at `at`, when no value of this one is above `highest`.
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
        let durations = Ratio::new(scale.units(), self.time.scale.units());
        let have_rates = gcra.burst() > 0 && self.gcra.burst() > 0;
        let (ratio, most) = match inheritance {
            Inheritance::Reset => (Ratio::ZERO, 0),
            Inheritance::Proportional if have_rates => {
                (Ratio::new(gcra.interval(), self.gcra.interval()), gcra.tau())
            }
            Inheritance::Proportional | Inheritance::Keep => (durations, TAT_MAX),
        };
        let time = Time { scale, floor, base: scale.to_units(at.as_nanos()) };
        Ok(Self { time, gcra, past: Past { end, tau, interval, ratio, most }, quota })
    }

    /// The value in terms of this epoch; 0 for one that is not live.
    #[inline]
    pub(super) fn tat(&self, value: u64) -> u64 {
        if value >= self.time.floor { value } else { self.carried(value) }
    }

    /// A value and a `now`, which may be of the epoch before, in terms of this one.
    pub(super) fn view(&self, value: u64, now: u64) -> View {
        let (time, now) = (self.time, now.max(self.time.floor));
        View { gcra: self.gcra, time, tat: self.tat(value), now }
    }

    /// The value after giving back `cost` units of the charge that left the value `charged`, as far
    /// as they still count; `None` when it stays the same. Units of a charge older than the epoch
    /// before no longer count.
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
        let mut words = [0; WORDS];
        words[..TIME].copy_from_slice(&time_to_words(self.time));
        words[TIME..RULE].copy_from_slice(&self.gcra.to_words());
        words[RULE..PAST].copy_from_slice(&self.past.to_words());
        words[PAST..].copy_from_slice(&quota_to_words(self.quota));
        words
    }

    pub(super) fn from_words(words: [u64; WORDS]) -> Self {
        let time = time_from_words(part(&words, 0));
        Self {
            time,
            gcra: Gcra::from_words(time.scale, part(&words, TIME)),
            past: Past::from_words(part(&words, RULE)),
            quota: quota_from_words(part(&words, PAST)),
        }
    }
}

/// The `N` words from `start` on.
fn part<const N: usize>(words: &[u64; WORDS], start: usize) -> [u64; N] {
    core::array::from_fn(|index| words[start + index])
}

fn time_to_words(Time { scale, floor, base }: Time) -> [u64; TIME] {
    let [units, nanos] = scale.to_words();
    [units, nanos, floor, base]
}

#[inline]
pub(super) fn time_from_words([units, nanos, floor, base]: [u64; TIME]) -> Time {
    Time { scale: Scale::from_words([units, nanos]), floor, base }
}

impl Past {
    /// Words of [`Past::to_words`].
    const WORDS: usize = 6;

    fn to_words(self) -> [u64; Self::WORDS] {
        let Self { end, tau, interval, ratio: Ratio { numerator, denominator }, most } = self;
        [end, tau, interval, numerator, denominator, most]
    }

    fn from_words([end, tau, interval, numerator, denominator, most]: [u64; Self::WORDS]) -> Self {
        Self { end, tau, interval, ratio: Ratio { numerator, denominator }, most }
    }
}

fn quota_to_words(quota: Quota) -> [u64; QUOTA] {
    let period = u64::try_from(quota.period().as_nanos()).unwrap_or(u64::MAX);
    // 0 for a quota that is not strict.
    let strict_limit = quota.strict_limit().map_or(0, NonZeroU64::get);
    [quota.count(), period, quota.burst_size(), strict_limit]
}

fn quota_from_words([count, period, burst, strict_limit]: [u64; QUOTA]) -> Quota {
    let period = Duration::from_nanos(period);
    match strict_limit {
        0 => Quota::new(count, period).burst(burst),
        limit => Quota::strict(limit, period, burst),
    }
}
