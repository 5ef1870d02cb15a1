//! Changing the quota of a limiter while it is enforced.

use crate::clock::Clock;
use crate::live::{Inheritance, LiveQuota};
use crate::observer::Observer;
use crate::quota::{Quota, QuotaError};

use super::Limiter;

impl<C: Clock, O: Observer> Limiter<LiveQuota, C, O> {
    /// Puts `quota` in force for all keys, whose debt is carried over as `inheritance` says.
    ///
    /// Checks go on meanwhile and never wait: each is decided by the quota before or after, as a whole, and a
    /// check that begins after this returned by the one after. From the change at `at` on, every interval
    /// `[at, t]` admits at most `burst + rate * (t - at)` of the new quota on each key.
    ///
    /// A check that is under way at the change is carried over like any other, unless its thread
    /// stands still until the change after next, or reads the clock more than a second after the change: then
    /// that one charge is lost. A [`Limiter::charge`] under way beside the change that takes a key further beyond
    /// the burst than any key was, by more than a second's worth, loses what it is above that. Debt further than
    /// 52 days beyond the burst is cut.
    ///
    /// A [`Reservation`](crate::Reservation), or a set that is just being taken, that is open across a change is given back at the
    /// new emission interval: under [`Inheritance::Keep`] that is more than it took where the interval has grown, at most
    /// what the key owes, and less where it has shrunk; across two changes nothing is given back.
    ///
    /// O(capacity): twice through the table, like [`Limiter::live`](crate::Limiter::live). Changes at the
    /// same time are made one after another. Allocates nothing, and may be repeated often, but not for ever: each
    /// change takes the old burst's time to refill and a second, or the highest debt there is if that is
    /// more, from the 13.7 years for which a limiter's time goes on.
    ///
    /// # Errors
    /// When the quota can not be enforced, or [`QuotaError::NoTimeLeft`]; the quota stays as it is.
    pub fn set_quota(&self, quota: Quota, inheritance: Inheritance) -> Result<(), QuotaError> {
        let change = self.algorithm().change();
        let highest = self.table.entries().map(|(_, value)| change.tat(value)).max().unwrap_or(0);
        change.publish(quota, inheritance, self.clock.now(), highest)?;
        self.carry_over();
        Ok(())
    }

    /// The quota that is in force. [`Limiter::rule`] is the one that the limiter was built with.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.algorithm().quota()
    }

    /// Rewrites what is live and from before the change, so that the next change finds nothing older than
    /// itself.
    fn carry_over(&self) {
        let now = || self.instant_now();
        for (key, value) in self.table.entries() {
            if self.algorithm().carry(value).is_some() {
                let carry = |value, _| self.algorithm().carry(value);
                let _ = self.table.home(key).update(now(), now, carry);
            }
        }
    }
}
