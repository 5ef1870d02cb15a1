//! A counter that is trusted only as long as it agrees with the system's clock.
//!
//! The word `last` is the counter's reading at the last comparison, in ticks since the origin. A
//! reading before it, or at least `window` ticks after it, needs a comparison first: no such time
//! is returned unchecked. `window` is 0 once the counter is not trusted any more. `lag` is the
//! system's time less the counter's at the last comparison, or, once it is *final*, the system's
//! time less the clock's from then on. Several threads may compare at once; the first one's result
//! stays.
//!
//! # Why a delayed thread does no harm
//! `lag` and then `last` are replaced by compare-and-swap from the values with which the comparison
//! began. `last` only grows, so a delayed step on it fails. A delayed step on `lag` succeeds only
//! if the value is what it was, and then changes it by no more than the tolerance. A thread that
//! reads a new `lag` with the old `last` is more tolerant than it has to be. One that reads an old
//! `lag` with the new `last` may take the drift of a long time for a step; the lag has changed, so
//! its fallback fails and it compares again.
//!
//! To fall back is to make `lag` final, by the same compare-and-swap. So the fallback continues
//! from the lag in force at that moment: a thread that was stopped before its swap, while others
//! compared, fails and compares again; and one that found the counter good, while another fell
//! back, returns the fallback's time. Then `window` becomes 0 and stays so.
//!
//! A thread that still reads the old `window` returns the counter's time, at most `last` plus a
//! window, as it would have a moment earlier. That time is ahead of the fallback's by no more than
//! the counter has gained since the failed comparison, and by less than a window, which is how far
//! readings may differ. The fallback's own time is ahead of earlier comparisons by what the counter
//! had gained at the failed comparison, which is also less than a window.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | T1 last and window, each reading | relaxed | none: an old `last` causes one comparison too many; an old `window` is what an earlier reading had | - | - |
//! | T2 window, comparison | acquire | T5 | a fallback without its lag | `fallback-not-acquired` |
//! | T3 last, comparison, read and replaced | relaxed | none: nothing is concluded from an old lag, see above | - | - |
//! | T4 lag | relaxed | ordered by T2, T5; its lowest bit says whether it is final | - | `fallback-from-an-old-lag` |
//! | T5 window, fallback | release | T2 | as T2 | `fallback-released-late` |

use crossbeam_utils::CachePadded;

use crate::base::sync::{Arc, AtomicU64, Ordering};

/// The source of ticks and system time.
pub(super) trait TickSource {
    /// A counter that wraps around at 2^64.
    fn ticks(&self) -> u64;
    /// Nanoseconds since some moment, never going back.
    fn system_nanos(&self) -> u64;
}

/// Nanoseconds between two comparisons.
pub(super) const INTERVAL_NANOS: u64 = 1 << 27;
/// The tolerated disagreement, in nanoseconds: 1 ms.
const STEP_NANOS: i64 = 1_000_000;
/// The tolerated drift is one part in this many: 500 parts in a million.
const DRIFT: i64 = 2_000;
/// A comparison that takes at most this many ticks is not repeated: a few microseconds.
const QUICK_TICKS: i64 = 10_000;
/// How often a comparison is tried until it is quick enough.
const TRIES: usize = 8;

/// The window when the counter is not trusted.
const NONE: u64 = 0;

#[derive(Clone, Debug)]
pub(super) struct Checked<S> {
    source: S,
    rate: Rate,
    /// Ticks at the origin.
    origin: u64,
    /// The system's time at the origin.
    system_origin: u64,
    /// On its own cache line, which is written once an interval.
    shared: Arc<CachePadded<LastComparison>>,
}

#[derive(Debug)]
struct LastComparison {
    last: AtomicU64,
    window: AtomicU64,
    /// A [`Lag`].
    lag: AtomicU64,
}

/// The system's time less the clock's: nanoseconds, and in the lowest bit whether it is final.
#[derive(Clone, Copy)]
struct Lag(u64);

impl Lag {
    const FINAL: u64 = 1;

    const fn new(nanos: i64) -> Self {
        Self((nanos << 1) as u64)
    }

    const fn last(nanos: i64) -> Self {
        Self(Self::new(nanos).0 | Self::FINAL)
    }

    const fn is_final(self) -> bool {
        self.0 & Self::FINAL != 0
    }

    const fn nanos(self) -> i64 {
        self.0 as i64 >> 1
    }
}

/// One reading of both clocks: the counter before and after the system's clock was read, in
/// nanoseconds since the origin.
#[derive(Clone, Copy)]
struct Sample {
    earliest: i64,
    latest: i64,
    system: i64,
    ticks: u64,
}

impl<S: TickSource> Checked<S> {
    /// A clock whose origin is this moment; on the system's clock if `rate` is `None`.
    pub(super) fn new(source: S, rate: Option<Rate>) -> Self {
        let mut clock = Self {
            origin: source.ticks(),
            system_origin: source.system_nanos(),
            rate: rate.unwrap_or(Rate::NANOSECOND),
            source,
            shared: Arc::new(CachePadded::new(LastComparison {
                last: AtomicU64::new(0),
                window: AtomicU64::new(NONE),
                lag: AtomicU64::new(Lag::new(0).0),
            })),
        };
        match rate {
            None => clock.shared.lag.store(Lag::last(0).0, Ordering::Relaxed), // T4
            Some(rate) => {
                let Sample { ticks, system, .. } = clock.sample();
                clock.origin = clock.origin.wrapping_add(ticks);
                clock.system_origin += system as u64;
                clock.shared.window.store(rate.window, Ordering::Release); // T5
            }
        }
        clock
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        let ticks = self.source.ticks().wrapping_sub(self.origin);
        let since = ticks.wrapping_sub(self.shared.last.load(Ordering::Relaxed)); // T1
        // T1. A time before `last` wraps around, so it is beyond the window too.
        if since >= self.shared.window.load(Ordering::Relaxed) {
            return self.compare();
        }
        self.rate.nanos(ticks)
    }

    pub(super) fn is_fallback(&self) -> bool {
        Lag(self.shared.lag.load(Ordering::Relaxed)).is_final() // T4
    }

    /// The same clock, read from another source.
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
        // Each iteration but the last follows another thread's comparison.
        loop {
            if let Some(now) = self.try_compare() {
                return now;
            }
        }
    }

    /// [`Checked::compare`]; `None` when the counter was found bad, but the lag had changed
    /// meanwhile.
    fn try_compare(&self) -> Option<u64> {
        let LastComparison { last, window, lag } = &**self.shared;
        // T2
        if window.load(Ordering::Acquire) == NONE {
            return Some(self.fallback());
        }
        let compared = last.load(Ordering::Relaxed); // T3
        let old_lag = Lag(lag.load(Ordering::Relaxed)); // T4
        if old_lag.is_final() {
            return Some(self.fallback());
        }
        let last_lag = old_lag.nanos();
        let sample = self.sample();

        let since_last = sample.system - (self.rate.nanos(compared) as i64 + last_lag);
        let steady = sample.is_near(last_lag, since_last) && sample.is_near(0, sample.system);
        if !steady {
            // No time beyond the window has been returned.
            let latest_given =
                sample.latest.min(self.rate.nanos(compared + self.rate.window) as i64);
            let fell = self.fall_back(old_lag, last_lag.min(sample.system - latest_given));
            return fell.then(|| self.fallback());
        }
        let new_lag = Lag::new(
            last_lag.clamp(sample.system - sample.latest, sample.system - sample.earliest),
        );
        let replaced =
            lag.compare_exchange(old_lag.0, new_lag.0, Ordering::Relaxed, Ordering::Relaxed); // T4
        if replaced.is_err_and(|found| Lag(found).is_final()) {
            return Some(self.fallback());
        }
        // A processor whose counter is a little behind may still be before the origin.
        let now = if sample.earliest < 0 { 0 } else { sample.ticks };
        if now > compared {
            // T3
            let _ = last.compare_exchange(compared, now, Ordering::Relaxed, Ordering::Relaxed);
        }
        Some(self.rate.nanos(now))
    }

    /// Reads both clocks, if possible without an interruption in between.
    fn sample(&self) -> Sample {
        let compare = || {
            let before = self.source.ticks().wrapping_sub(self.origin);
            let system = self.source.system_nanos().saturating_sub(self.system_origin);
            let after = self.source.ticks().wrapping_sub(self.origin);
            (before, system as i64, after)
        };
        let width = |(before, _, after): (u64, _, u64)| (after.wrapping_sub(before) as i64).abs();
        let mut best = compare();
        for _ in 1..TRIES {
            if width(best) <= QUICK_TICKS {
                break;
            }
            let next = compare();
            best = if width(next) < width(best) { next } else { best };
        }
        let (before, system, after) = best;
        let (one, other) = (self.rate.signed_nanos(before), self.rate.signed_nanos(after));
        Sample { earliest: one.min(other), latest: one.max(other), system, ticks: before }
    }

    /// Uses the system's clock from now on, less `nanos`, if the lag is still `from`.
    fn fall_back(&self, from: Lag, nanos: i64) -> bool {
        let (from, to) = (from.0, Lag::last(nanos).0);
        // T4
        let fell = self.shared.lag.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        if fell.is_ok() {
            self.shared.window.store(NONE, Ordering::Release); // T5
        }
        fell.is_ok()
    }

    fn fallback(&self) -> u64 {
        let system = self.source.system_nanos().saturating_sub(self.system_origin) as i64;
        let lag = Lag(self.shared.lag.load(Ordering::Relaxed)).nanos(); // T4
        system.saturating_sub(lag).max(0) as u64
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

/// How ticks become nanoseconds: `high64((ticks << shift) * factor)`, one multiplication with an
/// error below one part in 10^15.
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

    /// For a clock whose ticks are not used.
    const NANOSECOND: Self = Self { factor: 1 << 63, shift: 1, window: INTERVAL_NANOS };

    /// `None` if ticks are too long or too short to be converted this way.
    pub(super) fn new(nanos: u64) -> Option<Self> {
        let shift = u64::BITS - (nanos >> Self::TICKS_BITS).leading_zeros();
        let factor = ((u128::from(nanos) << (u64::BITS - Self::TICKS_BITS)) >> shift) as u64;
        let window =
            ((u128::from(INTERVAL_NANOS) << u64::BITS) / u128::from(factor.max(1))) >> shift;
        // Below 10 MHz a comparison could not distinguish a step from a tick still to come; no
        // counter is above 100 GHz.
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
        let nanos = self.nanos((ticks as i64).unsigned_abs()) as i64;
        if (ticks as i64) < 0 { -nanos } else { nanos }
    }
}

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "checked_tests.rs"]
mod tests;
