//! Changing the quota of a limiter without keys while it is enforced.

use crate::contract::observer::Observer;
use crate::rule::live::{Inheritance, LiveQuota};
use crate::rule::quota::{Quota, QuotaError};
use crate::time::Clock;

use super::DirectLimiter;

impl<C: Clock, O: Observer> DirectLimiter<LiveQuota, C, O> {
    /// Puts `quota` in force; what is owed is carried over as `inheritance` says.
    ///
    /// Checks go on meanwhile and never wait: each is decided by the quota before or after, as a
    /// whole. Concurrent changes are made one after another. O(1). Changes may be frequent, but not
    /// without end: of the 13.7 years for which a limiter keeps time, each change takes at most 137
    /// s and the time in which the old burst refills, or the debt drains if that is longer.
    ///
    /// Charges concurrent with the change, and reservations that are open across it, are treated as
    /// [`Inheritance`] and [`Limiter::set_quota`](crate::Limiter::set_quota) state for one key.
    ///
    /// ```
    /// use tidegate_engine::rule::Inheritance;
    /// use tidegate_engine::{DirectLimiter, LiveQuota, Quota};
    ///
    /// let calls = DirectLimiter::new(LiveQuota::new(Quota::per_second(5)))?;
    /// assert!(calls.check_n(5).is_allowed());
    /// calls.set_quota(Quota::per_second(50), Inheritance::Proportional)?;
    /// assert!(calls.check_n(45).is_allowed());
    /// # Ok::<(), tidegate_engine::QuotaError>(())
    /// ```
    ///
    /// # Errors
    /// When the quota cannot be enforced, or [`QuotaError::NoTimeLeft`]; the quota stays as it is.
    pub fn set_quota(&self, quota: Quota, inheritance: Inheritance) -> Result<(), QuotaError> {
        let change = self.algorithm.change();
        let at = self.warped(self.clock.now());
        change.publish(quota, inheritance, at, change.tat(self.value()))?;
        // The next change then finds nothing older than this one.
        self.change(|value, _| self.algorithm.carry(value));
        Ok(())
    }

    /// The quota in force. [`DirectLimiter::rule`] is the one that the limiter was built with.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.algorithm.quota()
    }
}
