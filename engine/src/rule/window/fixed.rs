//! The fixed window as a rule.

use core::time::Duration;

use crate::rule::quota::QuotaError;
use crate::rule::{Rule, sealed};

use super::Even;
use super::count::Count;

/// At most `limit` units in each window of a fixed length. Windows follow one another from the
/// clock's origin; at the end of each the key is as good as new.
///
/// # When to use it
/// When a limit is stated per window and its users count the same way: "1000 a minute, the count
/// restarts each minute". Windows begin at the clock's origin, mostly when the process starts; for
/// windows of the wall clock take [`CalendarWindow`](crate::CalendarWindow), to spread load evenly
/// [`Quota`](crate::Quota).
///
/// # Guarantees
/// * In each window a key is admitted at most `limit` units, for any number of threads, plus what
///   is given back in it ([`Limiter::refund`](crate::Limiter::refund),
///   [`Limiter::reset`](crate::Limiter::reset)).
/// * A `now` before the window of an earlier check is decided as in that later window.
/// * After ten years of uptime time stands still: the last window never ends, and exhausted keys
///   stay denied.
///
/// # Error
/// In an interval of a window's length that does not begin with a window, up to `2 * limit` units
/// are admitted: `limit` at the end of one window and `limit` at the beginning of the next. In
/// `[s, t]` at most `limit * (ceil((t - s) / window) + 1)`.
///
/// # Cost
/// 20 bytes a key at the intended fill, as every rule of a [`Limiter`](crate::Limiter). A check
/// takes about as long as with a [`Quota`](crate::Quota): one multiplication, and one division when
/// a key enters a window.
///
/// # Ranges
/// A plain value; [`LimiterBuilder::build`](crate::limiter::LimiterBuilder::build) checks whether
/// it can be enforced. The window is from 1 ns to [`MAX_WINDOW`](crate::rule::MAX_WINDOW). The
/// window's number and the count share 59 bits, and numbers last for ten years, so the limit is at
/// most 2^30 - 1 for a second, 2^36 - 1 for a minute, 2^42 - 1 for an hour and 2^47 - 1 for a day
/// ([`QuotaError::LimitTooHigh`] gives the maximum for other windows).
/// [`Limiter::charge`](crate::Limiter::charge) beyond the limit saturates there too. A limit of 0
/// blocks: every cost above 0 is denied and can never fit.
///
/// ```
/// use tidegate_engine::{FixedWindow, Limiter, ManualClock};
/// use core::time::Duration;
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder(FixedWindow::per_minute(2)).clock(clock.clone()).build()?;
/// clock.advance(Duration::from_secs(50));
/// assert!(limiter.check("user:42").is_allowed());
/// assert!(limiter.check("user:42").is_allowed());
/// assert_eq!(limiter.check("user:42").retry_after(), Some(Duration::from_secs(10)));
/// clock.advance(Duration::from_secs(10));
/// assert!(limiter.check("user:42").is_allowed());
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    limit: u64,
    window: Duration,
}

impl FixedWindow {
    rule_of_window!("At most `limit` units in each window of");

    /// Units that are admitted in each window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }
}

impl sealed::Sealed for FixedWindow {}

impl Rule for FixedWindow {
    type Algorithm = Count<Even>;
    type PerCall<'a> = Self::Algorithm;

    fn algorithm(&self) -> Result<Self::Algorithm, QuotaError> {
        Count::new(Even::new(self.window)?, self.limit)
    }

    fn refill_time(&self, _: &Self::Algorithm) -> Option<Duration> {
        Some(self.window)
    }
}
