//! Charging denied checks, so that a client that keeps hammering stays banned.
//!
//! A denial that charges is one update of the word, like an admission: who reads the word next finds both the
//! decision and the charge. Which of the two it was follows from the word before, since only what does
//! not fit is denied.

use core::cell::Cell;

use crate::decision::Decision;
use crate::gcra::{Bucket, Gcra, TAU_MAX, Tat, Terms, View};
use crate::key::KeyHash;
#[cfg(feature = "std")]
use crate::lease::Leases;
use crate::overflow::answer;
use crate::rule::{Algorithm, Leasing};
use crate::table::{Table, Update};

/// Up to how many bursts beyond the burst denied checks are charged.
#[derive(Clone, Copy, Debug)]
pub struct ChargeDenied {
    bursts: u64,
}

/// A check of a key, and when it is made: `now` and `reread` are as in [`Home::update`].
pub(crate) struct Check<'t, S, R> {
    pub(crate) table: &'t Table<S>,
    pub(crate) key: KeyHash,
    pub(crate) cost: u64,
    pub(crate) now: u64,
    pub(crate) reread: R,
}

impl ChargeDenied {
    /// `None` for no bursts: then nothing is charged.
    pub(crate) fn new(bursts: u64) -> Option<Self> {
        (bursts > 0).then_some(Self { bursts })
    }

    /// The debt up to which denied checks are charged, in units; at most what fits into a word above the
    /// last instant.
    fn ceiling(self, tau: u64) -> u64 {
        tau.saturating_mul(self.bursts.saturating_add(1)).min(TAU_MAX)
    }

    /// The TAT after a denial; `None` when it stays. What never fits is not charged.
    pub(crate) fn charge<T: Terms>(self, view: &View<T>, cost: u64) -> Option<u64> {
        let View { gcra, tat, now, .. } = view;
        let charged = Algorithm::charge(gcra, *tat, *now, cost).filter(|_| gcra.can_fit(cost))?;
        let charged = charged.min(now + self.ceiling(gcra.tau()));
        (charged > *tat).then_some(charged)
    }

    /// Decides a check and charges it up to the ceiling, whatever the decision.
    #[inline(never)]
    pub(crate) fn decide_charging<A: Bucket>(
        self,
        algorithm: &A,
        check: Check<'_, A::State, impl Fn() -> u64>,
    ) -> Decision {
        let Check { table, key, cost, now, reread } = check;
        let outcome = Outcome::new();
        let update = table.home(key).update(now, reread, |value, now| match cost {
            0 => None,
            _ => outcome.of(algorithm.admit(value, now, cost), || {
                self.charge(&algorithm.view(value, now), cost)
            }),
        });
        answer(table, algorithm, key, outcome.told(update).0, cost)
    }
}

/// Which of the two a cost was, where it is admitted or else its denial charged.
pub(crate) struct Outcome(Cell<Option<Charged>>);

/// A charge, by the value that it left.
#[derive(Clone, Copy)]
enum Charged {
    Admitted(u64),
    Denied(u64),
}

impl Outcome {
    pub(crate) fn new() -> Self {
        Self(Cell::new(None))
    }

    /// The value after the one or the other; `None` where it stays. The last call is the one that counts.
    pub(crate) fn of(
        &self,
        admitted: Option<u64>,
        denied: impl FnOnce() -> Option<u64>,
    ) -> Option<u64> {
        let charged = admitted.map(Charged::Admitted).or_else(|| denied().map(Charged::Denied));
        self.0.set(charged);
        charged.map(|(Charged::Admitted(value) | Charged::Denied(value))| value)
    }

    /// What the update is to be answered with, and the value that an admission left.
    pub(crate) fn told(&self, update: Update) -> (Update, Option<u64>) {
        match (update, self.0.get()) {
            // The answer counts what the denial was charged.
            (Update::Written { now, .. }, Some(Charged::Denied(found))) => {
                (Update::Unchanged { found, now }, None)
            }
            (Update::Written { .. }, Some(Charged::Admitted(value))) => (update, Some(value)),
            _ => (update, None),
        }
    }
}

impl<A: Bucket> Leasing<A> for ChargeDenied {
    fn decide(
        &self,
        table: &Table<A::State>,
        algorithm: &A,
        key: KeyHash,
        cost: u64,
        now: u64,
        reread: impl Fn() -> u64,
    ) -> Decision {
        let check = Check { table, key, cost, now, reread };
        self.decide_charging(algorithm, check)
    }

    fn deny(&self, algorithm: &A, cost: u64, value: u64, now: u64) -> Option<u64> {
        self.charge(&algorithm.view(value, now), cost)
    }

    /// It holds nothing of a key.
    fn lowered(&self, _: &A, _: KeyHash, _: u64) {}

    fn denied(&self) -> Option<ChargeDenied> {
        Some(*self)
    }
}

/// What decides in place of a quota's word alone: the one or the other, never both.
#[derive(Debug)]
pub enum Beside {
    /// Threads hold units of hot keys.
    #[cfg(feature = "std")]
    Leases(Leases),
    /// Denied checks are charged.
    Denied(ChargeDenied),
}

#[cfg(feature = "std")]
impl Beside {
    pub(crate) fn leases(&self) -> Option<&Leases> {
        match self {
            Self::Leases(leases) => Some(leases),
            Self::Denied(_) => None,
        }
    }
}

impl Leasing<Gcra> for Beside {
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    fn decide(
        &self,
        table: &Table<Tat>,
        gcra: &Gcra,
        key: KeyHash,
        cost: u64,
        now: u64,
        reread: impl Fn() -> u64,
    ) -> Decision {
        match self {
            #[cfg(feature = "std")]
            Self::Leases(leases) => leases.decide_leased(table, gcra, key, cost, now, reread),
            Self::Denied(denied) => {
                denied.decide(table, gcra, key, cost, now, reread).in_registers()
            }
        }
    }

    fn deny(&self, gcra: &Gcra, cost: u64, value: u64, now: u64) -> Option<u64> {
        self.denied()?.deny(gcra, cost, value, now)
    }

    #[cfg_attr(not(feature = "std"), expect(unused_variables, reason = "only leases hold keys"))]
    fn lowered(&self, gcra: &Gcra, key: KeyHash, tat: u64) {
        match self {
            #[cfg(feature = "std")]
            Self::Leases(leases) => leases.lowered(gcra, key, tat),
            Self::Denied(_) => {}
        }
    }

    fn denied(&self) -> Option<ChargeDenied> {
        match self {
            #[cfg(feature = "std")]
            Self::Leases(_) => None,
            Self::Denied(denied) => Some(*denied),
        }
    }
}
