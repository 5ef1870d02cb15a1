//! Changing the quota of a limiter without keys while it is enforced.

use crate::clock::Clock;
use crate::live::{Inheritance, LiveQuota};
use crate::observer::Observer;
use crate::quota::{Quota, QuotaError};

use super::Single;

impl<C: Clock, O: Observer> Single<LiveQuota, C, O> {
    /// Puts `quota` in force; what is owed is carried over as `inheritance` says. All that
    /// [`Limiter::set_quota`](crate::Limiter::set_quota) says of a key holds here, but for the complexity: O(1).
    ///
    /// ```
    /// use tidegate_engine::{Inheritance, LiveQuota, Quota, Single};
    ///
    /// let calls = Single::new(LiveQuota::new(Quota::per_second(5)))?;
    /// assert!(calls.check_n(5).is_allowed());
    /// calls.set_quota(Quota::per_second(50), Inheritance::Proportional)?;
    /// assert!(calls.check_n(45).is_allowed());
    /// # Ok::<(), tidegate_engine::QuotaError>(())
    /// ```
    ///
    /// # Errors
    /// When the quota can not be enforced, or [`QuotaError::NoTimeLeft`]; the quota stays as it is.
    pub fn set_quota(&self, quota: Quota, inheritance: Inheritance) -> Result<(), QuotaError> {
        let change = self.algorithm.change();
        let at = self.warped(self.clock.now());
        change.publish(quota, inheritance, at, change.tat(self.value()))?;
        // The next change then finds nothing older than this one.
        self.change(|value, _| self.algorithm.carry(value));
        Ok(())
    }

    /// The quota that is in force. [`Single::rule`] is the one that the limiter was built with.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.algorithm.quota()
    }
}
