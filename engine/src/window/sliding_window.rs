//! The sliding-window counter as a rule.

use core::time::Duration;

use crate::quota::QuotaError;
use crate::rule::{Algorithm, NoGiven, NoLeases, Rule, sealed};

use super::Even;
use super::sliding::Sliding;

/// About `limit` units in any stretch of time as long as the window: the count of the present window,
/// and of the count before as much as of that window lies within one length of now.
///
/// # When to use it
/// When a limit is stated per window, a [`FixedWindow`](crate::FixedWindow) is too coarse at its ends,
/// and keys are to be able to spend all of it at once after they have been idle.
/// [`Quota`](crate::Quota) admits at a steadier pace, and [`Quota::strict`](crate::Quota::strict) never
/// exceeds a limit in any window.
///
/// # What it guarantees
/// * A cost is admitted exactly when `current + previous * (window - elapsed) / window + cost` is at
///   most the limit, with nothing rounded, for any number of threads. `elapsed` is how much of the
///   present window is over.
/// * In each window, counted from the clock's origin, a key is admitted at most `limit` units.
/// * `retry_after` is exact: the first nanosecond at which the same cost fits if nobody else is
///   admitted, be it in this window or the next one.
/// * What is given back ([`Limiter::refund`](crate::Limiter::refund)) is taken from the count of the
///   present window, as units are mostly given back soon, then from the one before. It lowers the
///   estimate by at most as much as is given back, whenever those units were admitted.
/// * A `now` that lies before the window of an earlier check is decided as at that window's beginning.
/// * After ten years of uptime time stands still, and keys that are exhausted stay denied.
///
/// # Its error
/// What was admitted in the window before is taken to have been spread evenly over it. If it was, the
/// estimate is exact to a unit, and traffic of up to `limit - 1` units a window is all admitted. If not,
/// the estimate is wrong by at most the weighed count, either way:
/// * **Too much.** In an interval of a window's length that ends when `elapsed` of a window is over, up to
///   `limit * (1 + elapsed / window)` units are admitted: when `limit` came at the very end of
///   the window before. That is at most `2 * limit - 1`, both ends of the interval included, and is
///   reached.
/// * **Too little.** When all came at the beginning of the window before, up to `limit * (1 - elapsed / window)`
///   units are still counted that lie further back than a window's length. A key that asks
///   without pause is admitted `limit` units once and `limit - 1` in each window from then on, so small
///   limits suffer: a limit of 1 admits one unit in two windows. Take a [`Quota`](crate::Quota) for
///   those.
///
/// # What it costs
/// 20 bytes a key at the intended fill. A check takes a few nanoseconds more than with a
/// [`Quota`](crate::Quota): the count before is weighed by a 128-bit product, and by a division for
/// `remaining`, and not at all when it is 0.
///
/// # Ranges
/// A plain value; whether it can be enforced is checked by
/// [`LimiterBuilder::build`](crate::LimiterBuilder::build). The window is from 1 ns to
/// [`MAX_WINDOW`](crate::MAX_WINDOW). The window's number and both counts share 59 bits, and numbers are
/// to last for ten years, so the limit is at most 2^15 - 1 = 32 767 for a second, 2^18 - 1 = 262 143
/// for a minute, 2^21 - 1 = 2 097 151 for an hour and 2^23 - 1 = 8 388 607 for a day
/// ([`QuotaError::LimitTooHigh`] says how many for other lengths).
/// [`Limiter::charge`](crate::Limiter::charge) beyond the limit saturates there too. A limit of 0
/// blocks: every cost above 0 is denied and can never fit.
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
    rule_of_window!("About `limit` units in any stretch of");

    /// The most that the estimate and a cost may be together, in units.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }
}

impl sealed::Sealed for SlidingWindow {}

impl Rule for SlidingWindow {
    type Algorithm = Sliding;
    type Leases = NoLeases;
    type Given<'a> = NoGiven<<Self::Algorithm as Algorithm>::State>;

    fn algorithm(&self) -> Result<Self::Algorithm, QuotaError> {
        Sliding::new(Even::new(self.window)?, self.limit)
    }

    fn refill_time(&self, _: &Self::Algorithm) -> Option<Duration> {
        Some(self.window)
    }
}
