//! Changing the quota of a limiter without keys while it is enforced.

use crate::clock::Clock;
use crate::live::{Inheritance, LiveQuota};
use crate::observer::Observer;
use crate::quota::{Quota, QuotaError};

use super::Single;

impl<C: Clock, O: Observer> Single<LiveQuota, C, O> {
    /// Puts `quota` in force; what is owed is carried over as `inheritance` says.
    ///
    /// Checks go on meanwhile and never wait: each is decided by the quota before or after, as a whole. Changes at the
    /// same time are made one after another. O(1), and may be repeated often, but not for ever: from the 13.7 years
    /// for which a limiter's time goes on, each change takes at most 137 s and the time in which the old burst refills,
    /// or what is owed drains if that is more.
    ///
    /// What is charged beside the change, and a reservation that is open across it, fare as [`Inheritance`] and
    /// [`Limiter::set_quota`](crate::Limiter::set_quota) say of one key.
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
