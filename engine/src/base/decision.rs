//! The answer to a check.

use core::fmt;
use core::time::Duration;

/// The answer to one check, computed from one snapshot of the key's state.
///
/// Denial is an answer, not an error; [`into_result`](Self::into_result) makes it one for an early
/// return. All figures describe the same instant, the one at which the decision took effect; other
/// threads may have changed the key since.
///
/// `ShardedCounter`, `Concurrency` and a limiter with leases narrow what the accessors promise;
/// their documentation says how.
#[derive(Clone, Copy)]
pub struct Decision {
    limit: u64,
    /// What remains, or the emission interval it is computed from: `verdict` says which.
    remaining: u64,
    verdict: Admission,
    /// Nanoseconds.
    reset_after: u64,
}

/// Whether the cost was admitted, and when it will be.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Admission(u64);

impl Admission {
    const ALLOWED: Self = Self(0);
    /// The lowest value of a denial.
    const DENIED: u64 = 1 << 17;
    /// Denial of a cost that can never fit.
    const NEVER: Self = Self(u64::MAX);

    /// The most units that [`Admission::allowed_with_leased`] holds.
    const MOST_LEASED: u64 = Self::DENIED - 2;
    /// The longest time after which a denied cost fits, in nanoseconds. Durations from words are
    /// below 2^60.
    const LONGEST: u64 = Self::NEVER.0 - Self::DENIED;

    /// Allowed; instead of what remains the decision holds the emission interval in nanoseconds.
    /// What remains is computed from that on demand, plus `units`, which are leased.
    #[inline]
    const fn allowed_with_leased(units: u64) -> Self {
        debug_assert!(units <= Self::MOST_LEASED);
        Self(1 + units)
    }

    /// The units of [`Admission::allowed_with_leased`], if it is one.
    #[inline]
    const fn leased(self) -> Option<u64> {
        if self.0 < Self::DENIED { self.0.checked_sub(1) } else { None }
    }

    /// Denied for `retry_after` nanoseconds, at least 1 and at most [`Admission::LONGEST`]; clamped
    /// to that range, because no other number is a denial.
    #[inline]
    const fn denied(retry_after: u64) -> Self {
        debug_assert!(retry_after > 0 && retry_after <= Self::LONGEST);
        let nanos = if retry_after == 0 { 1 } else { retry_after };
        let nanos = if nanos > Self::LONGEST { Self::LONGEST } else { nanos };
        Self(nanos - 1 + Self::DENIED)
    }

    #[inline]
    const fn is_allowed(self) -> bool {
        self.0 < Self::DENIED
    }

    /// Nanoseconds until the cost fits, 0 where it does; `None` for never.
    #[inline]
    const fn retry_after(self) -> Option<u64> {
        if self.0 == Self::NEVER.0 {
            return None;
        }
        Some((self.0 + 1).saturating_sub(Self::DENIED))
    }
}

impl Decision {
    /// Under an unlimited quota.
    pub(crate) const UNLIMITED: Self = Self::allowed(u64::MAX, u64::MAX, 0);

    /// The most units that [`Decision::allowed_every`] takes.
    #[cfg(feature = "std")]
    pub(crate) const MOST_LEASED: u64 = Admission::MOST_LEASED;

    /// A placeholder for a decision not yet made; never visible outside the crate.
    pub(crate) const OPEN: Self = Self::never(0, 0, 0);

    /// Allowed if `retry_after` is 0 ns, else denied.
    #[inline]
    pub(crate) const fn new(
        limit: u64,
        remaining: u64,
        retry_after: u64,
        reset_after: u64,
    ) -> Self {
        let verdict = match retry_after {
            0 => Admission::ALLOWED,
            nanos => Admission::denied(nanos),
        };
        Self { limit, remaining, verdict, reset_after }
    }

    #[inline]
    pub(crate) const fn allowed(limit: u64, remaining: u64, reset_after: u64) -> Self {
        Self { limit, remaining, verdict: Admission::ALLOWED, reset_after }
    }

    /// Allowed, where one unit is granted every `interval` nanoseconds, up to `limit`, and the
    /// whole limit is available again after `reset_after`; `units` more are leased, at most
    /// [`Admission::MOST_LEASED`].
    #[inline]
    pub(crate) const fn allowed_every(
        interval: u64,
        limit: u64,
        units: u64,
        reset_after: u64,
    ) -> Self {
        let verdict = Admission::allowed_with_leased(units);
        Self { limit, remaining: interval, verdict, reset_after }
    }

    #[inline]
    pub(crate) const fn denied(
        limit: u64,
        remaining: u64,
        retry_after: u64,
        reset_after: u64,
    ) -> Self {
        Self { limit, remaining, verdict: Admission::denied(retry_after), reset_after }
    }

    #[inline]
    pub(crate) const fn never(limit: u64, remaining: u64, reset_after: u64) -> Self {
        Self { limit, remaining, verdict: Admission::NEVER, reset_after }
    }

    /// The same decision, loaded field by field from the memory in which a call returned it.
    ///
    /// For code where one of several paths to a decision is a call: without this the compiler sends
    /// the other paths through memory too, and copies the decision as a whole. Such a copy of what
    /// was just written in smaller parts fails store forwarding: it waits until those stores, and
    /// all before them, have reached the cache.
    #[inline]
    pub(crate) fn in_registers(self) -> Self {
        // Hides that all fields come from one place, which would be copied as a whole.
        let remaining = core::hint::black_box(self.remaining);
        let reset_after = core::hint::black_box(self.reset_after);
        Self { remaining, reset_after, ..self }
    }

    /// The decision with another remainder.
    #[cfg(feature = "std")]
    pub(crate) const fn with_remaining(self, remaining: u64) -> Self {
        Self { remaining, ..self.computed() }
    }

    /// The decision with its times, in nanoseconds, mapped. Times of 0 and never stay as they are,
    /// and no other becomes one of them.
    pub(crate) fn map_times(self, map: impl Fn(u64) -> u64) -> Self {
        let changed = |nanos| if nanos == 0 { 0 } else { map(nanos).clamp(1, Admission::LONGEST) };
        let Self { limit, remaining, verdict, reset_after } = self.computed();
        let reset_after = changed(reset_after);
        match verdict.retry_after() {
            Some(nanos) => Self::new(limit, remaining, changed(nanos), reset_after),
            None => Self { limit, remaining, verdict, reset_after },
        }
    }

    /// The decision as an admission with the same remainder.
    #[cfg(feature = "std")]
    pub(crate) const fn admitted(self) -> Self {
        Self { verdict: Admission::ALLOWED, ..self.computed() }
    }

    /// The decision of a limit that lets through what it denies: an admission after which nothing
    /// remains.
    pub(crate) const fn let_through(self) -> Self {
        Self { remaining: 0, verdict: Admission::ALLOWED, ..self }
    }

    /// The decision with what remains in place of the interval it is computed from.
    const fn computed(self) -> Self {
        let remaining = self.remaining();
        let is_allowed = self.is_allowed();
        let verdict = if is_allowed { Admission::ALLOWED } else { self.verdict };
        Self { remaining, verdict, ..self }
    }

    /// Whether the cost was admitted.
    #[inline]
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.verdict.is_allowed()
    }

    /// The decision as a `Result`, for an early return. A denial is an
    /// [`Error`](core::error::Error), so `?` also works in a function that returns a boxed error.
    ///
    /// # Errors
    /// The decision itself, when it is a denial.
    ///
    /// ```
    /// use tidegate_engine::{Limiter, Quota};
    ///
    /// fn greet(limiter: &Limiter, user: &str) -> Result<String, Box<dyn core::error::Error>> {
    ///     let left = limiter.check(user).into_result()?.remaining();
    ///     Ok(format!("Hello {user}, {left} to go"))
    /// }
    ///
    /// let limiter = Limiter::new(Quota::per_hour(2).burst(1))?;
    /// assert_eq!(greet(&limiter, "Ada")?, "Hello Ada, 0 to go");
    /// let denied = greet(&limiter, "Ada").unwrap_err();
    /// assert!(denied.to_string().starts_with("denied, retry after "));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline]
    pub const fn into_result(self) -> Result<Self, Self> {
        if self.is_allowed() { Ok(self) } else { Err(self) }
    }

    /// The burst of the quota that decided, or the limit of the window, in units; `u64::MAX` of an
    /// unlimited quota.
    #[inline]
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Units that would be admitted at this instant, after this decision. On denial too, so it may
    /// be more than 0.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        let Some(leased) = self.verdict.leased() else { return self.remaining };
        let interval = self.remaining;
        (self.limit * interval).saturating_sub(self.reset_after) / interval + leased
    }

    /// How long to wait until the same cost fits, provided no other request is admitted meanwhile:
    /// zero when allowed, `None` when the cost exceeds the limit and so can never fit. Rounded up
    /// to a nanosecond, so waiting this long is enough.
    #[inline]
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.verdict.retry_after() {
            None => None,
            Some(nanos) => Some(Duration::from_nanos(nanos)),
        }
    }

    /// How long until the key is fresh, rounded up to a nanosecond.
    #[inline]
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset_after)
    }
}

/// Compares what the accessors return.
impl PartialEq for Decision {
    fn eq(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|decision| decision.computed());
        (one.limit, one.remaining, one.verdict, one.reset_after)
            == (other.limit, other.remaining, other.verdict, other.reset_after)
    }
}

impl Eq for Decision {}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .finish()
    }
}

/// For logs: whether the cost was admitted, and what remains or how long to wait.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_allowed() {
            return write!(f, "allowed, {} of {} left", self.remaining(), self.limit());
        }
        match self.retry_after() {
            Some(wait) => write!(f, "denied, retry after {wait:?}"),
            None => write!(f, "denied, the cost can never fit a limit of {}", self.limit()),
        }
    }
}

/// A denial as an error; see [`Decision::into_result`].
impl core::error::Error for Decision {}

const _: () = assert!(size_of::<Decision>() <= 32);

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "decision_tests.rs"]
mod tests;
