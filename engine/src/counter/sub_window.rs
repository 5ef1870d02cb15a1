//! A sliding window in steps of a sub-window.

use core::time::Duration;

use crate::clock::{Clock, DefaultClock, Timestamp};
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
/// When a limit must hold in every window, is too high for the 8 to 16 bytes a unit of a
/// [`SlidingLog`](crate::SlidingLog), and has one key. For many keys use a
/// [`Limiter`](crate::Limiter).
///
/// # Guarantees
/// * At most `limit` units are admitted in any interval as long as the window. The oldest sub-window, which
///   the interval may touch in part, counts as a whole. The price: a unit counts for up to
///   `window + window / N`, so steady demand gets at least `N / (N + 1)` of the limit.
/// * A check is admitted or denied as a whole by one exchange of one word. It takes nothing
///   back, so nobody is denied because of a check that is denied too.
/// * A [`Reservation`](crate::Reservation) and a [`LimitSet`](crate::LimitSet) give back exactly what they took, as long as it
///   counts, in whichever sub-window that was; what is given back is there for others from then on. Only after a reset can
///   it be taken from what others were charged since.
/// * Lock-free: a thread that stops anywhere keeps nobody from deciding. A denial writes nothing but,
///   once a sub-window at most, from where on it has found units: so only the first of several looks past the empty ones.
/// * A `now` that is earlier than that of another check mints nothing: what it is admitted counts in the
///   latest sub-window so far. Between callers whose `now`s differ by up to `d`, the guarantee holds
///   for intervals of `window - d` of their readings.
/// * Readings beyond 2^61 ns (73 years) are taken for that one.
///
/// The sub-window is rounded up to a nanosecond. There is no refund without a receipt: who does not say in which
/// sub-window the units were admitted would have them taken out of the present one, and admit more than the limit later.
///
/// `reset_after` runs to the end of the newest units that count or were given back since.
///
/// [`SubWindowCounter::snapshot`] keeps over a restart what counts.
///
/// # Cost
/// 16 bytes for each of N + 1 sub-windows, and on x86-64 640 bytes with the default clock. A check is O(1), a denial and the first
/// check of a sub-window O(N). Every check is O(N) while units still lie in the window that were given back after the next
/// sub-window was charged: it reads what was given back of each sub-window up to theirs.
///
/// # Edge cases
/// Units that are given back after the next sub-window was charged are there for others, but keep their place in the
/// counter's word until they would have expired. A word holds `M` units at most, the highest limit that
/// [`SubWindowCounter::with_sub_windows`] takes. So in a window at most `M - limit` such units are there for others; the
/// rest of them count until they expire.
///
/// A second in 60 sub-windows has an `M` of 16 777 215. Beside a limit of 16 000 000 there is room for 777 215 such units in a
/// window. A limit of up to `M / 1025` never comes so far, unless more is charged than the limit.
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
    pub(super) window: SubWindows,
    pub(super) clock: C,
}

#[cfg(feature = "std")]
impl SubWindowCounter {
    /// At most `limit` units each `window`, of [`DEFAULT_SUB_WINDOWS`], on the time-stamp counter. Blocks for up to 200 ms
    /// where it makes the first [`TscClock`] of the process.
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
    /// A limit of 0 blocks: every cost above 0 is denied and can never fit. O(`sub_windows`).
    ///
    /// # Errors
    /// When the window is 0 or longer than [`MAX_COUNTER_WINDOW`](crate::MAX_COUNTER_WINDOW), the number of
    /// sub-windows is out of range, the memory is not to be had, or the limit is too high. It is at most `2^(62 - b) - 1`,
    /// where `b` is the number of binary digits of `floor(2^61 / w) + N + 1`, and `w` the length of a sub-window in
    /// nanoseconds, rounded up. That is from one to two units for each nanosecond of a sub-window: 16 777 215
    /// for 60 sub-windows of a second, of 16.7 million nanoseconds each.
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
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Asks for `cost` units and takes them when they fit, all or none. A cost of 0 is a
    /// [`SubWindowCounter::peek`].
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.check_at(cost, self.clock.now())
    }

    /// As [`SubWindowCounter::check_n`], at a time the caller gives, on the scale of the counter's clock.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        self.window.check(cost, self.window.instant(now))
    }

    /// What a check would find, without charging anything: denied where even a cost of 1 has to wait for debt beyond
    /// the limit.
    #[inline]
    #[must_use = "a decision that is not looked at limits nothing"]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// Charges `cost` units whether or not they fit: for a cost that is known only when it has been spent.
    /// Units beyond the limit count like others, and saturate at the most a word can hold, which is at least
    /// the limit. The answer is that of a [`SubWindowCounter::peek`] straight after.
    pub fn charge(&self, cost: u64) -> Decision {
        self.window.charge(cost, self.window.instant(self.clock.now()))
    }

    /// Forgets what has been admitted. O(N) for the check that follows.
    pub fn reset(&self) {
        self.window.ring.reset(self.window.instant(self.clock.now()));
    }

    /// The units of a window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.window.limit
    }

    /// The length of a window, as it is enforced: its sub-windows are rounded up to a nanosecond.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.window.ring.span().window()
    }

    /// Into how many parts the window is divided.
    #[must_use]
    pub fn sub_windows(&self) -> u64 {
        self.window.ring.span().count()
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
        Ok(Self { limit, ring: Ring::new(Span::new(limit, nanos, count)?, limit)? })
    }

    /// A point in time on the scale of the ring.
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

    /// Takes `least` units, and what else fits up to `most`.
    #[inline]
    pub(super) fn take(&self, least: u64, most: u64, now: u64) -> Result<Taken, Decision> {
        let Some(room) = self.limit.checked_sub(least) else { return Err(self.look(least, now)) };
        let grant =
            |usage: &Usage| (usage.units <= room).then(|| most.min(self.limit - usage.units));
        match self.ring.charge(now, grant) {
            Charge::Made { units, usage } => Ok(Taken { units, usage }),
            Charge::Refused { usage, fits_after } => Err(self.denied(&usage, fits_after, now)),
        }
    }

    /// What a check of `cost` would find; of 0, whether the units that count are within the limit.
    pub(super) fn look(&self, cost: u64, now: u64) -> Decision {
        let room = self.limit.checked_sub(cost);
        let fits = |usage: &Usage| room.is_none_or(|room| usage.units <= room);
        match self.ring.look(now, fits) {
            (usage, _) if room.is_none() => {
                Decision::never(self.limit, self.left(&usage), self.reset_after(&usage, now))
            }
            (usage, 0) => self.allowed(&usage, now),
            (usage, fits_after) => self.denied(&usage, fits_after, now),
        }
    }

    pub(super) fn peek(&self, now: u64) -> Decision {
        self.look(0, now)
    }

    pub(super) fn charge(&self, cost: u64, now: u64) -> Decision {
        if cost > 0 {
            self.add(cost, now);
        }
        self.peek(now)
    }

    /// Charges `cost` units as far as the word holds them.
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

    /// None where debt was charged beyond the limit.
    #[inline]
    fn left(&self, usage: &Usage) -> u64 {
        self.limit.saturating_sub(usage.units)
    }

    #[inline]
    fn reset_after(&self, usage: &Usage, now: u64) -> u64 {
        usage.reset_after(self.ring.span(), now)
    }
}
