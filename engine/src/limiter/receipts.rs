//! Charges with a receipt: what reservations and sets of limits are made of.
//!
//! All of it looks at the word alone; what is given back comes out of leases first.

use core::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::denied::Outcome;
use crate::key::{KeyHash, KeyHasher};
use crate::limit::{Limit, Receipt, sealed::Sealed};
use crate::observer::Observer;
use crate::overflow::{Event, answer};
use crate::rule::{Algorithm as _, Leasing as _, Rule};
use crate::table::Update;

use super::Limiter;

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

    fn look(&self, key: KeyHash, cost: u64, now: Timestamp) -> Decision {
        let (home, now) = (self.table.home(key), self.instant(now));
        let update = home.update(now, || now, |_, _| None);
        let fits = |value, now| cost == 0 || self.algorithm.admit(value, now, cost).is_some();
        let cost = match update {
            Update::Unchanged { found, now } if fits(found, now) => 0,
            _ => cost,
        };
        answer(&self.table, &self.algorithm, key, update, cost)
    }

    fn take(&self, key: KeyHash, cost: u64, now: Timestamp) -> (Decision, Receipt) {
        if cost == 0 {
            return (self.look(key, 0, now), Receipt::NOTHING);
        }
        let (home, outcome) = (self.table.home(key), Outcome::new());
        let admit_or_deny = |value, now| {
            let admitted = self.algorithm.admit(value, now, cost);
            outcome.of(admitted, || self.denied(cost, value, now))
        };
        let update = home.update(self.instant(now), || self.instant_now(), admit_or_deny);
        let (update, charged) = outcome.told(update);
        let decision = answer(&self.table, &self.algorithm, key, update, cost);
        (decision, Receipt::new(charged))
    }

    fn deny(&self, key: KeyHash, cost: u64, now: Timestamp) -> Option<Decision> {
        self.leases.as_ref().and_then(R::Leases::denied)?;
        let outcome = Outcome::new();
        let deny = |value, now| match self.algorithm.admit(value, now, cost) {
            Some(_) => None,
            None => outcome.of(None, || self.denied(cost, value, now)),
        };
        let update = self.table.home(key).update(self.instant(now), || self.instant_now(), deny);
        let charged = matches!(update, Update::Written { .. });
        charged.then(|| self.algorithm.answer(outcome.told(update).0, cost))
    }

    fn give_back(&self, key: KeyHash, cost: u64, receipt: Receipt) -> Decision {
        let Some(charged) = receipt.charged() else { return self.look(key, 0, self.clock.now()) };
        self.correct(key, |value, now| {
            // Starts behind the charge have been told. Without it newcomers would start beside them.
            let holds = self.algorithm.starts_later(value, now) && self.waiters.ever();
            if holds { None } else { self.algorithm.give_back(value, now, cost, charged) }
        })
    }

    fn take_anyway(&self, key: KeyHash, cost: u64) -> Decision {
        self.correct(key, |value, now| self.algorithm.charge(value, now, cost))
    }

    fn window(&self) -> Option<Duration> {
        self.rule.window(&self.algorithm)
    }

    fn tell(&self, key: KeyHash, cost: u64, decision: &Decision) {
        if O::LISTENS {
            self.observer.decided(key, cost, decision);
        }
    }
}

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// The value after a denial, `None` where it stays: everywhere, unless denied checks are charged.
    fn denied(&self, cost: u64, value: u64, now: u64) -> Option<u64> {
        self.leases.as_ref()?.deny(&self.algorithm, cost, value, now)
    }

    /// Replaces the key's value by what `decide(value, now)` returns, and tells what is left then.
    fn correct(&self, key: KeyHash, decide: impl Fn(u64, u64) -> Option<u64>) -> Decision {
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
        self.algorithm.answer(left, 0)
    }
}
