//! Charges with a receipt: what reservations and sets of limits are made of.
//!
//! All of it looks at the word alone; what is given back comes out of leases first.

use core::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::denied::Outcome;
use crate::gcra::Bucket as _;
use crate::key::{KeyHash, KeyHasher};
use crate::limit::{Limit, Receipt, Subject, sealed::Sealed};
use crate::observer::Observer;
use crate::overflow::{Event, answer};
use crate::rule::{Algorithm, Leasing as _, Rule};
use crate::table::Update;

use super::{Limiter, State};

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

    fn place(&self, key: KeyHash) -> KeyHash {
        key
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn look(&self, whom: Subject<'_>, cost: u64, now: Timestamp) -> Decision {
        match self.given(whom) {
            None => self.look_under(&self.algorithm, whom.key, cost, now),
            Some(given) => self.look_under(&given, whom.key, cost, now),
        }
    }

    fn take(&self, whom: Subject<'_>, cost: u64, now: Timestamp) -> (Decision, Receipt) {
        if cost == 0 {
            return (self.look(whom, 0, now), Receipt::NOTHING);
        }
        match self.given(whom) {
            None => {
                let deny = |value, now| self.denied(cost, value, now);
                self.take_under(&self.algorithm, deny, whom.key, cost, now)
            }
            Some(given) => {
                let deny = |value, now| self.denied_under(&given, cost, value, now);
                self.take_under(&given, deny, whom.key, cost, now)
            }
        }
    }

    fn deny(&self, whom: Subject<'_>, cost: u64, now: Timestamp) -> Option<Decision> {
        self.leases.as_ref().and_then(R::Leases::denied)?;
        match self.given(whom) {
            None => {
                let deny = |value, now| self.denied(cost, value, now);
                self.deny_under(&self.algorithm, deny, whom.key, cost, now)
            }
            Some(given) => {
                let deny = |value, now| self.denied_under(&given, cost, value, now);
                self.deny_under(&given, deny, whom.key, cost, now)
            }
        }
    }

    fn give_back(&self, whom: Subject<'_>, cost: u64, receipt: Receipt) -> Decision {
        let Some(charged) = receipt.charged() else { return self.look(whom, 0, self.clock.now()) };
        match self.given(whom) {
            None => self.give_back_under(&self.algorithm, whom.key, cost, charged),
            Some(given) => self.give_back_under(&given, whom.key, cost, charged),
        }
    }

    fn take_anyway(&self, whom: Subject<'_>, cost: u64) -> Decision {
        match self.given(whom) {
            None => self.take_anyway_under(&self.algorithm, whom.key, cost),
            Some(given) => self.take_anyway_under(&given, whom.key, cost),
        }
    }

    fn refill_time(&self) -> Option<Duration> {
        self.rule.refill_time(&self.algorithm)
    }

    fn tell(&self, key: KeyHash, cost: u64, decision: &Decision) {
        if O::LISTENS {
            self.observer.decided(key, cost, decision);
        }
    }
}

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// The quota that was given with the call, if one was.
    fn given<'a>(&'a self, whom: Subject<'a>) -> Option<R::Given<'a>> {
        R::given(&self.algorithm, whom.quota?)
    }

    /// A denial is a denial also to the table, for whom `key` is then limited.
    fn look_under<A: Algorithm<State = State<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
    ) -> Decision {
        let (update, cost) = self.found_for(algorithm, key, cost, now);
        answer(&self.table, algorithm, key, update, cost)
    }

    /// The same for who asks for nothing: the table does not hear of it.
    pub(super) fn peek_under<A: Algorithm<State = State<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
    ) -> Decision {
        let (update, cost) = self.found_for(algorithm, key, cost, self.clock.now());
        self.heard(key, 0, algorithm.answer(update, cost))
    }

    /// What stands in the key's word, and the cost with which to answer: none where it fits.
    fn found_for<A: Algorithm<State = State<R>>>(
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

    /// `deny` is the value after a denial, `None` where it stays.
    fn take_under<A: Algorithm<State = State<R>>>(
        &self,
        algorithm: &A,
        deny: impl Fn(u64, u64) -> Option<u64>,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
    ) -> (Decision, Receipt) {
        let (home, outcome) = (self.table.home(key), Outcome::new());
        let admit_or_deny = |value, now| {
            let admitted = algorithm.admit(value, now, cost);
            outcome.of(admitted, || deny(value, now))
        };
        let update = home.update(self.instant(now), || self.instant_now(), admit_or_deny);
        let (update, charged) = outcome.told(update);
        let decision = answer(&self.table, algorithm, key, update, cost);
        (decision, Receipt::new(charged))
    }

    /// `deny` is the value after a denial, `None` where it stays.
    fn deny_under<A: Algorithm<State = State<R>>>(
        &self,
        algorithm: &A,
        deny: impl Fn(u64, u64) -> Option<u64>,
        key: KeyHash,
        cost: u64,
        now: Timestamp,
    ) -> Option<Decision> {
        let outcome = Outcome::new();
        let deny = |value, now| match algorithm.admit(value, now, cost) {
            Some(_) => None,
            None => outcome.of(None, || deny(value, now)),
        };
        let update = self.table.home(key).update(self.instant(now), || self.instant_now(), deny);
        let charged = matches!(update, Update::Written { .. });
        charged.then(|| algorithm.answer(outcome.told(update).0, cost))
    }

    fn give_back_under<A: Algorithm<State = State<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        charged: u64,
    ) -> Decision {
        self.correct(algorithm, key, |value, now| {
            // Starts behind the charge have been told. Without it newcomers would start beside them.
            let holds = algorithm.owes_beyond(value, now, self.waiters.least_tolerance());
            if holds { None } else { algorithm.give_back(value, now, cost, charged) }
        })
    }

    fn take_anyway_under<A: Algorithm<State = State<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
    ) -> Decision {
        self.correct(algorithm, key, |value, now| algorithm.charge(value, now, cost))
    }

    /// The value after a denial, `None` where it stays: everywhere, unless denied checks are charged.
    fn denied(&self, cost: u64, value: u64, now: u64) -> Option<u64> {
        self.leases.as_ref()?.deny(&self.algorithm, cost, value, now)
    }

    /// As [`Limiter::denied`], under a quota given with the call.
    fn denied_under(&self, given: &R::Given<'_>, cost: u64, value: u64, now: u64) -> Option<u64> {
        let denied = self.leases.as_ref().and_then(R::Leases::denied)?;
        denied.charge(&given.view(value, now), cost)
    }

    /// Replaces the key's value by what `decide(value, now)` returns, and tells what is left then.
    fn correct<A: Algorithm<State = State<R>>>(
        &self,
        algorithm: &A,
        key: KeyHash,
        decide: impl Fn(u64, u64) -> Option<u64>,
    ) -> Decision {
        let now = || self.instant_now();
        let left = match self.table.home(key).update(now(), now, &decide) {
            Update::Written { before, now } => {
                let found = decide(before, now).unwrap_or(before);
                if found < before {
                    self.lowered(key, found);
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
