//! Taking as much of a cost as fits.

use core::cell::Cell;

use crate::base::decision::Decision;
use crate::rule::algorithm::Algorithm;

/// What a check that takes as much as fits has taken; from
/// [`Limiter::check_up_to`](crate::Limiter::check_up_to) and the methods of that name.
///
/// Where units were taken, the decision is that of a check of that number: allowed, with what
/// remains after them. Where none was, it is that of a denied check of one unit, so `retry_after`
/// is the time until a part fits again; where none was asked for, that of a peek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "units that were taken are used, or given back"]
pub struct Grant {
    units: u64,
    decision: Decision,
}

impl Grant {
    /// Units that were taken: from 0 to the cost that was asked for.
    #[inline]
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// The decision on these units, or on one if none was taken.
    #[inline]
    #[must_use]
    pub const fn decision(&self) -> Decision {
        self.decision
    }
}

/// A check that takes as much of its cost as fits. [`UpTo::admit`] is its update's `decide`, which
/// may be called several times; its last call counts.
pub(crate) struct UpTo {
    cost: u64,
    units: Cell<u64>,
}

impl UpTo {
    pub(crate) fn new(cost: u64) -> Self {
        Self { cost, units: Cell::new(0) }
    }

    /// The value after taking what fits; `None` if that is nothing, or nothing is counted.
    pub(crate) fn admit<A: Algorithm>(&self, algorithm: &A, value: u64, now: u64) -> Option<u64> {
        let admitted = match self.cost {
            0 => None,
            cost => algorithm.admit_up_to(value, now, cost),
        };
        self.units.set(admitted.map_or(0, |(units, _)| units));
        admitted.map(|(_, value)| value)
    }

    /// The cost that was decided on: the units that fit, or one if none does.
    pub(crate) fn decided(&self) -> u64 {
        self.units.get().max(self.cost.min(1))
    }

    /// The grant, and the cost to notify an observer of.
    pub(crate) fn grant(&self, decision: Decision) -> (Grant, u64) {
        let units = match self.units.get() {
            _ if !decision.is_allowed() => 0,
            // Of a peek, or under an unlimited quota, which counts nothing.
            0 => self.cost,
            units => units,
        };
        (Grant { units, decision }, units.max(self.cost.min(1)))
    }
}
