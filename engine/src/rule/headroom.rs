//! Admission of a class of calls that leaves a share to others.

use crate::base::decision::Decision;
use crate::base::word::Update;
use crate::time::Timestamp;

use super::algorithm::Algorithm;

/// An algorithm that admits a cost only where `left` further units would fit, and charges the cost
/// alone. All else is that of the algorithm itself.
#[derive(Debug)]
pub(crate) struct Headroom<'a, A> {
    inner: &'a A,
    left: u64,
}

impl<'a, A: Algorithm> Headroom<'a, A> {
    pub(crate) fn new(inner: &'a A, left: u64) -> Self {
        Self { inner, left }
    }

    /// The units that must fit for a check of `cost`; a peek needs none.
    fn needed(&self, cost: u64) -> u64 {
        if cost == 0 { 0 } else { cost.saturating_add(self.left) }
    }
}

impl<A: Algorithm> Algorithm for Headroom<'_, A> {
    type State = A::State;

    const CHANGES: bool = A::CHANGES;

    fn state(&self) -> Self::State {
        self.inner.state()
    }

    fn instant(&self, now: Timestamp) -> u64 {
        self.inner.instant(now)
    }

    fn admit(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        if self.left > 0 {
            self.inner.admit(value, now, self.needed(cost))?;
        }
        self.inner.admit(value, now, cost)
    }

    fn charge(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        self.inner.charge(value, now, cost)
    }

    /// What is denied only for the share of others is not charged: it would take from that share.
    fn charge_denied(&self, value: u64, now: u64, cost: u64, bursts: u64) -> Option<u64> {
        if self.left > 0 && self.inner.admit(value, now, cost).is_some() {
            return None;
        }
        self.inner.charge_denied(value, now, cost, bursts)
    }

    fn refund(&self, value: u64, now: u64, cost: u64) -> Option<u64> {
        self.inner.refund(value, now, cost)
    }

    fn give_back(&self, value: u64, now: u64, cost: u64, charged: u64) -> Option<u64> {
        self.inner.give_back(value, now, cost, charged)
    }

    fn owes_beyond(&self, value: u64, now: u64, tolerance: u64) -> bool {
        self.inner.owes_beyond(value, now, tolerance)
    }

    fn reset(&self, value: u64, now: u64) -> Option<u64> {
        self.inner.reset(value, now)
    }

    fn can_fit(&self, cost: u64) -> bool {
        self.inner.can_fit(self.needed(cost))
    }

    /// A denial waits until the share fits too.
    fn answer(&self, update: Update, cost: u64) -> Decision {
        let cost = match update {
            Update::Unchanged { .. } => self.needed(cost),
            Update::Written { .. } | Update::Full { .. } => cost,
        };
        self.inner.answer(update, cost)
    }
}
