//! Checks of a class of calls that leaves a share to others.

use crate::base::decision::Decision;
use crate::base::key::Key;
use crate::contract::observer::Observer;
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm;
use crate::rule::headroom::Headroom;
use crate::time::Clock;

use super::denied::{TimedCheck, decide_charging};
use super::{HashedKey, Limiter, StateOf};

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Takes `cost` units if they fit and at least `headroom` more would: for a class of calls that
    /// may use a limit only while a share of it is left for more important ones. Those call
    /// [`Limiter::check_n`], or leave a smaller share.
    ///
    /// Decided and charged in one atomic step: whatever the other threads do, what this class is
    /// admitted has left `headroom` units at that instant. A denial's `retry_after` is the time
    /// until the cost fits and leaves them; `remaining` is what is left for all classes. Where the
    /// share and the cost together exceed the burst the class is always denied, with a
    /// `retry_after` of `None`. A cost of 0 takes nothing: it is a [`Limiter::peek`]. O(1), neither
    /// locks nor allocates.
    ///
    /// * `headroom` is a number of units, not a share of the limit. Where the limit shrinks, under
    ///   a quota that comes with the call ([`Limiter::with_quota`]) or a
    ///   [`LiveQuota`](crate::LiveQuota), to a burst of `headroom` or less, the class is denied for
    ///   ever: compute `headroom` from the burst that is in force.
    /// * With leases the key's word decides: units that threads have leased, the calling one
    ///   included, count as taken.
    /// * Where denied checks [are charged](crate::limiter::LimiterBuilder::charge_denied), a call
    ///   is charged if its own cost does not fit, and not if only the share lacks.
    /// * For a key without a slot the [`OverflowPolicy`](crate::OverflowPolicy) decides.
    ///
    /// ```
    /// use tidegate_engine::{Limiter, Quota};
    ///
    /// let limiter = Limiter::builder(Quota::per_hour(10)).capacity(1_000).build()?;
    /// let batch = || limiter.check_with_headroom("tenant:7", 1, 4).is_allowed(); // 4 for people
    /// assert_eq!((0..9).filter(|_| batch()).count(), 6);
    /// assert!(limiter.check("tenant:7").is_allowed());
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    #[doc(alias = "priority")]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_with_headroom(&self, key: impl Key, cost: u64, headroom: u64) -> Decision {
        self.check_with_headroom_under(self.algorithm(), &self.hashed(key), cost, headroom)
    }

    /// [`Limiter::check_with_headroom`] under the limiter's own rule or a quota given with the
    /// call.
    pub(super) fn check_with_headroom_under<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        key: &HashedKey<impl Key>,
        cost: u64,
        headroom: u64,
    ) -> Decision {
        let reread = || self.instant_now();
        let check = TimedCheck { table: &self.table, key: key.hash, cost, now: reread(), reread };
        let bursts = self.mode().charged_bursts();
        let changed = |change| self.notify_of_change(key.hash, change);
        let decision = decide_charging(bursts, &Headroom::new(algorithm, headroom), check, changed);
        self.notified(key, cost, decision)
    }
}
