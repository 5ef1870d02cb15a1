//! Checks that take as much as fits.

use crate::base::key::Key;
use crate::contract::grant::{Grant, UpTo};
use crate::contract::observer::Observer;
use crate::contract::outcome::Outcome;
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm;
use crate::table::answer::answer;
use crate::time::Clock;

use super::{HashedKey, Limiter, StateOf};

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Takes as much of `cost` as fits: all of it, a part, or nothing. For work that can be done in
    /// parts, such as sending what is in a buffer. A cost of 0 takes nothing: it is a
    /// [`Limiter::peek`].
    ///
    /// What fits is found and charged in one atomic step. So calls of any number of threads
    /// together take no more than the [`Rule`] admits, and one that takes less than its cost leaves
    /// no unit that fits at that instant. O(1), neither locks nor allocates.
    ///
    /// * With leases the key's word decides: units that threads have leased, the calling one
    ///   included, count as taken.
    /// * Where denied checks [are charged](crate::limiter::LimiterBuilder::charge_denied), a call
    ///   that takes nothing is charged as a denied check of one unit; one that takes a part is not
    ///   a denial.
    /// * For a key without a slot the [`OverflowPolicy`](crate::OverflowPolicy) decides; one that
    ///   is admitted uncharged is granted what a fresh key is.
    /// * Observers are notified of a check of the units that were taken, or of one unit that was
    ///   denied.
    ///
    /// Unused units are given back by [`Limiter::refund`]. Where they can be known only after a
    /// while, [`Limiter::reserve`] the whole cost.
    ///
    /// ```
    /// use tidegate_engine::{Limiter, Quota};
    ///
    /// let bytes = Limiter::builder(Quota::per_hour(1_500)).capacity(1_000).build()?;
    /// assert_eq!(bytes.check_up_to("user:42", 1_000).units(), 1_000);
    /// let part = bytes.check_up_to("user:42", 1_000);
    /// assert!(part.decision().is_allowed() && part.units() == 500);
    /// let none = bytes.check_up_to("user:42", 1_000);
    /// assert!(!none.decision().is_allowed() && none.units() == 0);
    /// assert!(none.decision().retry_after().is_some());
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    pub fn check_up_to(&self, key: impl Key, cost: u64) -> Grant {
        self.grant_under(self.algorithm(), &self.hashed(key), cost)
    }

    /// [`Limiter::check_up_to`] under the limiter's own rule or a quota given with the call.
    pub(super) fn grant_under<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        key: &HashedKey<impl Key>,
        cost: u64,
    ) -> Grant {
        let (check, outcome) = (UpTo::new(cost), Outcome::new());
        let now = || self.instant_now();
        let update = self.table.home(key.hash).update(now(), now, |value, now| {
            outcome.record(check.admit(algorithm, value, now), || match cost {
                0 => None,
                _ => self.denied(algorithm, 1, value, now),
            })
        });
        self.notify_of_update(key.hash, update, |_, _| outcome.charged());
        let (update, _) = outcome.update_and_receipt(update);
        let decision = answer(&self.table, algorithm, key.hash, update, check.decided());
        let (grant, cost) = check.grant(decision);
        self.notified(key, cost, decision);
        grant
    }
}
