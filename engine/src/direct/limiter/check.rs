//! Checks, charges, refunds, and what a limiter was built with.

use crate::base::decision::Decision;
use crate::contract::grant::{Grant, UpTo};
use crate::contract::observer::Observer;
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm as _;
use crate::rule::headroom::Headroom;
use crate::rule::quota::Quota;
use crate::time::{Clock, Timestamp};

use super::DirectLimiter;

impl<R: Rule, C: Clock, O: Observer> DirectLimiter<R, C, O> {
    /// Asks for one unit: [`DirectLimiter::check_n`] with a cost of 1.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Asks for `cost` units and takes them when they fit, at the clock's present reading.
    ///
    /// A cost of 0 takes nothing: it is a [`DirectLimiter::peek`]. O(1).
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_n(&self, cost: u64) -> Decision {
        self.check_at(cost, self.clock.now())
    }

    /// As [`DirectLimiter::check_n`], at a time given by the caller, on the scale of the limiter's
    /// clock.
    ///
    /// A `now` earlier than that of a previous check never mints tokens: there is no table that
    /// forgets.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_at(&self, cost: u64, now: Timestamp) -> Decision {
        let decision = match &self.warm_up {
            None => self.decide(cost, now),
            Some(warm_up) => self.decide_warming(warm_up, cost, now).in_registers(),
        };
        self.notified(cost, &decision);
        decision
    }

    /// Takes as much of `cost` as fits: all of it, a part, or nothing, in one atomic step; see
    /// [`Limiter::check_up_to`](crate::Limiter::check_up_to). A cost of 0 takes nothing: it is a
    /// [`DirectLimiter::peek`]. O(1).
    pub fn check_up_to(&self, cost: u64) -> Grant {
        let (check, now) = (UpTo::new(cost), self.clock.now());
        let take = |value, now| check.admit(&self.algorithm, value, now);
        let update = self.update(self.instant(now), take);
        let (grant, cost) = check.grant(self.answer(update, check.decided(), now));
        self.notified(cost, &grant.decision());
        grant
    }

    /// Takes `cost` units if they fit and at least `headroom` more would, for a class of calls that
    /// leaves a share to more important ones; see
    /// [`Limiter::check_with_headroom`](crate::Limiter::check_with_headroom). O(1).
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn check_with_headroom(&self, cost: u64, headroom: u64) -> Decision {
        let (algorithm, now) = (Headroom::new(&self.algorithm, headroom), self.clock.now());
        let admit = |value, now| if cost == 0 { None } else { algorithm.admit(value, now, cost) };
        let update = self.update(self.instant(now), admit);
        let decision = self.warmed(algorithm.answer(update, cost), now);
        self.notified(cost, &decision);
        decision
    }

    /// What a check would find, without charging anything: `remaining` is what is left.
    #[inline]
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek(&self) -> Decision {
        self.check_n(0)
    }

    /// What a check of `cost` would find, without charging anything: whether it fits, and if not,
    /// when it will; `remaining` is the same in both cases. Observers are notified of it as of a
    /// peek. O(1).
    #[must_use = "a decision that is ignored limits nothing"]
    pub fn peek_n(&self, cost: u64) -> Decision {
        let decision = self.peek_with_headroom(cost, 0, self.clock.now());
        self.notified(0, &decision);
        decision
    }

    /// Charges `cost` units whether or not they fit: for a cost that is known only after it was
    /// spent. What does not fit is debt beyond the burst, and even a cost of 1 waits until it has
    /// drained. Saturates where the words of the [`Rule`] do. The answer is that of a
    /// [`DirectLimiter::peek`] straight after. O(1).
    pub fn charge(&self, cost: u64) -> Decision {
        self.change(|value, now| self.algorithm.charge(value, now, cost));
        self.peek()
    }

    /// Gives back `cost` units that were admitted and not used, at most all that is still charged;
    /// see [`Limiter::refund`](crate::Limiter::refund), and [`DirectLimiter::reserve`] for units
    /// whose charge is known. Concurrent refunds and checks lose nothing. O(1).
    pub fn refund(&self, cost: u64) {
        self.change(|value, now| self.algorithm.refund(value, now, cost));
    }

    /// Forgets what has been charged: the next check finds the whole burst. A warm-up goes on.
    /// O(1).
    pub fn reset(&self) {
        self.change(|value, now| self.algorithm.reset(value, now));
    }

    /// The rule the limiter was built with, which it enforces; under a `LiveQuota`,
    /// `DirectLimiter::quota` is the one in force.
    #[must_use]
    pub fn rule(&self) -> R {
        self.rule
    }

    /// The clock that [`DirectLimiter::check`] reads.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The observer that was given to the builder.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }
}

impl<C: Clock, O: Observer> DirectLimiter<Quota, C, O> {
    /// The quota that is enforced: [`DirectLimiter::rule`].
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.rule()
    }
}
