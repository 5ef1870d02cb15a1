//! Charging denied checks, so that a client that keeps hammering stays banned.
//!
//! A denial that charges is one update of the word, like an admission: who reads the word next finds both the
//! decision and the charge. Which of the two it was follows from the word before, since only what does
//! not fit is denied.

use crate::decision::Decision;
use crate::gcra::{Gcra, TAU_MAX, Tat};
use crate::key::KeyHash;
#[cfg(feature = "std")]
use crate::lease::Leases;
use crate::overflow::answer;
use crate::rule::{Algorithm, Leasing};
use crate::table::{Home, Table, Update};

/// Up to how many bursts beyond the burst denied checks are charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChargeDenied {
    bursts: u64,
}

/// A check of a key, and when it is made: `now` and `reread` are as in [`Home::update`].
pub(crate) struct Check<'t, R> {
    pub(crate) table: &'t Table<Tat>,
    pub(crate) home: Home<'t, Tat>,
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
    pub(crate) fn ceiling(self, tau: u64) -> u64 {
        tau.saturating_mul(self.bursts.saturating_add(1)).min(TAU_MAX)
    }

    /// Decides a check and charges it up to `ceiling`, whatever the decision.
    #[inline(never)]
    pub(crate) fn decide<A: Algorithm<State = Tat>>(
        algorithm: &A,
        ceiling: u64,
        check: Check<'_, impl Fn() -> u64>,
    ) -> Decision {
        let Check { table, home, cost, now, reread } = check;
        // The TAT after a denial. What never fits is not charged.
        let deny = |tat: u64, now: u64| {
            let charged = algorithm.charge(tat, now, cost).filter(|_| algorithm.can_fit(cost))?;
            let charged = charged.min(now + ceiling);
            (charged > tat).then_some(charged)
        };
        let update = home.update(now, reread, |tat, now| match cost {
            0 => None,
            _ => algorithm.admit(tat, now, cost).or_else(|| deny(tat, now)),
        });
        let update = match update {
            Update::Written { before, now } if algorithm.admit(before, now, cost).is_none() => {
                // The answer counts what the denial was charged.
                Update::Unchanged { found: deny(before, now).unwrap_or(before), now }
            }
            other => other,
        };
        answer(table, algorithm, home, update, cost)
    }
}

/// What decides in place of a quota's word alone: the one or the other, never both.
#[derive(Debug)]
pub enum Beside {
    /// Threads hold units of hot keys.
    #[cfg(feature = "std")]
    Leases(Leases),
    /// Denied checks are charged.
    #[expect(private_interfaces, reason = "the type is hidden itself")]
    Denied(ChargeDenied),
}

impl Beside {
    #[cfg(feature = "std")]
    pub(crate) fn leases(&self) -> Option<&Leases> {
        match self {
            Self::Leases(leases) => Some(leases),
            Self::Denied(_) => None,
        }
    }

    #[cfg_attr(
        not(feature = "std"),
        expect(clippy::unnecessary_wraps, reason = "with leases there is something else")
    )]
    pub(crate) fn denied(&self) -> Option<ChargeDenied> {
        match self {
            #[cfg(feature = "std")]
            Self::Leases(_) => None,
            Self::Denied(denied) => Some(*denied),
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
                let check = Check { table, home: table.home(key), cost, now, reread };
                ChargeDenied::decide(gcra, denied.ceiling(gcra.tau()), check)
            }
        }
    }

    #[cfg_attr(not(feature = "std"), expect(unused_variables, reason = "only leases hold keys"))]
    fn lowered(&self, gcra: &Gcra, key: KeyHash, tat: u64) {
        match self {
            #[cfg(feature = "std")]
            Self::Leases(leases) => leases.lowered(gcra, key, tat),
            Self::Denied(_) => {}
        }
    }
}
