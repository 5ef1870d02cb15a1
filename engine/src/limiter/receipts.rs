//! Charges with a receipt, for reservations and sets of limits.
//!
//! They use the word only; what is given back is taken from leases first.

use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::key::{Key, KeyHash, KeyHasher};
use crate::base::word::Update;
use crate::contract::limit::{Limit, Receipt, Subject, sealed::Sealed};
use crate::contract::observer::{ObservedKey, Observer};
use crate::contract::outcome::Outcome;
use crate::contract::wait::{JoinRequest, JoinResult};
use crate::rule::Rule;
use crate::rule::algorithm::Algorithm;
use crate::rule::headroom::Headroom;
use crate::table::answer::answer;
use crate::table::overflow::Event;
use crate::time::{Clock, Timestamp};

use super::change::Change;
use super::enqueue::Join;
use super::{HashedKey, Limiter, StateOf};

impl<R: Rule, C: Clock, O: Observer> Sealed for Limiter<R, C, O> {}

impl<R, C, O> Limit for Limiter<R, C, O>
where
    R: Rule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    fn charged_key(&self, key: KeyHash) -> KeyHash {
        key
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn peek_at(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> Decision {
        let Subject { key, left, .. } = subject;
        match self.per_call(subject) {
            None => self.peek_at_under(&Headroom::new(&self.algorithm, left), key, cost, now),
            Some(per_call) => self.peek_at_under(&Headroom::new(&per_call, left), key, cost, now),
        }
    }

    fn try_charge(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> (Decision, Receipt) {
        if cost == 0 {
            return (self.peek_at(subject, 0, now), Receipt::NOTHING);
        }
        let Subject { key, left, .. } = subject;
        match self.per_call(subject) {
            None => self.try_charge_under(&Headroom::new(&self.algorithm, left), key, cost, now),
            Some(per_call) => {
                self.try_charge_under(&Headroom::new(&per_call, left), key, cost, now)
            }
        }
    }

    fn charge_denied(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> Option<Decision> {
        self.mode().charged_bursts()?;
        let Subject { key, left, .. } = subject;
        match self.per_call(subject) {
            None => self.charge_denied_under(&Headroom::new(&self.algorithm, left), key, cost, now),
            Some(per_call) => {
                self.charge_denied_under(&Headroom::new(&per_call, left), key, cost, now)
            }
        }
    }

    fn give_back(&self, subject: Subject<'_>, cost: u64, receipt: Receipt) -> Decision {
        let Some(charged) = receipt.charged() else {
            return self.peek_at(subject, 0, self.clock.now());
        };
        match self.per_call(subject) {
            None => self.give_back_under(&self.algorithm, subject.key, cost, charged),
            Some(per_call) => self.give_back_under(&per_call, subject.key, cost, charged),
        }
    }

    fn force_charge(&self, subject: Subject<'_>, cost: u64) -> Decision {
        match self.per_call(subject) {
            None => self.force_charge_under(&self.algorithm, subject.key, cost),
            Some(per_call) => self.force_charge_under(&per_call, subject.key, cost),
        }
    }

    fn join(&self, subject: Subject<'_>, cost: u64, request: &JoinRequest) -> JoinResult<'_> {
        // Places take what they cost from the line, and leave nothing to those behind them.
        if subject.left > 0 {
            return JoinResult::NoLine;
        }
        let join = Join { limiter: self, subject, cost, request: *request };
        R::visit_debt_rule(join).unwrap_or(JoinResult::NoLine)
    }

    fn refill_time(&self) -> Option<Duration> {
        self.rule.refill_time(&self.algorithm)
    }

    fn notify(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision) {
        if self.observer.observes_decisions() {
            self.observer.on_decision(key, cost, decision);
        }
    }

    fn check_key(&self, key: &dyn Key, cost: u64) -> Decision {
        self.check_n(key, cost)
    }

    fn peek_key(&self, key: &dyn Key, cost: u64) -> Decision {
        self.peek_n(key, cost)
    }

    fn refund_key(&self, key: &dyn Key, cost: u64) -> bool {
        self.refund(key, cost);
        true
    }
}

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// The quota that was given with the call, if one was.
    fn per_call<'a>(&'a self, subject: Subject<'a>) -> Option<R::PerCall<'a>> {
        R::per_call(&self.algorithm, subject.quota?)
    }

    /// What a check would find; the table counts a denial as a strike of the key.
    fn peek_at_under<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
    ) -> Decision {
        let (update, cost) = self.found_for(algorithm, key, cost, now);
        answer(&self.table, algorithm, key, update, cost)
    }

    /// What a peek finds: the same without a strike.
    pub(super) fn peek_under<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        key: &HashedKey<impl Key>,
        cost: u64,
    ) -> Decision {
        let (update, cost) = self.found_for(algorithm, key.hash, cost, self.clock.now());
        self.notified(key, 0, algorithm.answer(update, cost))
    }

    /// The word of the key, and the cost to answer with: 0 if it fits.
    fn found_for<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
    ) -> (Update, u64) {
        let (home, now) = (self.table.home(key), self.instant(now));
        let update = home.update(now, || now, |_, _| None);
        let fits = |value, now| cost == 0 || algorithm.admit(value, now, cost).is_some();
        let fits = matches!(update, Update::Unchanged { found, now } if fits(found, now));
        (update, if fits { 0 } else { cost })
    }

    fn try_charge_under<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
    ) -> (Decision, Receipt) {
        let (home, outcome) = (self.table.home(key), Outcome::new());
        let admit_or_deny = |value, now| {
            let admitted = algorithm.admit(value, now, cost);
            outcome.record(admitted, || self.denied(algorithm, cost, value, now))
        };
        let update = home.update(self.instant(now), || self.instant_now(), admit_or_deny);
        self.notify_of_update(key, update, |_, _| outcome.charged());
        let (update, charged) = outcome.update_and_receipt(update);
        let decision = answer(&self.table, algorithm, key, update, cost);
        (decision, Receipt::new(charged))
    }

    fn charge_denied_under<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
    ) -> Option<Decision> {
        let outcome = Outcome::new();
        let deny = |value, now| match algorithm.admit(value, now, cost) {
            Some(_) => None,
            None => outcome.record(None, || self.denied(algorithm, cost, value, now)),
        };
        let update = self.table.home(key).update(self.instant(now), || self.instant_now(), deny);
        self.notify_of_update(key, update, |_, _| outcome.charged());
        let charged = matches!(update, Update::Written { .. });
        charged.then(|| algorithm.answer(outcome.update_and_receipt(update).0, cost))
    }

    fn give_back_under<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        charged: u64,
    ) -> Decision {
        self.correct(algorithm, key, |value, now| {
            // Starts after the charge are already assigned. Giving back would let newcomers start
            // at the same time.
            let holds = algorithm.owes_beyond(value, now, self.waiters.least_tolerance());
            if holds { None } else { algorithm.give_back(value, now, cost, charged) }
        })
    }

    fn force_charge_under<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
    ) -> Decision {
        self.correct(algorithm, key, |value, now| algorithm.charge(value, now, cost))
    }

    /// The value after a denial; `None` when it does not change, which is always so unless denied
    /// checks are charged.
    pub(super) fn denied<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        cost: u64,
        value: u64,
        now: u64,
    ) -> Option<u64> {
        algorithm.charge_denied(value, now, cost, self.mode().charged_bursts()?)
    }

    /// Replaces the value of the key by the result of `decide(value, now)`, and returns what
    /// remains.
    fn correct<A: Algorithm<State = StateOf<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        decide: impl Fn(u64, u64) -> Option<u64>,
    ) -> Decision {
        let now = || self.instant_now();
        let left = match self.table.home(key).update(now(), now, &decide) {
            Update::Written { before, now } => {
                let found = decide(before, now).unwrap_or(before);
                self.notify_of_change(key, Change { from: before, to: found, now });
                if found < before {
                    self.lowered(key, before, found);
                    if self.waiters.count() > 0 {
                        self.wait_lists.given_back(key, before - found, || self.clock.now());
                    }
                }
                Update::Unchanged { found, now }
            }
            Update::Full { now, .. } => {
                self.table.count(Event::ChargeDropped);
                Update::Unchanged { found: 0, now }
            }
            unchanged @ Update::Unchanged { .. } => unchanged,
        };
        algorithm.answer(left, 0)
    }
}
