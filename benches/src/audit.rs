//! Proof that a figure measured what it is named after.
//!
//! A sampled key is never idle after its warm-up, so its debt is known exactly: the interval times
//! all units it was admitted, less the time since the warm-up. Both ends of that time are bracketed
//! by readings of the limiter's own clock; lost or misplaced charges show as a difference of whole
//! intervals.

use core::time::Duration;

use crate::contenders::{Audited, Contender};
use crate::draw::key_of;
use crate::failure::Failure;
use crate::script::CallKey;
use crate::workloads::Plan;

/// How many keys are sampled, where there are as many.
pub const SAMPLED_KEYS: usize = 1_000;

/// Half of the sample are the first keys, which are the frequent ones where some are; the others
/// are spread evenly over the rest. Ascending.
#[must_use]
pub fn sample(keys: usize) -> Vec<u32> {
    let wanted = SAMPLED_KEYS.min(keys);
    let first = wanted.div_ceil(2);
    let spread = wanted - first;
    let rest = (0..spread).map(|nth| first + nth * (keys - first) / spread);
    (0..first).chain(rest).map(|index| index as u32).collect()
}

/// A sampled key, what it was charged before anything was counted, and when.
#[derive(Clone, Debug)]
pub struct Witness<K> {
    index: u32,
    key: K,
    units: u32,
    not_before: Duration,
    not_after: Duration,
}

impl<K: CallKey> Witness<K> {
    /// Charges the key its warm-up.
    ///
    /// # Errors
    /// When the key is denied.
    pub fn warm_up<C: Audited<Key = K>>(
        contender: &C,
        plan: &Plan,
        index: u32,
    ) -> Result<Self, Failure> {
        let key = K::of(index);
        let not_before = contender.now();
        let admitted = contender.admit(&key, plan.warm_up);
        let not_after = contender.now();
        if admitted {
            Ok(Self { index, key, units: plan.warm_up.get(), not_before, not_after })
        } else {
            Err(Failure::WarmUp { contender: C::label().to_string(), key: key_of(index) })
        }
    }

    /// A key that was checked for the first time, and once, between two readings of the limiter's
    /// clock.
    #[must_use]
    pub fn first_check(index: u32, not_before: Duration, not_after: Duration) -> Self {
        Self { index, key: K::of(index), units: 1, not_before, not_after }
    }

    /// The key's index.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Demands that the key owes what it was charged at first and `admitted` units since, and what may have been charged in
    /// vain, less the time since.
    ///
    /// # Errors
    /// When it owes anything else.
    pub fn testify<C: Audited<Key = K>>(
        &self,
        contender: &C,
        plan: &Plan,
        admitted: u32,
    ) -> Result<(), Failure> {
        let charged = plan.interval * self.units + plan.interval * admitted;
        let asked = contender.now();
        let found = contender.debt(&self.key);
        let answered = contender.now();
        let low = charged.saturating_sub(answered.saturating_sub(self.not_before));
        let in_vain = if contender.charges_in_vain() { admitted / Plan::IN_VAIN } else { 0 };
        let most = charged + plan.interval * in_vain;
        let high = most.saturating_sub(asked.saturating_sub(self.not_after));
        if (low..=high).contains(&found) {
            Ok(())
        } else {
            Err(Failure::Debt { key: key_of(self.index), low, high, found })
        }
    }
}

/// Demands that of `checks` timed checks exactly those the plan allows were allowed.
///
/// # Errors
/// When other ones were.
pub fn share<C: Contender>(plan: &Plan, allowed: u64, checks: u64) -> Result<(), Failure> {
    let expected = if plan.allowed { checks } else { 0 };
    if allowed == expected {
        Ok(())
    } else {
        Err(Failure::Share { contender: C::label().to_string(), expected, allowed, checks })
    }
}

/// Demands that all of the plan's keys are live, of a limiter that can tell.
///
/// # Errors
/// When there are fewer or more.
pub fn live_keys<C: Contender>(contender: &C, plan: &Plan) -> Result<(), Failure> {
    match contender.live_keys() {
        Some(found) if found != plan.keys => {
            let contender = C::label().to_string();
            Err(Failure::LiveKeys { contender, expected: plan.keys, found })
        }
        _ => Ok(()),
    }
}

/// Demands that no live key was forgotten.
///
/// # Errors
/// When one was.
pub fn evicted<C: Audited>(contender: &C) -> Result<(), Failure> {
    match contender.evicted() {
        0 => Ok(()),
        keys => Err(Failure::Evicted { contender: C::label().to_string(), keys }),
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
