//! The sliding-window counter as a rule.

use core::time::Duration;

use crate::rule::quota::QuotaError;
use crate::rule::{Rule, sealed};

use super::Even;
use super::sliding::Sliding;

/// About `limit` units in any interval as long as the window: the count of the present window, plus
/// the previous window's count weighted by the share of it that is within one length of now.
///
/// # When to use it
/// When a limit is stated per window, a [`FixedWindow`](crate::FixedWindow) is too coarse at its
/// ends, and keys should be able to spend all of it at once after an idle time.
/// [`Quota`](crate::Quota) admits at a steadier pace, and [`Quota::strict`](crate::Quota::strict)
/// never exceeds a limit in any window.
///
/// # Guarantees
/// * A cost is admitted exactly if `current + previous * (window - elapsed) / window + cost` is at
///   most the limit, with nothing rounded, for any number of threads. `elapsed` is how much of the
///   present window is over.
/// * In each window, counted from the clock's origin, a key is admitted at most `limit` units.
/// * `retry_after` is exact: the first nanosecond at which the same cost fits if nothing else is
///   admitted, in this window or the next one.
/// * What is given back ([`Limiter::refund`](crate::Limiter::refund)) is taken from the count of
///   the present window first, as units are mostly given back soon, then from the previous one. It
///   lowers the estimate by at most as much as is given back, whenever those units were admitted.
/// * A `now` before the window of an earlier check is decided as at that window's beginning.
/// * After ten years of uptime time stands still, and exhausted keys stay denied.
///
/// # Error
/// The estimate assumes that what was admitted in the previous window was spread evenly over it. If
/// it was, the estimate is exact to a unit, and traffic of up to `limit - 1` units a window is all
/// admitted. If not, the estimate is wrong by at most the weighted count, either way:
/// * **Too much.** In an interval of a window's length that ends when `elapsed` of a window is
///   over, up to `limit * (1 + elapsed / window)` units are admitted: when `limit` came at the very
///   end of the previous window. That is at most `2 * limit - 1`, both ends of the interval
///   included, and is reached.
/// * **Too little.** When all came at the beginning of the previous window, up to
///   `limit * (1 - elapsed / window)` units still count that are older than a window's length. A
///   key that asks without pause is admitted `limit` units once and `limit - 1` in each window from
///   then on, so small limits suffer: a limit of 1 admits one unit in two windows. Take a
///   [`Quota`](crate::Quota) for those.
///
/// # Cost
/// 20 bytes a key at the intended fill. A check takes a few nanoseconds more than with a
/// [`Quota`](crate::Quota): the previous count is weighted by a 128-bit product, and by a division
/// for `remaining`, and not at all if it is 0.
///
/// # Ranges
/// A plain value; [`LimiterBuilder::build`](crate::limiter::LimiterBuilder::build) checks whether
/// it can be enforced. The window is from 1 ns to [`MAX_WINDOW`](crate::rule::MAX_WINDOW). The
/// window's number and both counts share 59 bits, and numbers last for ten years, so the limit is
/// at most 2^15 - 1 = 32 767 for a second, 2^18 - 1 = 262 143 for a minute, 2^21 - 1 = 2 097 151
/// for an hour and 2^23 - 1 = 8 388 607 for a day ([`QuotaError::LimitTooHigh`] gives the maximum
/// for other lengths). [`Limiter::charge`](crate::Limiter::charge) beyond the limit saturates there
/// too. A limit of 0 blocks: every cost above 0 is denied and can never fit.
///
/// ```
/// use tidegate_engine::{Limiter, ManualClock, SlidingWindow};
/// use core::time::Duration;
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder(SlidingWindow::per_minute(100)).clock(clock.clone()).build()?;
/// assert!(limiter.check_n("user:42", 100).is_allowed());
/// // A quarter of the next window is over: three quarters of the 100 still count.
/// clock.advance(Duration::from_secs(75));
/// assert_eq!(limiter.peek("user:42").remaining(), 25);
/// assert_eq!(limiter.check_n("user:42", 40).retry_after(), Some(Duration::from_secs(9)));
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    limit: u64,
    window: Duration,
}

impl SlidingWindow {
    rule_of_window!("About `limit` units in any interval of");

    /// The most that the sum of estimate and cost may be, in units.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }
}

impl sealed::Sealed for SlidingWindow {}

impl Rule for SlidingWindow {
    type Algorithm = Sliding;
    type PerCall<'a> = Self::Algorithm;

    fn algorithm(&self) -> Result<Self::Algorithm, QuotaError> {
        Sliding::new(Even::new(self.window)?, self.limit)
    }

    fn refill_time(&self, _: &Self::Algorithm) -> Option<Duration> {
        Some(self.window)
    }
}
