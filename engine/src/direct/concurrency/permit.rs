//! Permits: what is in flight.

use core::mem;
use std::sync::Arc;

use crate::base::decision::Decision;

use super::Concurrency;

/// Units in flight, returned when dropped.
#[derive(Debug)]
#[must_use = "a permit that is dropped is returned at once"]
pub struct Permit<'c> {
    concurrency: &'c Concurrency,
    cost: u64,
    decision: Decision,
}

impl<'c> Permit<'c> {
    #[inline]
    pub(super) fn new(concurrency: &'c Concurrency, cost: u64, decision: Decision) -> Self {
        Self { concurrency, cost, decision }
    }

    pub(super) fn into_owned(self, concurrency: &Arc<Concurrency>) -> OwnedPermit {
        let (cost, decision) = (self.cost, self.decision);
        self.forget();
        OwnedPermit { concurrency: Arc::clone(concurrency), cost, decision }
    }

    /// Units held by this permit.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The decision that granted it.
    #[must_use]
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Ends the permit without returning it: its units stay in flight for good. Use
    /// [`Concurrency::set_limit`] to compensate.
    pub fn forget(self) {
        mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.concurrency.give_back(self.cost);
    }
}

/// A [`Permit`] that keeps its limit alive, to be moved into a task or thread.
#[derive(Debug)]
#[must_use = "a permit that is dropped is returned at once"]
pub struct OwnedPermit {
    concurrency: Arc<Concurrency>,
    cost: u64,
    decision: Decision,
}

impl OwnedPermit {
    /// Units held by this permit.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The decision that granted it.
    #[must_use]
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Ends the permit without returning it, as [`Permit::forget`].
    pub fn forget(mut self) {
        self.cost = 0;
    }
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        self.concurrency.give_back(self.cost);
    }
}
