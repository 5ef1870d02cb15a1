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
    /// O(capacity): two passes over the table, of which the second writes to each slot that has had
    /// a key: 27 ms at a million keys, 196 ms at ten million. Concurrent changes are made one after
    /// another. Allocates nothing. Changes may be frequent, and use nothing up: after each of them
    /// the limiter keeps time for 13.7 years.
    ///
    /// # Edge cases
    /// Charges concurrent with the change are carried over like any other, or decided anew by the
    /// new quota, except:
    /// * A charge that is made by the old quota, while it is being replaced, and that takes its key
    ///   deeper into debt than `F`, leaves the key only the part above `F`. `F` is 2^40 units of
    ///   time, 18 minutes or more, above the highest debt of any key, or above the time in which
    ///   the old burst refills if that is longer. Say a unit is 1 ns, the highest debt is 30 s, and
    ///   the burst refills in 10 s: `F` is 1,129.5 s, and a [`Limiter::charge`] that takes its key
    ///   to 1,130 s leaves it a debt of 0.5 s.
    ///
    ///   A check under the limiter's own quota cannot reach `F`, unless its reading of the clock is
    ///   18 minutes later than that of the change. These can: a quota given with the call
    ///   ([`Limiter::with_quota`]) that has a longer burst; [`Limiter::charge`],
    ///   [`Limiter::charge_debt`], [`Limiter::raise_debt`], [`Limiter::restore`]; a commit beyond
    ///   what was reserved; denied checks that are charged; and waits.
    /// * The answer to a check whose thread is stopped, after the decision, until the change after
    ///   next describes a key that owes nothing else. Whether it is allowed stays as decided.
    ///
    /// Debt saturates at 5.1 years or more, whatever it comes from.
    ///
    /// # Errors
    /// When the quota cannot be enforced; the quota stays as it is.
    pub fn set_quota(&self, quota: Quota, inheritance: Inheritance) -> Result<(), QuotaError> {
        self.algorithm().change(quota, inheritance, &self.table, || self.clock.now())
    }

    /// The quota in force. [`Limiter::rule`] is the one that the limiter was built with.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.algorithm().quota()
    }
}
