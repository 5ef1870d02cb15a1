//! The answer to a check.

use core::time::Duration;

/// The answer to one check, computed from one snapshot of the key's state.
///
/// Denial is an answer, not an error. All figures describe the same instant, the one at which
/// the decision took effect; other threads may have changed the key since.
///
/// `ShardedCounter`, `Concurrency` and a limiter with leases narrow what the accessors promise; their pages say how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that is not looked at limits nothing"]
pub struct Decision {
    limit: u64,
    remaining: u64,
    /// Nanoseconds; 0 means allowed, `NEVER` that the cost exceeds the limit.
    retry_after: u64,
    /// Nanoseconds.
    reset_after: u64,
}

impl Decision {
    /// `retry_after` of a cost that can never fit. Durations from words stay below 2^60 ns.
    const NEVER: u64 = u64::MAX;

    /// Under an unlimited quota.
    pub(crate) const UNLIMITED: Self = Self::allowed(u64::MAX, u64::MAX, 0);

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
        Self { limit, remaining, retry_after, reset_after }
    }

    #[inline]
    pub(crate) const fn allowed(limit: u64, remaining: u64, reset_after: u64) -> Self {
        Self { limit, remaining, retry_after: 0, reset_after }
    }

    #[inline]
    pub(crate) const fn denied(
        limit: u64,
        remaining: u64,
        retry_after: u64,
        reset_after: u64,
    ) -> Self {
        debug_assert!(retry_after > 0);
        Self { limit, remaining, retry_after, reset_after }
    }

    #[inline]
    pub(crate) const fn never(limit: u64, remaining: u64, reset_after: u64) -> Self {
        Self { limit, remaining, retry_after: Self::NEVER, reset_after }
    }

    /// The decision with other units that would be admitted after it.
    #[cfg(feature = "std")]
    pub(crate) const fn with_remaining(self, remaining: u64) -> Self {
        Self { remaining, ..self }
    }

    /// The decision with other times, in nanoseconds, for those that are neither 0 nor never; nor do
    /// they become so.
    pub(crate) fn map_times(self, map: impl Fn(u64) -> u64) -> Self {
        let changed = |nanos| match nanos {
            0 | Self::NEVER => nanos,
            _ => map(nanos).clamp(1, Self::NEVER - 1),
        };
        let (retry_after, reset_after) = (changed(self.retry_after), changed(self.reset_after));
        Self { retry_after, reset_after, ..self }
    }

    /// The decision as an admission that leaves the same.
    #[cfg(feature = "std")]
    pub(crate) const fn admitted(self) -> Self {
        Self { retry_after: 0, ..self }
    }

    /// Whether the cost was admitted.
    #[inline]
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.retry_after == 0
    }

    /// The decision as a `Result`, for an early return: `limiter.check(key).into_result()?`.
    ///
    /// # Errors
    /// The decision itself, when it is a denial.
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
        self.remaining
    }

    /// How long to wait until the same cost fits, provided nobody else is admitted meanwhile:
    /// zero when allowed, `None` when the cost exceeds the limit and so can never fit. Rounded up
    /// to a nanosecond, so waiting this long is enough.
    #[inline]
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.retry_after {
            Self::NEVER => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// How long until the key is as good as new, rounded up to a nanosecond.
    #[inline]
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset_after)
    }
}

const _: () = assert!(size_of::<Decision>() <= 32);
