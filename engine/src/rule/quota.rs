//! What a limit allows: a rate in units per period, and a burst.

use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

/// A rate and a burst: `count` units each `period`, at most `burst` of them at once.
///
/// The constructors name the period; the burst equals the count until [`Quota::burst`] sets it.
/// A quota is a plain value: whether it can be enforced is checked where it meets a limiter
/// ([`LimiterBuilder::build`](crate::limiter::LimiterBuilder::build) and
/// [`Limiter::with_quota`](crate::Limiter::with_quota)), see [`QuotaError`] for the ranges.
///
/// [`Quota::blocked`], made also by a count or a strict limit of 0, denies every cost above 0;
/// [`Quota::unlimited`] admits every cost.
///
/// It reads and prints as text, such as `100/s` or `1000/d burst 50`:
/// [`AnyRule`](crate::rule::AnyRule) has the grammar.
///
/// # When to use it
/// Unless there is a reason for another rule: units come back one by one, so load is smooth, burst
/// and rate are chosen separately, and no moment is better than another to ask. The algorithm is
/// GCRA, which is a token bucket, or a leaky bucket as a meter. [`Quota::strict`] keeps a limit in
/// every window, at a cost that it states; [`SlidingWindow`](crate::SlidingWindow) and
/// [`FixedWindow`](crate::FixedWindow) let a key spend a window's limit at once.
///
/// # Guarantees
/// For each key and every interval `[s, t]`, the admitted cost is at most
/// `burst + rate * (t - s)`, for any number of threads. Time is counted in units of 1 to 2 ns
/// (exactly 1 ns where the emission interval is a whole number of nanoseconds), and one unit is
/// the error of `t - s`. Emission intervals are whole numbers of units, so nothing accumulates.
///
/// # Cost
/// 20 bytes a key at the intended fill. A check is one multiplication and one compare-and-swap, and
/// a denial writes nothing, except that denials are recorded once keys have competed for slots
/// ([`OverflowPolicy`](crate::OverflowPolicy)).
///
/// ```
/// use tidegate_engine::Quota;
/// let quota = Quota::per_second(100).burst(20);
/// assert_eq!(quota.debt_of(1), core::time::Duration::from_millis(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    count: u64,
    period: Duration,
    burst: u64,
    /// Of a strict quota the sum of count and burst, unless the burst alone is more.
    limit: Option<NonZeroU64>,
}

impl Quota {
    /// `count` units per `period`, with a burst of `count`.
    #[must_use]
    pub const fn new(count: u64, period: Duration) -> Self {
        Self { count, period, burst: count, limit: None }
    }

    /// `count` units each second.
    #[must_use]
    pub const fn per_second(count: u64) -> Self {
        Self::new(count, Duration::from_secs(1))
    }

    /// `count` units each minute.
    #[must_use]
    pub const fn per_minute(count: u64) -> Self {
        Self::new(count, Duration::from_secs(60))
    }

    /// `count` units each hour.
    #[must_use]
    pub const fn per_hour(count: u64) -> Self {
        Self::new(count, Duration::from_secs(3_600))
    }

    /// `count` units each day of 24 hours.
    #[must_use]
    pub const fn per_day(count: u64) -> Self {
        Self::new(count, Duration::from_secs(86_400))
    }

    /// At most `limit` units in *every* interval as long as `window`, wherever it begins, both its
    /// ends included: `burst` units at once and `limit - burst` each window. The burst must be
    /// below the limit; a limit of 1 leaves no rate after its burst (one unit in every window is
    /// `Quota::new(1, window)` with a nanosecond added to the window), and one of 0 is
    /// [`Quota::blocked`].
    ///
    /// A quota of `count` units per period with a burst of `burst` admits up to `burst + count`
    /// units in the worst interval of that length, because the burst comes on top of the rate. Here
    /// their sum is the limit. The cost is that at most `limit - burst` units per window are
    /// admitted in the long run: with a burst of a tenth of the limit nine tenths of it, with a
    /// burst of 1 nearly all of it, one by one. Only a log of what was admitted gives the whole
    /// limit at any pace.
    ///
    /// Exact for every window: the remainder of a nanosecond when time is divided into units is
    /// never granted. As for any quota, what is given back
    /// ([`Limiter::refund`](crate::Limiter::refund), [`Limiter::reset`](crate::Limiter::reset))
    /// comes on top.
    ///
    /// ```
    /// use tidegate_engine::Quota;
    /// use core::time::Duration;
    ///
    /// let quota = Quota::strict(100, Duration::from_secs(60), 10);
    /// assert_eq!((quota.count(), quota.burst_size()), (90, 10));
    /// ```
    #[must_use]
    pub const fn strict(limit: u64, window: Duration, burst: u64) -> Self {
        let limited = Self { limit: NonZeroU64::new(limit), ..Self::new(limit, window) };
        limited.burst(burst)
    }

    /// Nothing is allowed: every cost above 0 is denied and can never fit.
    ///
    /// ```
    /// use tidegate_engine::{Limiter, Quota};
    /// let limiter = Limiter::builder(Quota::blocked()).build()?;
    /// assert_eq!(limiter.check("user:42").retry_after(), None);
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    #[must_use]
    pub const fn blocked() -> Self {
        Self::new(0, Duration::from_secs(1))
    }

    /// Everything is allowed: every cost is admitted and nothing is charged or written. Decisions
    /// show a limit and a remainder of `u64::MAX` and a reset after 0. A burst has no effect.
    ///
    /// ```
    /// use tidegate_engine::{Limiter, Quota};
    /// let limiter = Limiter::builder(Quota::unlimited()).build()?;
    /// assert!(limiter.check_n("user:42", u64::MAX).is_allowed());
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::new(u64::MAX, Duration::ZERO)
    }

    /// Whether nothing is allowed: the count, or a strict quota's limit, is 0. A strict quota whose
    /// burst leaves no rate is not blocked but refused ([`QuotaError::StrictBurst`]).
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        self.count == 0 && self.limit.is_none()
    }

    /// Whether this is [`Quota::unlimited`].
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.count == u64::MAX && self.period.is_zero() && self.limit.is_none()
    }

    /// The same rate with a burst of `units`. A [`Quota::strict`] keeps its limit, and its rate is
    /// what the burst leaves of it.
    #[must_use]
    pub const fn burst(self, units: u64) -> Self {
        let count = match self.limit {
            Some(limit) => limit.get().saturating_sub(units),
            None => self.count,
        };
        Self { count, burst: units, ..self }
    }

    /// The limit that a strict quota keeps in every window.
    pub(crate) const fn strict_limit(&self) -> Option<NonZeroU64> {
        self.limit
    }

    /// Units granted per [`Quota::period`].
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The time in which [`Quota::count`] units are granted.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// The burst: units admitted at once by a fresh key.
    #[must_use]
    pub const fn burst_size(&self) -> u64 {
        self.burst
    }

    /// The debt that `cost` units consume: the time in which they are granted again, rounded up to
    /// a nanosecond and saturating. Zero when the quota is blocked or unlimited, or leaves no rate.
    #[must_use]
    pub fn debt_of(&self, cost: u64) -> Duration {
        if self.count == 0 {
            return Duration::ZERO;
        }
        let nanos = self
            .period
            .as_nanos()
            .saturating_mul(u128::from(cost))
            .div_ceil(u128::from(self.count));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The time in which the burst is granted again; `None` when the quota is blocked or unlimited.
    pub(crate) fn refill_time(&self) -> Option<Duration> {
        (self.count != 0 && !self.is_unlimited()).then(|| self.debt_of(self.burst))
    }
}

/// Why a quota or another rule cannot be enforced. Nothing was changed; correct the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// The burst is 0 while the count is not: nothing could ever be admitted.
    ZeroBurst,
    /// The period is 0.
    ZeroPeriod,
    /// The period exceeds 2^64 ns, about 584 years.
    PeriodTooLong,
    /// More than one unit per nanosecond (10^9 units per second).
    RateTooHigh,
    /// The burst takes longer than [`MAX_BURST_TOLERANCE`] to refill.
    BurstTooLong,
    /// The burst of [`Quota::strict`] is not below the limit: nothing is left for the rate.
    StrictBurst,
    /// The offset from UTC is not a whole number of minutes, or more than
    /// [`MAX_UTC_OFFSET_SECONDS`](crate::rule::MAX_UTC_OFFSET_SECONDS) either way.
    UtcOffset,
    /// A [`CalendarWindow`](crate::CalendarWindow) needs a date
    /// ([`CalendarWindow::anchored`](crate::CalendarWindow::anchored)) where there is no wall
    /// clock, without the feature `std`.
    Unanchored,
    /// The window is longer than [`MAX_WINDOW`](crate::rule::MAX_WINDOW).
    WindowTooLong,
    /// The limit is above `max`, the highest count that a key's word can hold in windows of this
    /// length.
    LimitTooHigh {
        /// The highest limit for windows of this length.
        max: u64,
    },
}

/// The longest time a full burst may take to refill: 2^57 ns, about 4.5 years.
pub const MAX_BURST_TOLERANCE: Duration = Duration::from_nanos(1 << 57);

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroBurst => "burst must be at least 1 (`Quota::blocked()` admits nothing)",
            Self::ZeroPeriod => {
                "period must be longer than 0 (`Quota::unlimited()` admits everything)"
            }
            Self::PeriodTooLong => "period must be at most 2^64 nanoseconds",
            Self::RateTooHigh => {
                "rate must be at most 1000000000 units per second: count in larger units"
            }
            Self::StrictBurst => {
                "strict burst must be below the limit, or nothing is left for the rate"
            }
            Self::UtcOffset => {
                "offset from UTC must be whole minutes of at most 64800 seconds (18 hours)"
            }
            Self::Unanchored => {
                "a calendar needs a date where there is no wall clock: call `anchored`"
            }
            Self::WindowTooLong => "window must be at most 2^56 nanoseconds (about 834 days)",
            Self::LimitTooHigh { max } => {
                return write!(f, "limit must be at most {max} for windows of this length");
            }
            Self::BurstTooLong => {
                "burst must refill within 1667 days: lower the burst or raise the rate"
            }
        })
    }
}

impl core::error::Error for QuotaError {}
