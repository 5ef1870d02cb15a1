//! A counter that is believed only as long as it agrees with the system's clock.
//!
//! The word `last` is the counter's reading at the last comparison, in ticks since the origin. A
//! reading before it, or at least `window` ticks after it, asks for a comparison first: nobody is
//! told such a time unchecked. `window` is 0 once the counter is not believed any more. `lag` is
//! the system's time less the counter's at the last comparison. Several threads may compare at
//! once; the first one's result stays.
//!
//! # Why a delayed thread does no harm
//! `lag` and then `last` are replaced by compare-and-swap from what the comparison began with.
//! `last` only grows, so a delayed step of it fails. A delayed step of `lag` succeeds only if the
//! value is what it was, and then changes it by no more than was found tolerable. A thread that
//! meets a new `lag` with the old `last` is more generous than it has to be; the reverse it can not
//! meet. `window` becomes 0 at any time and stays so.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker |
//! |---|---|---|---|
//! | T1 last and window, each reading | relaxed | none: an old `last` asks for a comparison too many; an old `window` is what a reading a moment earlier had | - |
//! | T2 window, comparison | acquire | T6 | a fallback without its lead |
//! | T3 last, comparison | acquire | T5 | a lag from before the last comparison: a drift over a long time looks like a step |
//! | T4 lag, lead | relaxed | ordered by T2, T3, T5, T6 | - |
//! | T5 last, after a comparison | release | T3 | as T3 |
//! | T6 window, fallback | release | T2 | as T2 |

use crossbeam_utils::CachePadded;

use crate::sync::{Arc, AtomicU64, Ordering};

/// Where ticks and system time come from.
pub(super) trait Source {
    /// A counter that wraps around at 2^64.
    fn ticks(&self) -> u64;
    /// Nanoseconds since some moment, never going back.
    fn system_nanos(&self) -> u64;
}

/// Nanoseconds between two comparisons.
pub(super) const INTERVAL_NANOS: u64 = 1 << 27;
/// A disagreement that is none, in nanoseconds: 1 ms.
const STEP_NANOS: i64 = 1_000_000;
/// A drift of one part in so many is none: 500 parts in a million.
const DRIFT: i64 = 2_000;
/// A comparison that took no longer than so many ticks needs no second try: a few microseconds.
const QUICK_TICKS: i64 = 10_000;
/// How often a comparison is tried until it is quick.
const TRIES: usize = 8;

/// The window when the counter is not believed.
const NONE: u64 = 0;

#[derive(Clone, Debug)]
pub(super) struct Checked<S> {
    source: S,
    rate: Rate,
    /// Ticks at the origin.
    origin: u64,
    /// The system's time at the origin.
    system_origin: u64,
    /// On a line of its own, which is written once an interval.
    shared: Arc<CachePadded<Shared>>,
}

#[derive(Debug)]
struct Shared {
    last: AtomicU64,
    window: AtomicU64,
    /// An `i64`.
    lag: AtomicU64,
    /// What the fallback adds to the system's time: an `i64`, or `UNSET`.
    lead: AtomicU64,
}

const UNSET: u64 = i64::MIN.cast_unsigned();

/// One look at both clocks: the counter before and after the system's clock was read, in
/// nanoseconds since the origin.
#[derive(Clone, Copy)]
struct Sample {
    earliest: i64,
    latest: i64,
    system: i64,
    ticks: u64,
}

impl<S: Source> Checked<S> {
    /// A clock that begins now; on the system's clock if `rate` is `None`.
    pub(super) fn new(source: S, rate: Option<Rate>) -> Self {
        let mut clock = Self {
            origin: source.ticks(),
            system_origin: source.system_nanos(),
            rate: rate.unwrap_or(Rate::NANOSECOND),
            source,
            shared: Arc::new(CachePadded::new(Shared {
                last: AtomicU64::new(0),
                window: AtomicU64::new(NONE),
                lag: AtomicU64::new(0),
                lead: AtomicU64::new(UNSET),
            })),
        };
        match rate {
            None => clock.fall_back(0),
            Some(rate) => {
                let Sample { ticks, system, .. } = clock.sample();
                clock.origin = clock.origin.wrapping_add(ticks);
                clock.system_origin += system.cast_unsigned();
                clock.shared.window.store(rate.window, Ordering::Release);
            }
        }
        clock
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        let ticks = self.source.ticks().wrapping_sub(self.origin);
        let since = ticks.wrapping_sub(self.shared.last.load(Ordering::Relaxed));
        // What lies before wraps around, so it is beyond the window as well.
        if since >= self.shared.window.load(Ordering::Relaxed) {
            return self.compare();
        }
        self.rate.nanos(ticks)
    }

    pub(super) fn is_fallback(&self) -> bool {
        self.shared.window.load(Ordering::Relaxed) == NONE
    }

    /// The same clock as it is read from another source.
    #[cfg(all(test, loom))]
    pub(super) fn at(&self, source: S) -> Self
    where
        S: Clone,
    {
        Self { source, ..self.clone() }
    }

    /// The reading after a comparison with the system's clock.
    #[cold]
    #[inline(never)]
    fn compare(&self) -> u64 {
        let Shared { last, window, lag, .. } = &**self.shared;
        if window.load(Ordering::Acquire) == NONE {
            return self.fallback();
        }
        let compared = last.load(Ordering::Acquire);
        let last_lag = lag.load(Ordering::Relaxed).cast_signed();
        let sample = self.sample();

        let since_last = sample.system - (self.rate.nanos(compared).cast_signed() + last_lag);
        let steady = sample.is_near(last_lag, since_last) && sample.is_near(0, sample.system);
        if !steady {
            // Nothing beyond the window has been told.
            let told =
                sample.latest.min(self.rate.nanos(compared + self.rate.window).cast_signed());
            self.fall_back((sample.system - last_lag).max(told) - sample.system);
            return self.fallback();
        }
        let new_lag =
            last_lag.clamp(sample.system - sample.latest, sample.system - sample.earliest);
        let (from, to) = (last_lag.cast_unsigned(), new_lag.cast_unsigned());
        let _ = lag.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        // A processor whose counter is a little behind may be before the origin yet.
        let now = if sample.earliest < 0 { 0 } else { sample.ticks };
        if now > compared {
            let _ = last.compare_exchange(compared, now, Ordering::Release, Ordering::Relaxed);
        }
        self.rate.nanos(now)
    }

    /// Looks at both clocks, if possible without being interrupted in between.
    fn sample(&self) -> Sample {
        let look = || {
            let before = self.source.ticks().wrapping_sub(self.origin);
            let system = self.source.system_nanos().saturating_sub(self.system_origin);
            let after = self.source.ticks().wrapping_sub(self.origin);
            (before, system.cast_signed(), after)
        };
        let width =
            |(before, _, after): (u64, _, u64)| after.wrapping_sub(before).cast_signed().abs();
        let mut best = look();
        for _ in 1..TRIES {
            if width(best) <= QUICK_TICKS {
                break;
            }
            let next = look();
            best = if width(next) < width(best) { next } else { best };
        }
        let (before, system, after) = best;
        let (one, other) = (self.rate.signed_nanos(before), self.rate.signed_nanos(after));
        Sample { earliest: one.min(other), latest: one.max(other), system, ticks: before }
    }

    /// Uses the system's clock from now on, set `lead` nanoseconds ahead.
    fn fall_back(&self, lead: i64) {
        let lead = lead.cast_unsigned();
        let lead_word = &self.shared.lead;
        // The first thread's lead stays.
        let _ = lead_word.compare_exchange(UNSET, lead, Ordering::Relaxed, Ordering::Relaxed);
        self.shared.window.store(NONE, Ordering::Release);
    }

    fn fallback(&self) -> u64 {
        let system = self.source.system_nanos().saturating_sub(self.system_origin).cast_signed();
        let lead = self.shared.lead.load(Ordering::Relaxed).cast_signed();
        system.saturating_add(lead).max(0).cast_unsigned()
    }
}

impl Sample {
    /// Whether the lag may still be what it was `elapsed` nanoseconds ago.
    fn is_near(&self, lag: i64, elapsed: i64) -> bool {
        let tolerance = STEP_NANOS + elapsed.max(0) / DRIFT;
        let (least, most) = (self.system - self.latest, self.system - self.earliest);
        lag >= least.saturating_sub(tolerance) && lag <= most.saturating_add(tolerance)
    }
}

/// How ticks become nanoseconds: `high64((ticks << shift) * factor)`, one multiplication that is off
/// by less than one part in 10^15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Nanoseconds in 2^(64 - shift) ticks, in `[2^63, 2^64)` where a shift is needed.
    factor: u64,
    shift: u32,
    /// Ticks between two comparisons.
    window: u64,
}

/// Counters of x86-64 processors are faster than 1 GHz and need no shift.
const SHIFTS: bool = cfg!(any(test, not(target_arch = "x86_64")));

impl Rate {
    /// A rate is given as the nanoseconds in 2^`TICKS_BITS` ticks.
    pub(super) const TICKS_BITS: u32 = 56;

    /// For a clock whose ticks nobody reads.
    const NANOSECOND: Self = Self { factor: 1 << 63, shift: 1, window: INTERVAL_NANOS };

    /// `None` if ticks are too long or too short to be told in nanoseconds this way.
    pub(super) fn new(nanos: u64) -> Option<Self> {
        let shift = u64::BITS - (nanos >> Self::TICKS_BITS).leading_zeros();
        let factor = ((u128::from(nanos) << (u64::BITS - Self::TICKS_BITS)) >> shift) as u64;
        let window =
            ((u128::from(INTERVAL_NANOS) << u64::BITS) / u128::from(factor.max(1))) >> shift;
        // Slower than 10 MHz a comparison could not tell a step from a tick that has not come yet;
        // faster than 100 GHz nothing is.
        let plausible = (INTERVAL_NANOS / 100..=INTERVAL_NANOS * 100).contains(&(window as u64));
        let usable = plausible && window >> u64::BITS == 0 && (SHIFTS || shift == 0);
        usable.then_some(Self { factor, shift, window: window as u64 })
    }

    #[inline]
    fn nanos(self, ticks: u64) -> u64 {
        let ticks = if SHIFTS { ticks << self.shift } else { ticks };
        ((u128::from(ticks) * u128::from(self.factor)) >> u64::BITS) as u64
    }

    /// Ticks before the origin wrap around.
    fn signed_nanos(self, ticks: u64) -> i64 {
        let nanos = self.nanos(ticks.cast_signed().unsigned_abs()).cast_signed();
        if ticks.cast_signed() < 0 { -nanos } else { nanos }
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "checked_tests.rs"]
mod tests;
