//! Changing the quota of a limiter while it is enforced.

use crate::contract::observer::Observer;
use crate::rule::live::{Inheritance, LiveQuota};
use crate::rule::quota::{Quota, QuotaError};
use crate::time::Clock;

use super::Limiter;

impl<C: Clock, O: Observer> Limiter<LiveQuota, C, O> {
    /// Puts `quota` in force for all keys, whose debt is carried over as `inheritance` says.
    ///
    /// Checks go on meanwhile and never wait: each is decided by the quota before or after, as a
    /// whole, and a check that begins after this returned by the one after. From the change at `at`
    /// on, every interval `[at, t]` admits at most `burst + rate * (t - at)` of the new quota on
    /// each key; [`Inheritance`] states what intervals across changes admit.
    ///
    /// A [`Reservation`](crate::Reservation), or a set in progress, that is open across a change
    /// gives back what remains of the time it was charged for, as far as that still counts. Where a
    /// lowered burst has cut debt, everything that was cut is attributed to it, because the owner
    /// is unknown: it gives back less, or nothing. Across more than one change, and for
    /// reservations under a quota given with the call, nothing is given back. A place in line that
    /// is given up after a change lapses.
    ///
    /// O(capacity): two passes over the table, like [`Limiter::live`]. Concurrent changes are made
    /// one after another. Allocates nothing. Changes may be frequent, but not without end: of the
    /// 13.7 years for which a limiter keeps time, each change takes at most 137 s and the time in
    /// which the old burst refills, or the highest debt drains if that is longer.
    ///
    /// # Edge cases
    /// Charges concurrent with the change are carried over like any other, except:
    /// * A thread that is stopped between reading the quota and its charge until the change after
    ///   next loses that charge.
    /// * A charge that is made by the old quota, while it is being replaced, and that takes its key
    ///   deeper into debt than `F`, leaves the key only the part above `F`. `F` is 2^36 units of
    ///   time, 68.7 s or more, above the highest debt of any key, or above the time in which the
    ///   old burst refills if that is longer. Say a unit is 1 ns, the highest debt is 30 s, and the
    ///   burst refills in 10 s: `F` is 98.7 s, and a [`Limiter::charge`] that takes its key to 100
    ///   s leaves it a debt of 1.3 s.
    ///
    ///   A check under the limiter's own quota cannot reach `F`, unless its reading of the clock is
    ///   68 s later than that of the change. These can: a quota given with the call
    ///   ([`Limiter::with_quota`]) that has a longer burst; [`Limiter::charge`],
    ///   [`Limiter::charge_debt`], [`Limiter::raise_debt`], [`Limiter::restore`]; a commit beyond
    ///   what was reserved; denied checks that are charged; and waits.
    /// * Debt further than 52 days beyond the burst is cut.
    ///
    /// # Errors
    /// When the quota cannot be enforced, or [`QuotaError::NoTimeLeft`]; the quota stays as it is.
    pub fn set_quota(&self, quota: Quota, inheritance: Inheritance) -> Result<(), QuotaError> {
        let change = self.algorithm().change();
        let highest = self.table.entries().map(|(_, value)| change.tat(value)).max().unwrap_or(0);
        change.publish(quota, inheritance, self.clock.now(), highest)?;
        self.carry_over();
        Ok(())
    }

    /// The quota in force. [`Limiter::rule`] is the one that the limiter was built with.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.algorithm().quota()
    }

    /// Rewrites live values from before the change, so that the next change finds nothing older
    /// than this one.
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
