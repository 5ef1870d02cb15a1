//! The public interface of the exact log of when each unit was admitted.

use core::time::Duration;

use crate::base::decision::Decision;
#[cfg(feature = "std")]
use crate::time::TscClock;
use crate::time::{Clock, DefaultClock, Timestamp};

use super::log::Log;
use super::{CounterError, window_nanos};

/// Later readings are clamped to this one: 2^62 ns, 146 years.
const HORIZON: u64 = 1 << 62;

/// An exact limit on the units in any window of time, for one key: a log of when each of the last
/// `limit` units was admitted.
///
/// # When to use it
/// When a limit of up to some thousands must be exact. Higher limits take less memory in a
/// [`SubWindowCounter`](crate::counter::SubWindowCounter).
///
/// # Guarantees
/// * At most `limit` units are admitted in any interval `[t, t + window)` of the readings `now` of
///   their checks, even if readings of different threads differ or go back. If they do not, a check
///   without a concurrent one is denied only if it would exceed the limit. A unit whose reading is
///   earlier than that of a unit before it counts from the later reading: for longer, never for
///   less.
/// * A thread that is delayed between its reading and its decision is not denied because of units
///   admitted at later readings: it reads the clock again. [`SlidingLog::check_at`] does not.
/// * A cost is admitted or denied as a whole. Nothing is rolled back.
/// * Lock-free: a thread that stalls anywhere never blocks the others. A denial writes nothing.
/// * With concurrent checks a unit may count from the reading of one of them, if that is later: for
///   longer, never for less.
///
/// There is no refund and no reservation, and a log cannot be part of a
/// [`LimitSet`](crate::LimitSet). A check is decided by the unit `limit` numbers before its own,
/// and numbers are assigned once: a refunded unit would go on counting, and closing the gap would
/// move entries that concurrent checks depend on. To combine a log with other limits, reserve
/// those, check the log last, and commit, as `LimitSet` shows. Nothing is charged beyond the limit
/// either.
///
/// [`SlidingLog::snapshot`] preserves the counted units across a restart.
///
/// # Cost
/// 8 bytes for each of the next power of two above the limit, so 8 to 16 bytes per unit of the
/// limit. A check of one unit is two exchanges, and O(1) as long as few units expire between two
/// checks, else O(log limit). A higher cost adds O(cost).
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::counter::SlidingLog;
/// use tidegate_engine::ManualClock;
///
/// let clock = ManualClock::new();
/// let log = SlidingLog::with_clock(2, Duration::from_secs(10), &clock)?;
/// assert!(log.check().is_allowed());
/// clock.advance(Duration::from_secs(4));
/// assert!(log.check().is_allowed());
/// assert_eq!(log.check().retry_after(), Some(Duration::from_secs(6)));
/// assert_eq!(log.check_n(2).retry_after(), Some(Duration::from_secs(10)));
/// # Ok::<(), tidegate_engine::counter::CounterError>(())
/// ```
#[derive(Debug)]
pub struct SlidingLog<C = DefaultClock> {
    pub(super) log: Log,
    clock: C,
}

#[cfg(feature = "std")]
impl SlidingLog {
    /// At most `limit` units per `window`, on the time-stamp counter. O(limit). Blocks for up to
    /// 200 ms if it makes the first [`TscClock`] of the process.
    ///
    /// # Errors
    /// As [`SlidingLog::with_clock`].
    pub fn new(limit: u64, window: Duration) -> Result<Self, CounterError> {
        Self::with_clock(limit, window, TscClock::new())
    }
}

impl<C: Clock> SlidingLog<C> {
    /// As [`SlidingLog::new`], on another clock. A limit of 0 blocks: every cost above 0 is denied
    /// and can never fit. O(limit).
    ///
    /// # Errors
    /// When the window is 0 or longer than
    /// [`MAX_COUNTER_WINDOW`](crate::counter::MAX_COUNTER_WINDOW), the limit is above
    /// [`MAX_LOG_UNITS`](crate::counter::MAX_LOG_UNITS), or the memory cannot be allocated.
    pub fn with_clock(limit: u64, window: Duration, clock: C) -> Result<Self, CounterError> {
        Ok(Self { log: Log::new(limit, window_nanos(window)?)?, clock })
    }

    /// Takes one unit if it fits.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Takes `cost` units if they fit, all or none. A cost of 0 is a [`SlidingLog::peek`].
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.log.check(cost, self.now(), || self.now())
    }

    /// As [`SlidingLog::check_n`], at a time given by the caller, on the scale of the log's clock.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        self.log.check_at(cost, self.instant(now))
    }

    /// The decision of a check that charges nothing.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// Erases the units admitted before this call. Two resets, with all units between them within
    /// one nanosecond, put the log's time 1 ns ahead.
    pub fn reset(&self) {
        self.log.reset();
    }

    /// The limit, in units per window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.log.limit()
    }

    /// The length of a window.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.log.window())
    }

    /// The log's clock.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Bytes of memory, all allocated at construction.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.log.entry_bytes()
    }

    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.instant(self.clock.now())
    }

    /// A reading on the scale of the log, which starts one window before the clock's, so that units
    /// admitted before a restart that still count have a time.
    #[inline]
    pub(super) fn instant(&self, now: Timestamp) -> u64 {
        now.as_nanos().min(HORIZON) + self.log.window()
    }
}
