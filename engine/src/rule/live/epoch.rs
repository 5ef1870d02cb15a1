//! A quota in force, and how values from before it are read.
//!
//! Values of two epochs that follow each other do not overlap ([`ring`]), so a value by itself
//! shows which of the two it is of: one of the epoch before is *carried over* when it is read. A
//! change begins with an epoch in which words of both kinds are read, and then sweeps: once it has
//! rewritten all words of the epoch before, and withdrawn the claims that might still write one,
//! there is none, and the next epoch may stand anywhere.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::rule::gcra::ring::{self, DEBT_MAX, RING};
use crate::rule::gcra::{self, Gcra, NOW_MAX, Scale, TAT_MAX, Time};
use crate::rule::quota::Quota;
use crate::time::Timestamp;

use super::inheritance::Inheritance;

// An epoch's words in a `SeqCell`: span, time, rule, past, quota. What is needed together is
// adjacent, so that a check reads no others.

/// The words that say when a word's key is fresh: the span and the time.
pub(super) const SPAN: usize = 0;
/// Words of the span.
const SPAN_WORDS: usize = 1;
/// The words by which values of this epoch are decided: the time and the rule.
pub(super) const TIME: usize = SPAN + SPAN_WORDS;
/// Words of the time: those of its scale, its floor and its base.
pub(super) const TIME_WORDS: usize = 4;
/// The words of the rule.
const RULE: usize = TIME + TIME_WORDS;
const PAST: usize = RULE + Gcra::WORDS;
const QUOTA: usize = PAST + Past::WORDS;
/// Words of an epoch.
pub(super) const WORDS: usize = QUOTA + QUOTA_WORDS;
/// Words of a quota: count, period, burst and strict limit.
const QUOTA_WORDS: usize = 4;

/// Room above the highest value for what concurrent calls still charge under the old epoch, in
/// units: 2^40, at least 18 minutes.
const UNDER_WAY: u64 = 1 << 40;

/// How far the values of an epoch are at most ahead of a reading, in units: what a key owes, and
/// 2^54, at least 208 days, by which the reading may be late.
pub(super) const AHEAD_MAX: u64 = DEBT_MAX + (1 << 54);

/// What an epoch has at least of the ring until all words are its own, in units: what is ahead, and
/// 2^54 for the sweep to take and for readings that precede the clock.
const SPAN_MIN: u64 = AHEAD_MAX + (1 << 54);

// An epoch that has been shortened leaves the next one enough.
const _: () = assert!(NOW_MAX + SPAN_MIN - RING + DEBT_MAX + UNDER_WAY < RING - SPAN_MIN);

/// What is carried over of the values of the epoch before.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// The floor of the epoch before.
    floor: u64,
    /// Its last instant: what a TAT is beyond it was debt at the change.
    end: u64,
    /// Its burst tolerance.
    tau: u64,
    /// Its emission interval.
    interval: u64,
    /// Units of this epoch for each of the one before.
    ratio: Ratio,
    /// The most that debt of up to a burst becomes.
    most: u64,
}

impl Past {
    /// Where all values stand that are below `floor`: no debt is carried over.
    const fn forgotten(floor: u64) -> Self {
        Self { floor, end: 0, tau: 0, interval: 0, ratio: Ratio::ZERO, most: 0 }
    }

    /// The debt of a TAT of the epoch before, in units of this one.
    fn debt(self, tat: u64) -> u64 {
        let debt = tat.saturating_sub(self.end);
        let within = debt.min(self.tau);
        let beyond = debt - within;
        let within = self.ratio.rounded_up(within).min(self.most);
        within.saturating_add(self.ratio.rounded_up(beyond)).min(DEBT_MAX)
    }

    /// The part of `cost` units of the charge that left the TAT `charged` that had not drained at
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
    /// How far above the floor words are those of this epoch; the others are of the epoch before.
    span: u64,
    pub(super) time: Time,
    pub(super) gcra: Gcra,
    past: Past,
    pub(super) quota: Quota,
}

impl Epoch {
    /// The first epoch: no value is from before it.
    pub(super) fn first(quota: Quota, gcra: Gcra) -> Self {
        let time = Time { floor: ring::FIRST, ..Time::always(gcra.scale()) };
        Self { span: RING, time, gcra, past: Past::forgotten(ring::FIRST), quota }
    }

    /// The epoch of `quota`, whose rule is `gcra`, which begins at `at`, when no TAT of this one is
    /// above `highest`; `None` if that leaves too little of the ring, because this one has lasted
    /// for years: then it has to be [shortened](Self::shortened) first.
    pub(super) fn next(
        &self,
        quota: Quota,
        gcra: Gcra,
        inheritance: Inheritance,
        at: Timestamp,
        highest: u64,
    ) -> Option<Self> {
        let end = self.time.point(at);
        let (tau, interval) = (self.gcra.tau(), self.gcra.interval());
        let owed = highest.saturating_sub(end).clamp(tau, DEBT_MAX);
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
        let past = Past { floor: self.time.floor, end, tau, interval, ratio, most };
        let floor = ring::above(self.time.floor, end + owed + UNDER_WAY);
        let time = Time { scale, floor, base: scale.to_units(at.as_nanos()) };
        let next = Self { span: RING, time, gcra, past, quota };
        let span = RING.checked_sub(next.distance())?;
        (span >= SPAN_MIN).then_some(Self { span, ..next })
    }

    /// This epoch as if it had begun later, though not after `at`: values from before are fresh.
    pub(super) fn shortened(&self, at: Timestamp) -> Self {
        let Time { scale, floor, base } = self.time;
        let end = self.time.point(at);
        let later = ring::above(floor, end.min(RING - SPAN_MIN));
        let by = later.wrapping_sub(floor);
        let base = base.max(scale.to_units(at.as_nanos()).saturating_sub(end) + by);
        let time = Time { scale, floor: later, base };
        Self { span: RING - by, time, past: Past::forgotten(floor), ..*self }
    }

    /// This epoch once all words are its own.
    pub(super) const fn swept(self) -> Self {
        Self { span: RING, ..self }
    }

    pub(super) const fn span(&self) -> u64 {
        self.span
    }

    /// From the floor of the epoch before to that of this one, less than [`RING`].
    const fn distance(&self) -> u64 {
        self.time.floor.wrapping_sub(self.past.floor)
    }

    /// The TAT of a word's value, in terms of this epoch; 0 for one that is not live.
    pub(super) fn tat(&self, value: u64) -> u64 {
        match ring::tat(self.time.floor, value) {
            _ if value == 0 => 0,
            tat if tat < self.span => tat,
            _ => self.past.debt(ring::tat(self.past.floor, value)),
        }
    }

    /// As [`Epoch::tat`], for a value that may not be that of a word any more; 0 for one from
    /// before more than one change.
    ///
    /// A value of this epoch is at most [`AHEAD_MAX`] ahead of `now`. For a reading that is later
    /// than that it may seem fresh, and a value that was read years ago may seem to be of this one.
    pub(super) fn found(&self, value: u64, now: u64) -> u64 {
        let tat = ring::tat(self.time.floor, value);
        if value == 0 {
            return 0;
        }
        if tat <= now + AHEAD_MAX {
            return tat;
        }
        let before = ring::tat(self.past.floor, value);
        if before < self.distance() { self.past.debt(before) } else { 0 }
    }

    /// The value that replaces a word's from before this epoch; `None` for one of this epoch.
    pub(super) fn converted(&self, value: u64) -> Option<u64> {
        let is_before = value == 0 || ring::tat(self.time.floor, value) >= self.span;
        is_before.then(|| ring::value(self.time.floor, self.tat(value)))
    }

    /// The TAT after giving back `cost` units of the charge that left the value `charged`, as far
    /// as they still count; `None` when it stays the same. Units of a charge older than the epoch
    /// before no longer count.
    pub(super) fn give_back(&self, tat: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        if let Some(charged) = ring::whole_tat(self.time.floor, charged) {
            return self.gcra.give_back(tat, now, cost, charged);
        }
        let charged = ring::whole_tat(self.past.floor, charged)?;
        let left = self.past.debt(charged).saturating_sub(now);
        gcra::lowered(tat, now, self.past.returned(cost, charged).min(left))
    }

    pub(super) fn to_words(self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[SPAN] = self.span;
        words[TIME..RULE].copy_from_slice(&time_to_words(self.time));
        words[RULE..PAST].copy_from_slice(&self.gcra.to_words());
        words[PAST..QUOTA].copy_from_slice(&self.past.to_words());
        words[QUOTA..].copy_from_slice(&quota_to_words(self.quota));
        words
    }

    pub(super) fn from_words(words: [u64; WORDS]) -> Self {
        let time = time_from_words(part(&words, TIME));
        Self {
            span: words[SPAN],
            time,
            gcra: Gcra::from_words(time.scale, part(&words, RULE)),
            past: Past::from_words(part(&words, PAST)),
            quota: quota_from_words(part(&words, QUOTA)),
        }
    }
}

/// The `N` words from `start` on.
fn part<const N: usize>(words: &[u64; WORDS], start: usize) -> [u64; N] {
    core::array::from_fn(|index| words[start + index])
}

fn time_to_words(Time { scale, base, floor }: Time) -> [u64; TIME_WORDS] {
    let [units, nanos] = scale.to_words();
    [units, nanos, floor, base]
}

#[inline]
pub(super) fn time_from_words([units, nanos, floor, base]: [u64; TIME_WORDS]) -> Time {
    Time { scale: Scale::from_words([units, nanos]), floor, base }
}

impl Past {
    /// Words of [`Past::to_words`].
    const WORDS: usize = 7;

    fn to_words(self) -> [u64; Self::WORDS] {
        let Self { floor, end, tau, interval, ratio, most } = self;
        [floor, end, tau, interval, ratio.numerator, ratio.denominator, most]
    }

    fn from_words(
        [floor, end, tau, interval, numerator, denominator, most]: [u64; Self::WORDS],
    ) -> Self {
        Self { floor, end, tau, interval, ratio: Ratio { numerator, denominator }, most }
    }
}

fn quota_to_words(quota: Quota) -> [u64; QUOTA_WORDS] {
    let period = u64::try_from(quota.period().as_nanos()).unwrap_or(u64::MAX);
    // 0 for a quota that is not strict.
    let strict_limit = quota.strict_limit().map_or(0, NonZeroU64::get);
    [quota.count(), period, quota.burst_size(), strict_limit]
}

fn quota_from_words([count, period, burst, strict_limit]: [u64; QUOTA_WORDS]) -> Quota {
    let period = Duration::from_nanos(period);
    match strict_limit {
        0 => Quota::new(count, period).burst(burst),
        limit => Quota::strict(limit, period, burst),
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "epoch_tests.rs"]
mod tests;
