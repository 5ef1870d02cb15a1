//! Charges with a receipt: for sets with keyed limits, and for reservations.

use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::key::Key;
use crate::base::word::Update;
use crate::contract::limit::{Limit, Receipt, Subject, sealed::Sealed};
use crate::contract::observer::{ObservedKey, Observer};
use crate::contract::outcome::Outcome;
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm as _;
use crate::rule::headroom::Headroom;
use crate::time::{Clock, Timestamp};

use super::DirectLimiter;

impl<R: Rule, C: Clock, O: Observer> DirectLimiter<R, C, O> {
    /// What a check of `cost` would find.
    pub(super) fn peek_with_headroom(&self, cost: u64, left: u64, now: Timestamp) -> Decision {
        let algorithm = Headroom::new(&self.algorithm, left);
        let update = self.update(self.instant(now), |_, _| None);
        let fits = |value, now| cost == 0 || algorithm.admit(value, now, cost).is_some();
        let cost = match update {
            Update::Unchanged { found, now } if fits(found, now) => 0,
            _ => cost,
        };
        self.warmed(algorithm.answer(update, cost), now)
    }

    /// Replaces the value by the result of `decide(value, now)`, and returns what remains.
    fn correct(&self, decide: impl Fn(u64, u64) -> Option<u64>) -> Decision {
        let now = self.clock.now();
        let found = match self.update(self.instant(now), &decide) {
            Update::Written { before, now } => decide(before, now).unwrap_or(before),
            Update::Unchanged { found, .. } => found,
            // The word of this limiter always has a place.
            Update::Full { .. } => 0,
        };
        self.answer(Update::Unchanged { found, now: self.instant(now) }, 0, now)
    }
}

impl<R: Rule, C: Clock, O: Observer> Sealed for DirectLimiter<R, C, O> {}

/// Every key is the same one.
impl<R, C, O> Limit for DirectLimiter<R, C, O>
where
    R: Rule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn peek_at(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> Decision {
        self.peek_with_headroom(cost, subject.left, now)
    }

    fn try_charge(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> (Decision, Receipt) {
        if cost == 0 {
            return (self.peek_at(subject, 0, now), Receipt::NOTHING);
        }
        let (algorithm, outcome) = (Headroom::new(&self.algorithm, subject.left), Outcome::new());
        let admit = |value, now| outcome.record(algorithm.admit(value, now, cost), || None);
        let (update, charged) = outcome.update_and_receipt(self.update(self.instant(now), admit));
        (self.warmed(algorithm.answer(update, cost), now), Receipt::new(charged))
    }

    fn give_back(&self, subject: Subject<'_>, cost: u64, receipt: Receipt) -> Decision {
        let Some(charged) = receipt.charged() else {
            return self.peek_at(subject, 0, self.clock.now());
        };
        self.correct(|value, now| self.algorithm.give_back(value, now, cost, charged))
    }

    fn force_charge(&self, _: Subject<'_>, cost: u64) -> Decision {
        self.correct(|value, now| self.algorithm.charge(value, now, cost))
    }

    /// Not constant during a warm-up.
    fn refill_time(&self) -> Option<Duration> {
        self.rule.refill_time(&self.algorithm).filter(|_| self.warm_up.is_none())
    }

    fn notify(&self, _: ObservedKey<'_>, cost: u64, decision: &Decision) {
        self.notified(cost, decision);
    }

    fn check_key(&self, _: &dyn Key, cost: u64) -> Decision {
        self.check_n(cost)
    }

    fn peek_key(&self, _: &dyn Key, cost: u64) -> Decision {
        self.peek_n(cost)
    }

    fn refund_key(&self, _: &dyn Key, cost: u64) -> bool {
        self.refund(cost);
        true
    }
}
