//! A sliding window in steps of a sub-window.

use core::time::Duration;

use crate::builder::DefaultClock;
use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
#[cfg(feature = "std")]
use crate::tsc::TscClock;

use super::ring::{Charge, Ring, Usage};
use super::span::Span;
use super::{CounterError, DEFAULT_SUB_WINDOWS, MAX_SUB_WINDOWS, window_nanos};

/// A limit on the units of any window of time, for one key: a window of N sub-windows that slides in steps
/// of one.
///
/// # When to use it
/// When a limit must hold in every window, is too high for the 8 bytes a unit of a
/// [`SlidingLog`](crate::SlidingLog), and has one key. For many keys use a
/// [`Limiter`](crate::Limiter).
///
/// # Guarantees
/// * At most `limit` units are admitted in any interval as long as the window. The oldest sub-window, which
///   the interval may touch in part, counts as a whole. The price: a unit counts for up to
///   `window + window / N`, so steady demand gets at least `N / (N + 1)` of the limit.
/// * A check is admitted or denied as a whole by one exchange of one word. Nothing is
///   taken back, so nobody is denied because of somebody who is denied too.
/// * Lock-free: a thread that stops anywhere keeps nobody from deciding. A denial writes nothing.
/// * A `now` that is earlier than that of another check mints nothing: what it is admitted counts in the
///   latest sub-window so far. Between callers whose `now`s differ by up to `d`, the guarantee holds
///   for intervals of `window - d` of their readings.
/// * Readings beyond 2^61 ns (73 years) are taken for that one.
///
/// The sub-window is rounded up to a nanosecond. There is no refund: what was admitted in a sub-window that is
/// over can not be taken out of it while others decide by its count, and taking it out of the present one would
/// admit more than the limit later.
///
/// # Cost
/// 8 bytes a sub-window, and 384 bytes or less. A check is O(1), a denial and the first check of a sub-window O(N).
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::{ManualClock, SubWindowCounter};
///
/// let clock = ManualClock::new();
/// let counter = SubWindowCounter::with_clock(100, Duration::from_secs(60), &clock)?;
/// assert!(counter.check_n(100).is_allowed());
/// assert_eq!(counter.check().retry_after(), Some(Duration::from_secs(61)));
/// clock.advance(Duration::from_secs(61));
/// assert!(counter.check().is_allowed());
/// # Ok::<(), tidegate_engine::CounterError>(())
/// ```
#[derive(Debug)]
pub struct SubWindowCounter<C = DefaultClock> {
    window: SubWindows,
    clock: C,
}

#[cfg(feature = "std")]
impl SubWindowCounter {
    /// At most `limit` units each `window`, of [`DEFAULT_SUB_WINDOWS`], on the time-stamp counter.
    ///
    /// # Errors
    /// As [`SubWindowCounter::with_sub_windows`].
    pub fn new(limit: u64, window: Duration) -> Result<Self, CounterError> {
        Self::with_clock(limit, window, TscClock::new())
    }
}

impl<C: Clock> SubWindowCounter<C> {
    /// As [`SubWindowCounter::new`], on another clock.
    ///
    /// # Errors
    /// As [`SubWindowCounter::with_sub_windows`].
    pub fn with_clock(limit: u64, window: Duration, clock: C) -> Result<Self, CounterError> {
        Self::with_sub_windows(limit, window, DEFAULT_SUB_WINDOWS, clock)
    }

    /// As [`SubWindowCounter::with_clock`], with so many sub-windows, from 1 to [`MAX_SUB_WINDOWS`].
    /// A limit of 0 blocks: every cost above 0 is denied and can never fit.
    ///
    /// # Errors
    /// When the window is 0 or longer than [`MAX_COUNTER_WINDOW`](crate::MAX_COUNTER_WINDOW), the number of
    /// sub-windows is out of range, the memory is not to be had, or the limit is too high: above about two units each
    /// nanosecond of a sub-window, exactly when it takes more bits than a word has left beside the numbers of 2^61 ns
    /// of sub-windows.
    pub fn with_sub_windows(
        limit: u64,
        window: Duration,
        sub_windows: u64,
        clock: C,
    ) -> Result<Self, CounterError> {
        Ok(Self { window: SubWindows::new(limit, window, sub_windows)?, clock })
    }

    /// Asks for one unit.
    #[inline]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Asks for `cost` units and takes them when they fit, all or none. A cost of 0 is a
    /// [`SubWindowCounter::peek`].
    #[inline]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.check_at(cost, self.clock.now())
    }

    /// As [`SubWindowCounter::check_n`], at a time the caller gives, on the scale of the counter's clock.
    #[inline]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        self.window.check(cost, Span::instant(now.as_nanos()))
    }

    /// What a check would find, without charging anything.
    #[inline]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// Charges `cost` units whether or not they fit: for a cost that is known only when it has been spent.
    /// Units beyond the limit count like others, and saturate at the most a word can hold, which is at least
    /// the limit. The answer is that of a [`SubWindowCounter::peek`] straight after.
    pub fn charge(&self, cost: u64) -> Decision {
        self.window.charge(cost, Span::instant(self.clock.now().as_nanos()))
    }

    /// Forgets what has been admitted. O(N) for the check that follows.
    pub fn reset(&self) {
        self.window.ring.reset(Span::instant(self.clock.now().as_nanos()));
    }

    /// The units of a window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.window.limit
    }

    /// The clock that is read.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Bytes of memory, all of them taken when the counter is made.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<Ring>() + self.window.ring.memory_bytes()
    }
}

/// A limit on the units of a ring.
#[derive(Debug)]
pub(super) struct SubWindows {
    pub(super) limit: u64,
    pub(super) ring: Ring,
}

/// Units that were taken.
pub(super) struct Taken {
    /// What was asked for, or more.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "only blocks ask for more"))]
    pub(super) units: u64,
    pub(super) usage: Usage,
}

impl SubWindows {
    pub(super) fn new(limit: u64, window: Duration, count: u64) -> Result<Self, CounterError> {
        let nanos = window_nanos(window)?;
        if count == 0 || count > MAX_SUB_WINDOWS {
            return Err(CounterError::SubWindows);
        }
        Ok(Self { limit, ring: Ring::new(Span::new(limit, nanos, count)?)? })
    }

    #[inline]
    pub(super) fn check(&self, cost: u64, now: u64) -> Decision {
        if cost == 0 {
            return self.peek(now);
        }
        match self.take(cost, cost, now) {
            Ok(taken) => {
                let left = self.limit - taken.usage.units;
                Decision::allowed(self.limit, left, self.reset_after(&taken.usage, now))
            }
            Err(denied) => denied,
        }
    }

    /// Takes `least` units, and what else fits up to `most`.
    #[inline]
    pub(super) fn take(&self, least: u64, most: u64, now: u64) -> Result<Taken, Decision> {
        let Some(room) = self.limit.checked_sub(least) else {
            let seen = self.peek(now);
            let reset_after = u64::try_from(seen.reset_after().as_nanos()).unwrap_or(u64::MAX);
            return Err(Decision::never(self.limit, seen.remaining(), reset_after));
        };
        let grant = |used| (used <= room).then(|| most.min(self.limit - used));
        match self.ring.charge(now, room, grant) {
            Charge::Made { units, usage } => Ok(Taken { units, usage }),
            Charge::Refused { usage, fits_after } => {
                let left = self.limit.saturating_sub(usage.units);
                let reset_after = self.reset_after(&usage, now);
                Err(Decision::denied(self.limit, left, fits_after, reset_after))
            }
        }
    }

    pub(super) fn peek(&self, now: u64) -> Decision {
        let usage = self.ring.usage(now);
        let left = self.limit.saturating_sub(usage.units);
        Decision::allowed(self.limit, left, self.reset_after(&usage, now))
    }

    pub(super) fn charge(&self, cost: u64, now: u64) -> Decision {
        let most = self.ring.span().most_units();
        if cost > 0 {
            self.ring.charge(now, 0, |used| Some(cost.min(most - used)));
        }
        self.peek(now)
    }

    #[inline]
    fn reset_after(&self, usage: &Usage, now: u64) -> u64 {
        usage.reset_after(self.ring.span(), now)
    }
}
