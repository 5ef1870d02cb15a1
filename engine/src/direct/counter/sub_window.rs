//! A sliding window in steps of a sub-window.

use core::time::Duration;

use crate::base::decision::Decision;
#[cfg(feature = "std")]
use crate::time::TscClock;
use crate::time::{Clock, DefaultClock, Timestamp};

use super::ring::{ChargeResult, Ring, Usage};
use super::span::Span;
use super::{CounterError, DEFAULT_SUB_WINDOWS, MAX_SUB_WINDOWS, window_nanos};

/// A limit on the units in any window of time, for one key: a window of N sub-windows that slides
/// one sub-window at a time.
///
/// # When to use it
/// For one key, when the limit must hold in every window and is too high for the 8 to 16 bytes per
/// unit of a [`SlidingLog`](crate::counter::SlidingLog). For many keys use a
/// [`Limiter`](crate::Limiter).
///
/// # Guarantees
/// * At most `limit` units are admitted in any interval as long as the window. The oldest
///   sub-window, which the interval may overlap in part, counts in full. The cost: a unit counts
///   for up to `window + window / N`, so steady demand gets at least `N / (N + 1)` of the limit.
/// * A check is admitted or denied as a whole by one exchange of one word. Nothing is rolled back,
///   so no check is denied because of another one that is denied too.
/// * A [`Reservation`](crate::Reservation) and a [`LimitSet`](crate::LimitSet) give back exactly
///   what they took, as long as it counts, in whichever sub-window it was charged; it is available
///   to others from then on. Only after a reset can a give-back release units that others were
///   charged since.
/// * Lock-free: a thread that stalls anywhere never blocks the others. A denial writes nothing,
///   except at most once per sub-window the position of the first units found, so that later
///   denials skip the empty sub-windows before it.
/// * A `now` that is earlier than that of another check mints nothing: its units count in the
///   latest sub-window so far. Between callers whose `now`s differ by up to `d`, the guarantee
///   holds for intervals of `window - d` of their readings.
/// * Readings beyond 2^61 ns (73 years) are clamped to it.
///
/// The sub-window is rounded up to a nanosecond. There is no refund without a receipt: without the
/// sub-window in which the units were admitted, a refund would be taken from the current one and
/// admit more than the limit later.
///
/// `reset_after` extends to the expiry of the newest units, including those given back since.
///
/// [`SubWindowCounter::snapshot`] preserves the counted units across a restart.
///
/// # Cost
/// 16 bytes for each of N + 1 sub-windows, plus 640 bytes on x86-64 with the default clock. A check
/// is O(1), a denial and the first check of a sub-window O(N). Every check is O(N) while the window
/// has units that were given back late, after the next sub-window was charged: it reads the returns
/// of each sub-window up to theirs.
///
/// # Edge cases
/// Units that are given back late are available to others, but occupy the counter's word until they
/// would have expired. A word holds at most `M` units, the highest limit that
/// [`SubWindowCounter::with_sub_windows`] accepts. So at most `M - limit` such units per window are
/// available to others; the rest count until they expire.
///
/// For a second in 60 sub-windows `M` is 16 777 215. With a limit of 16 000 000 that leaves 777 215
/// such units per window. A limit of up to `M / 1025` never reaches that bound, unless more than
/// the limit is charged.
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::counter::SubWindowCounter;
/// use tidegate_engine::ManualClock;
///
/// let clock = ManualClock::new();
/// let counter = SubWindowCounter::with_clock(100, Duration::from_secs(60), &clock)?;
/// assert!(counter.check_n(100).is_allowed());
/// assert_eq!(counter.check().retry_after(), Some(Duration::from_secs(61)));
/// clock.advance(Duration::from_secs(61));
/// assert!(counter.check().is_allowed());
/// # Ok::<(), tidegate_engine::counter::CounterError>(())
/// ```
#[derive(Debug)]
pub struct SubWindowCounter<C = DefaultClock> {
    pub(super) window: SubWindows,
    pub(super) clock: C,
}

#[cfg(feature = "std")]
impl SubWindowCounter {
    /// At most `limit` units per `window` of [`DEFAULT_SUB_WINDOWS`], on the time-stamp counter.
    /// Blocks for up to 200 ms if it makes the first [`TscClock`] of the process.
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

    /// As [`SubWindowCounter::with_clock`], with `sub_windows` from 1 to [`MAX_SUB_WINDOWS`]. A
    /// limit of 0 blocks: every cost above 0 is denied and can never fit. O(`sub_windows`).
    ///
    /// # Errors
    /// When the window is 0 or longer than
    /// [`MAX_COUNTER_WINDOW`](crate::counter::MAX_COUNTER_WINDOW), the number of sub-windows is out
    /// of range, the memory cannot be allocated, or the limit is too high. The maximum is
    /// `2^(62 - b) - 1`, where `b` is the number of binary digits of `floor(2^61 / w) + N + 1`, and
    /// `w` the length of a sub-window in nanoseconds, rounded up. That is one to two units per
    /// nanosecond of a sub-window: 16 777 215 for 60 sub-windows of a second, of 16.7 million
    /// nanoseconds each.
    pub fn with_sub_windows(
        limit: u64,
        window: Duration,
        sub_windows: u64,
        clock: C,
    ) -> Result<Self, CounterError> {
        Ok(Self { window: SubWindows::new(limit, window, sub_windows)?, clock })
    }

    /// Takes one unit if it fits.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Takes `cost` units if they fit, all or none. A cost of 0 is a [`SubWindowCounter::peek`].
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.check_at(cost, self.clock.now())
    }

    /// As [`SubWindowCounter::check_n`], at a time given by the caller, on the scale of the
    /// counter's clock.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        self.window.check(cost, self.window.instant(now))
    }

    /// The decision of a check that charges nothing: denied if even a cost of 1 has to wait for
    /// debt beyond the limit.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// Charges `cost` units whether or not they fit: for a cost that is known only after it was
    /// spent. Units beyond the limit count like others, and saturate at the capacity of a word,
    /// which is at least the limit. Returns the decision of a [`SubWindowCounter::peek`] right
    /// after.
    pub fn charge(&self, cost: u64) -> Decision {
        self.window.charge(cost, self.window.instant(self.clock.now()))
    }

    /// Erases all units. O(N) for the check that follows.
    pub fn reset(&self) {
        self.window.ring.reset(self.window.instant(self.clock.now()));
    }

    /// The limit, in units per window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.window.limit
    }

    /// The length of a window as enforced: its sub-windows are rounded up to a nanosecond.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.window.ring.span().window()
    }

    /// The number of sub-windows in a window.
    #[must_use]
    pub fn sub_windows(&self) -> u64 {
        self.window.ring.span().count()
    }

    /// The counter's clock.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Bytes of memory, all allocated at construction.
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

/// Units taken by a check.
pub(super) struct Taken {
    /// At least the requested units.
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
        Ok(Self { limit, ring: Ring::new(Span::new(limit, nanos, count)?, limit)? })
    }

    /// A reading on the scale of the ring.
    #[inline]
    pub(super) fn instant(&self, now: Timestamp) -> u64 {
        self.ring.span().instant(now)
    }

    #[inline]
    pub(super) fn check(&self, cost: u64, now: u64) -> Decision {
        if cost == 0 {
            return self.peek(now);
        }
        match self.take(cost, cost, now) {
            Ok(taken) => self.allowed(&taken.usage, now),
            Err(denied) => denied,
        }
    }

    /// Takes at least `least` units, and up to `most` if they fit.
    #[inline]
    pub(super) fn take(&self, least: u64, most: u64, now: u64) -> Result<Taken, Decision> {
        let Some(room) = self.limit.checked_sub(least) else { return Err(self.peek_n(least, now)) };
        let grant =
            |usage: &Usage| (usage.units <= room).then(|| most.min(self.limit - usage.units));
        match self.ring.charge(now, grant) {
            ChargeResult::Made { units, usage } => Ok(Taken { units, usage }),
            ChargeResult::Refused { usage, fits_after } => {
                Err(self.denied(&usage, fits_after, now))
            }
        }
    }

    /// The decision of a check of `cost` that charges nothing; for 0, whether usage is within the
    /// limit.
    pub(super) fn peek_n(&self, cost: u64, now: u64) -> Decision {
        let room = self.limit.checked_sub(cost);
        let fits = |usage: &Usage| room.is_none_or(|room| usage.units <= room);
        match self.ring.peek_n(now, fits) {
            (usage, _) if room.is_none() => {
                Decision::never(self.limit, self.left(&usage), self.reset_after(&usage, now))
            }
            (usage, 0) => self.allowed(&usage, now),
            (usage, fits_after) => self.denied(&usage, fits_after, now),
        }
    }

    pub(super) fn peek(&self, now: u64) -> Decision {
        self.peek_n(0, now)
    }

    pub(super) fn charge(&self, cost: u64, now: u64) -> Decision {
        if cost > 0 {
            self.add(cost, now);
        }
        self.peek(now)
    }

    /// Charges `cost` units, up to the capacity of the word.
    pub(super) fn add(&self, cost: u64, now: u64) {
        let most = self.ring.span().most_units();
        self.ring.charge(now, |usage| Some(cost.min(most - usage.charged)));
    }

    #[inline]
    pub(super) fn allowed(&self, usage: &Usage, now: u64) -> Decision {
        Decision::allowed(self.limit, self.left(usage), self.reset_after(usage, now))
    }

    fn denied(&self, usage: &Usage, fits_after: u64, now: u64) -> Decision {
        let reset_after = self.reset_after(usage, now);
        Decision::denied(self.limit, self.left(usage), fits_after, reset_after)
    }

    /// 0 when debt was charged beyond the limit.
    #[inline]
    fn left(&self, usage: &Usage) -> u64 {
        self.limit.saturating_sub(usage.units)
    }

    #[inline]
    fn reset_after(&self, usage: &Usage, now: u64) -> u64 {
        usage.reset_after(self.ring.span(), now)
    }
}
