//! Limits as objects: calls on a limit whose kind is known only at run time.

use alloc::sync::Arc;

use crate::base::decision::Decision;
use crate::base::key::Key;
use crate::contract::limit::{Limit, Subject, answered};
use crate::contract::observer::ObservedKey;
use crate::contract::reserve::Reservation;

impl dyn Limit + '_ {
    /// Takes one unit of `key` if it fits: `check_n` with a cost of 1.
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check(&self, key: impl Key) -> Decision {
        self.check_n(key, 1)
    }

    /// Takes `cost` units of `key` if they fit: [`Limiter::check_n`](crate::Limiter::check_n), or
    /// the method of that name of another limit. A cost of 0 takes nothing: it is a peek.
    ///
    /// O(1), where the limit states nothing else.
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_n(&self, key: impl Key, cost: u64) -> Decision {
        answered(self, self.check_key(&key, cost))
    }

    /// Takes `cost` units of `key` if they fit and at least `headroom` more would, for a class of
    /// calls that leaves a share to more important ones; see
    /// [`Limiter::check_with_headroom`](crate::Limiter::check_with_headroom). Of a
    /// `ShardedCounter`, units in shards count as taken.
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_with_headroom(&self, key: impl Key, cost: u64, headroom: u64) -> Decision {
        let subject = Subject { left: headroom, ..self.subject(&key) };
        let (decision, _) = self.try_charge(subject, cost, self.now());
        self.notify(ObservedKey::new(subject.key, &key), cost, &decision);
        answered(self, decision)
    }

    /// What a check of `key` would find, without charging anything: `remaining` is what is left.
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek(&self, key: impl Key) -> Decision {
        self.check_n(key, 0)
    }

    /// What a check of `cost` would find, without charging anything: whether it fits, and if not,
    /// when it will; [`Limiter::peek_n`](crate::Limiter::peek_n), and the same of every limit.
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek_n(&self, key: impl Key, cost: u64) -> Decision {
        answered(self, self.peek_key(&key, cost))
    }

    /// Gives back `cost` units that were admitted and not used, and returns whether this kind of
    /// limit can: see [`Limiter::refund`](crate::Limiter::refund).
    ///
    /// [`SubWindowCounter`](crate::counter::SubWindowCounter) and `ShardedCounter` cannot, for want
    /// of a receipt that says in which sub-window the units count. There nothing is given back, and
    /// the answer is `false`: the units count until they expire. Reserved units
    /// are given back by every limit.
    #[allow(clippy::must_use_candidate, reason = "nothing more can be done without a receipt")]
    pub fn refund(&self, key: impl Key, cost: u64) -> bool {
        self.refund_key(&key, cost)
    }

    /// Takes `cost` units of `key` if they fit, and returns the right to give back those that are
    /// not used: [`Limiter::reserve`](crate::Limiter::reserve). O(1), neither locks nor allocates.
    ///
    /// # Errors
    /// The denial when the units do not fit.
    pub fn reserve(&self, key: impl Key, cost: u64) -> Result<Reservation<'_>, Decision> {
        Reservation::borrowed(self, self.subject(&key), &key, cost)
    }

    /// The key as this limit knows it, under its own rule.
    fn subject(&self, key: &impl Key) -> Subject<'static> {
        Subject::from(self.charged_key(key.hash_with(self.hasher())))
    }
}

impl dyn Limit {
    /// As `reserve`, for a reservation that moves into a task: it keeps the limit
    /// alive.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate_engine::{DirectLimiter, Limit, Quota};
    ///
    /// let budget: Arc<dyn Limit> = Arc::new(DirectLimiter::new(Quota::per_hour(10_000))?);
    /// if let Ok(reserved) = budget.reserve_owned("user:42", 4_000) {
    ///     let answered = std::thread::spawn(move || reserved.commit(812).remaining());
    ///     assert!(answered.join().is_ok_and(|left| left >= 10_000 - 812));
    /// }
    /// # Ok::<(), tidegate_engine::QuotaError>(())
    /// ```
    ///
    /// # Errors
    /// The denial when the units do not fit.
    pub fn reserve_owned(
        self: &Arc<Self>,
        key: impl Key,
        cost: u64,
    ) -> Result<Reservation<'static>, Decision> {
        Reservation::shared(Arc::clone(self), self.subject(&key), &key, cost)
    }
}
