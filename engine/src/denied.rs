//! Charging denied checks, so that a client that keeps hammering stays banned.
//!
//! A denial that charges is one update of the word, like an admission: who reads the word next finds both the
//! decision and the charge. Which of the two it was follows from the word before, since only what does
//! not fit is denied.

use core::cell::Cell;

use crate::decision::Decision;
use crate::gcra::{Bucket, Gcra, TAU_MAX, Tat, View};
use crate::key::KeyHash;
#[cfg(feature = "std")]
use crate::lease::Leases;
use crate::overflow::answer;
use crate::rule::{Algorithm, Leasing};
use crate::table::{Home, Table, Update};

/// Up to how many bursts beyond the burst denied checks are charged.
#[derive(Clone, Copy, Debug)]
pub struct ChargeDenied {
    bursts: u64,
}

/// A check of a key, and when it is made: `now` and `reread` are as in [`Home::update`].
pub(crate) struct Check<'t, S, R> {
    pub(crate) table: &'t Table<S>,
    pub(crate) home: Home<'t, S>,
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
    fn charge(self, view: &View, cost: u64) -> Option<u64> {
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
        let Check { table, home, cost, now, reread } = check;
        // What the denial left, if it was one; the last update counts.
        let denied = Cell::new(None);
        let update = home.update(now, reread, |value, now| {
            denied.set(None);
            if cost == 0 {
                return None;
            }
            algorithm.admit(value, now, cost).or_else(|| {
                denied.set(self.charge(&algorithm.view(value, now), cost));
                denied.get()
            })
        });
        let update = match (update, denied.get()) {
            // The answer counts what the denial was charged.
            (Update::Written { now, .. }, Some(found)) => Update::Unchanged { found, now },
            (other, _) => other,
        };
        answer(table, algorithm, home, update, cost)
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
        let check = Check { table, home: table.home(key), cost, now, reread };
        self.decide_charging(algorithm, check)
    }

    /// It holds nothing of a key.
    fn forget(&self, _: KeyHash) {}

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
            Self::Denied(denied) => denied.decide(table, gcra, key, cost, now, reread),
        }
    }

    #[cfg_attr(not(feature = "std"), expect(unused_variables, reason = "only leases hold keys"))]
    fn forget(&self, key: KeyHash) {
        match self {
            #[cfg(feature = "std")]
            Self::Leases(leases) => leases.forget(key),
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
