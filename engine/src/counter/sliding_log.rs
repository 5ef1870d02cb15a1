//! An exact log of when each unit was admitted: what callers see of it.

use core::time::Duration;

use crate::clock::{Clock, DefaultClock, Timestamp};
use crate::decision::Decision;
#[cfg(feature = "std")]
use crate::tsc::TscClock;

use super::log::Log;
use super::{CounterError, window_nanos};

/// The largest limit of a [`SlidingLog`], in units: 2^24 - 1, a log of 128 MiB.
pub const MAX_LOG_UNITS: u64 = (1 << 24) - 1;

/// Readings beyond this are taken for this one: 2^62 ns, 146 years.
const HORIZON: u64 = 1 << 62;

/// An exact limit on the units of any window of time, for one key: a log of when each of the last `limit` units
/// was admitted.
///
/// # When to use it
/// When a limit of up to some thousands must be exact. Higher ones cost less memory in a
/// [`SubWindowCounter`](crate::SubWindowCounter).
///
/// # Guarantees
/// * At most `limit` units are admitted in any interval `[t, t + window)` of the readings `now` of their checks,
///   also where readings of different threads differ or go back. Where they do not, a check that does not meet
///   another is denied only if it would break that. A unit whose reading is earlier than one before it counts from
///   the later reading: for longer, never for less.
/// * A thread that is held up between its reading and its decision is not denied for the sake of units that
///   others were admitted at later readings: it reads the clock again. [`SlidingLog::check_at`] does not.
/// * A cost is admitted or denied as a whole. Nothing is taken back.
/// * Lock-free: a thread that stops anywhere keeps nobody from deciding. A denial
///   writes nothing.
/// * Where checks meet, a unit may count from the reading of a check that met its own, if that is later: for
///   longer, never for less.
///
/// There is no refund, no reservation and no place in a [`LimitSet`](crate::LimitSet). A check is decided by the unit that
/// stands `limit` places before its own, and places are given once: one whose unit was taken back would go on counting, and to
/// close the gap the others would have to move while checks are decided by them. To ask several limits and a log,
/// reserve the others, ask the log last, and commit: `LimitSet` shows it. Nothing is charged beyond the limit either.
///
/// [`SlidingLog::snapshot`] keeps over a restart what counts.
///
/// # Cost
/// 8 bytes for each unit of the next power of two above the limit, so 8 to 16 bytes a unit of the limit. A check of one unit
/// is two exchanges, and O(1) as long as few units expire between two checks; else O(log limit), and O(cost) for a higher
/// cost.
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::{ManualClock, SlidingLog};
///
/// let clock = ManualClock::new();
/// let log = SlidingLog::with_clock(2, Duration::from_secs(10), &clock)?;
/// assert!(log.check().is_allowed());
/// clock.advance(Duration::from_secs(4));
/// assert!(log.check().is_allowed());
/// assert_eq!(log.check().retry_after(), Some(Duration::from_secs(6)));
/// assert_eq!(log.check_n(2).retry_after(), Some(Duration::from_secs(10)));
/// # Ok::<(), tidegate_engine::CounterError>(())
/// ```
#[derive(Debug)]
pub struct SlidingLog<C = DefaultClock> {
    pub(super) log: Log,
    clock: C,
}

#[cfg(feature = "std")]
impl SlidingLog {
    /// At most `limit` units each `window`, on the time-stamp counter. O(limit). Blocks for up to 200 ms where it makes the
    /// first [`TscClock`] of the process.
    ///
    /// # Errors
    /// As [`SlidingLog::with_clock`].
    pub fn new(limit: u64, window: Duration) -> Result<Self, CounterError> {
        Self::with_clock(limit, window, TscClock::new())
    }
}

impl<C: Clock> SlidingLog<C> {
    /// As [`SlidingLog::new`], on another clock. A limit of 0 blocks: every cost above 0 is denied and can
    /// never fit. O(limit).
    ///
    /// # Errors
    /// When the window is 0 or longer than [`MAX_COUNTER_WINDOW`](crate::MAX_COUNTER_WINDOW), the limit is
    /// above [`MAX_LOG_UNITS`], or the memory is not to be had.
    pub fn with_clock(limit: u64, window: Duration, clock: C) -> Result<Self, CounterError> {
        Ok(Self { log: Log::new(limit, window_nanos(window)?)?, clock })
    }

    /// Asks for one unit.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Asks for `cost` units and takes them when they fit, all or none. A cost of 0 is a
    /// [`SlidingLog::peek`].
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.log.check(cost, self.now(), || self.now())
    }

    /// As [`SlidingLog::check_n`], at a time the caller gives, on the scale of the log's clock.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        self.log.check_at(cost, self.instant(now))
    }

    /// What a check would find, without charging anything.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// Forgets what has been admitted before this call. Two resets and all units in between within one nanosecond put
    /// the log's time 1 ns ahead.
    pub fn reset(&self) {
        self.log.reset();
    }

    /// The units of a window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.log.limit()
    }

    /// The length of a window.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.log.window())
    }

    /// The clock that is read.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Bytes of memory, all of them taken when the log is made.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.log.entry_bytes()
    }

    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.instant(self.clock.now())
    }

    /// A point in time on the scale of the log. It begins a window before the clock's, so that what was admitted before a
    /// restart and still counts has a time.
    #[inline]
    pub(super) fn instant(&self, now: Timestamp) -> u64 {
        now.as_nanos().min(HORIZON) + self.log.window()
    }
}
