//! The answer to a check.

use core::fmt;
use core::time::Duration;

/// The answer to one check, computed from one snapshot of the key's state.
///
/// Denial is an answer, not an error; as an error it leaves a function whose caller shall hear of it, by
/// [`into_result`](Self::into_result). All figures describe the same instant, the one at which
/// the decision took effect; other threads may have changed the key since.
///
/// `ShardedCounter`, `Concurrency` and a limiter with leases narrow what the accessors promise; their pages say how.
#[derive(Clone, Copy)]
pub struct Decision {
    limit: u64,
    /// What remains, or what it follows from: `verdict` tells.
    remaining: u64,
    verdict: Verdict,
    /// Nanoseconds.
    reset_after: u64,
}

/// Whether the cost was admitted, and when it will be.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Verdict(u64);

impl Verdict {
    const ALLOWED: Self = Self(0);
    /// The lowest of a denial.
    const DENIED: u64 = 1 << 17;
    /// Of a cost that can never fit.
    const NEVER: Self = Self(u64::MAX);

    /// The most units that [`Verdict::allowed_beside`] holds.
    const MOST_BESIDE: u64 = Self::DENIED - 2;
    /// The longest time after which a denied cost fits, in nanoseconds. Durations from words stay below 2^60.
    const LONGEST: u64 = Self::NEVER.0 - Self::DENIED;

    /// Allowed, and instead of what remains the decision holds the emission interval in nanoseconds: what remains
    /// follows from that, and from so many `units` beside it, when it is asked for.
    #[inline]
    const fn allowed_beside(units: u64) -> Self {
        debug_assert!(units <= Self::MOST_BESIDE);
        Self(1 + units)
    }

    /// The units of [`Verdict::allowed_beside`], if it is one.
    #[inline]
    const fn beside(self) -> Option<u64> {
        if self.0 < Self::DENIED { self.0.checked_sub(1) } else { None }
    }

    /// Of a denial for so many nanoseconds, at least 1 and at most [`Verdict::LONGEST`]; brought into that range, because
    /// no other number is a denial.
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
    pub(crate) const MOST_BESIDE: u64 = Verdict::MOST_BESIDE;

    /// Stands for a decision that is still to be made; nobody outside sees it.
    pub(crate) const OPEN: Self = Self::never(0, 0, 0);

    /// Allowed if `retry_after` is 0 ns, denied if not.
    #[inline]
    pub(crate) const fn new(
        limit: u64,
        remaining: u64,
        retry_after: u64,
        reset_after: u64,
    ) -> Self {
        let verdict = match retry_after {
            0 => Verdict::ALLOWED,
            nanos => Verdict::denied(nanos),
        };
        Self { limit, remaining, verdict, reset_after }
    }

    #[inline]
    pub(crate) const fn allowed(limit: u64, remaining: u64, reset_after: u64) -> Self {
        Self { limit, remaining, verdict: Verdict::ALLOWED, reset_after }
    }

    /// Allowed, where one unit is granted every `interval` nanoseconds, up to `limit`, and the whole limit is there
    /// again after `reset_after`; at most [`Verdict::MOST_BESIDE`] `units` more remain beside it.
    #[inline]
    pub(crate) const fn allowed_every(
        interval: u64,
        limit: u64,
        units: u64,
        reset_after: u64,
    ) -> Self {
        let verdict = Verdict::allowed_beside(units);
        Self { limit, remaining: interval, verdict, reset_after }
    }

    #[inline]
    pub(crate) const fn denied(
        limit: u64,
        remaining: u64,
        retry_after: u64,
        reset_after: u64,
    ) -> Self {
        Self { limit, remaining, verdict: Verdict::denied(retry_after), reset_after }
    }

    #[inline]
    pub(crate) const fn never(limit: u64, remaining: u64, reset_after: u64) -> Self {
        Self { limit, remaining, verdict: Verdict::NEVER, reset_after }
    }

    /// The same decision, with its parts taken out of the memory in which a call has handed it over.
    ///
    /// For where one of several ways to a decision is a call: without this the compiler sends the other ways through memory
    /// too, and copies it as a whole. Such a copy of what was just written in smaller parts waits until those have reached
    /// the cache, and with them all that was written before.
    #[inline]
    pub(crate) fn in_registers(self) -> Self {
        // Hides that all parts come from one place, which would be copied as a whole.
        let remaining = core::hint::black_box(self.remaining);
        let reset_after = core::hint::black_box(self.reset_after);
        Self { remaining, reset_after, ..self }
    }

    /// The decision with other units that would be admitted after it.
    #[cfg(feature = "std")]
    pub(crate) const fn with_remaining(self, remaining: u64) -> Self {
        Self { remaining, ..self.computed() }
    }

    /// The decision with other times, in nanoseconds, for those that are neither 0 nor never; nor do
    /// they become so.
    pub(crate) fn map_times(self, map: impl Fn(u64) -> u64) -> Self {
        let changed = |nanos| if nanos == 0 { 0 } else { map(nanos).clamp(1, Verdict::LONGEST) };
        let Self { limit, remaining, verdict, reset_after } = self.computed();
        let reset_after = changed(reset_after);
        match verdict.retry_after() {
            Some(nanos) => Self::new(limit, remaining, changed(nanos), reset_after),
            None => Self { limit, remaining, verdict, reset_after },
        }
    }

    /// The decision as an admission that leaves the same.
    #[cfg(feature = "std")]
    pub(crate) const fn admitted(self) -> Self {
        Self { verdict: Verdict::ALLOWED, ..self.computed() }
    }

    /// The decision with what remains in place of what it follows from.
    const fn computed(self) -> Self {
        let remaining = self.remaining();
        let is_allowed = self.is_allowed();
        let verdict = if is_allowed { Verdict::ALLOWED } else { self.verdict };
        Self { remaining, verdict, ..self }
    }

    /// Whether the cost was admitted.
    #[inline]
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.verdict.is_allowed()
    }

    /// The decision as a `Result`, for an early return. A denial is an [`Error`](core::error::Error), so `?` also works
    /// where a function returns a boxed one.
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

    /// Units that would be admitted at this instant, after this decision. Also on denial this is
    /// what is left, which may be more than 0.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        let Some(beside) = self.verdict.beside() else { return self.remaining };
        let interval = self.remaining;
        (self.limit * interval).saturating_sub(self.reset_after) / interval + beside
    }

    /// How long to wait until the same cost fits, provided nobody else is admitted meanwhile:
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

    /// How long until the key is as good as new, rounded up to a nanosecond.
    #[inline]
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset_after)
    }
}

/// By what the accessors tell.
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

/// For a log or an operator: whether it was admitted, and what follows.
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

/// Of a denial; see [`Decision::into_result`].
impl core::error::Error for Decision {}

const _: () = assert!(size_of::<Decision>() <= 32);

#[cfg(all(test, not(any(loom, interleave))))]
#[path = "decision_tests.rs"]
mod tests;
