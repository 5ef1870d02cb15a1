//! How long a call may wait.

use core::time::Duration;

use crate::rule::gcra::Scale;
use crate::time::Timestamp;

use super::charge::Start;

/// How long a call may wait: a longest time or a deadline, and a jitter to spread starts.
///
/// There is no unbounded wait. A [`Duration`] converts into the longest time, and is all that a
/// [`Concurrency`](crate::Concurrency) takes: it has no clock for a deadline, and starts there are
/// spread by the calls that end, so jitter would only leave permits idle.
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::wait::Wait;
/// use tidegate_engine::{Concurrency, Limiter, Quota};
///
/// let limiter = Limiter::builder(Quota::per_second(1_000).burst(1)).capacity(100).build()?;
/// let longest = Duration::from_millis(500);
/// assert!(limiter.acquire_blocking("user:42", 1, longest).is_allowed());
/// let spread = Wait::at_most(longest).jitter(Duration::from_millis(5));
/// assert!(limiter.acquire_blocking("user:42", 1, spread).is_allowed());
/// assert!(Concurrency::new(1).acquire_blocking(1, longest).is_ok());
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    bound: Bound,
    jitter: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    AtMost(Duration),
    Until(Deadline),
}

/// A latest start: a [`Timestamp`] on the scale of the limiter's clock, or, with the feature `std`,
/// an [`Instant`](std::time::Instant).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(At);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Clock(Timestamp),
    #[cfg(feature = "std")]
    Instant(std::time::Instant),
}

impl From<Timestamp> for Deadline {
    fn from(time: Timestamp) -> Self {
        Self(At::Clock(time))
    }
}

#[cfg(feature = "std")]
impl From<std::time::Instant> for Deadline {
    fn from(time: std::time::Instant) -> Self {
        Self(At::Instant(time))
    }
}

impl Deadline {
    /// The time until then, from `now` on; zero once it has passed.
    fn since(self, now: Timestamp) -> Duration {
        match self.0 {
            At::Clock(time) => time.since(now),
            #[cfg(feature = "std")]
            At::Instant(time) => time.saturating_duration_since(std::time::Instant::now()),
        }
    }
}

impl Wait {
    /// Starts at most `longest` after the place in line is taken; zero means at once or not at all.
    /// `enqueue` and `acquire_blocking` take the place in the call, the future of `acquire` when it
    /// is first polled.
    #[must_use]
    pub const fn at_most(longest: Duration) -> Self {
        Self { bound: Bound::AtMost(longest), jitter: Duration::ZERO }
    }

    /// Starts no later than `deadline`; if it has passed, at once or not at all.
    ///
    /// A [`Timestamp`] is on the scale of the limiter's clock; one of another clock is off by the
    /// difference of their origins, and so is the longest wait. An `Instant` is compared with the
    /// present one when the place is taken. Starts stay within what the limiter admits.
    #[must_use]
    pub fn until(deadline: impl Into<Deadline>) -> Self {
        Self { bound: Bound::Until(deadline.into()), jitter: Duration::ZERO }
    }

    /// Delays a start that has to wait by a random time, uniform up to `most` and never past the
    /// deadline. None unless set; a start at once is not delayed.
    ///
    /// Delayed starts can coincide: up to `rate * most` more starts in `[s, t]` than without.
    /// Starts less than `most` apart can be reordered.
    #[cfg(feature = "std")]
    #[must_use]
    pub const fn jitter(self, most: Duration) -> Self {
        Self { jitter: most, ..self }
    }

    /// The longest wait from `now` on.
    pub(crate) fn longest(&self, now: Timestamp) -> Duration {
        match self.bound {
            Bound::AtMost(longest) => longest,
            Bound::Until(deadline) => deadline.since(now),
        }
    }

    /// What is left at `now` of the longest wait from `since` on.
    pub(crate) fn left(&self, since: Timestamp, now: Timestamp) -> Duration {
        match self.bound {
            Bound::AtMost(longest) => longest.saturating_sub(now.since(since)),
            Bound::Until(deadline) => deadline.since(now),
        }
    }

    /// The longest wait from `now` on, in units, rounded down.
    pub(crate) fn longest_units(&self, now: Timestamp, scale: Scale) -> u64 {
        scale.to_units(u64::try_from(self.longest(now).as_nanos()).unwrap_or(u64::MAX))
    }

    /// The start after a wait of `units` from `now` on, at most [`Wait::longest_units`]: rounded up
    /// to a nanosecond, but not beyond the deadline, and delayed by the jitter.
    pub(crate) fn start(&self, now: Timestamp, units: u64, scale: Scale) -> Start {
        if units == 0 {
            return Start { at: now, jitter: Duration::ZERO };
        }
        let longest = self.longest(now);
        let wait = Duration::from_nanos(scale.to_nanos(units)).min(longest);
        let jitter = self.delay(longest.saturating_sub(wait));
        Start { at: now.saturating_add(wait + jitter), jitter }
    }

    /// The jitter for a wait that leaves `room` until the deadline.
    pub(crate) fn delay(&self, room: Duration) -> Duration {
        let most = self.jitter.min(room);
        if most.is_zero() {
            return Duration::ZERO;
        }
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        let share = u128::from(random()) * (u128::from(most) + 1);
        Duration::from_nanos((share >> 64) as u64)
    }
}

impl From<Duration> for Wait {
    fn from(longest: Duration) -> Self {
        Self::at_most(longest)
    }
}

/// 64 random bits, from the seeds of std's hash maps, which differ at each call.
#[cfg(feature = "std")]
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0_u64)
}

/// Without std there is no jitter.
#[cfg(not(feature = "std"))]
fn random() -> u64 {
    0
}
