//! Audits: proof that a figure measured what it is named after.
//!
//! A sampled key is never without debt after its warm-up, so its debt is known exactly: the
//! interval times all units admitted, less the time since the warm-up. Both ends of that time are
//! bracketed by readings of the limiter's clock; lost or misplaced charges show as a difference of
//! whole intervals.

use core::time::Duration;

use crate::contenders::{Audited, Contender};
use crate::draw::key_of;
use crate::failure::Failure;
use crate::script::CallKey;
use crate::workloads::Plan;

/// Maximum number of sampled keys.
pub const SAMPLED_KEYS: usize = 1_000;

/// Half of the sample are the first keys, which are the most frequent if the workload is skewed;
/// the others are spread evenly over the rest. Ascending.
#[must_use]
pub fn sample(keys: usize) -> Vec<u32> {
    let wanted = SAMPLED_KEYS.min(keys);
    let first = wanted.div_ceil(2);
    let spread = wanted - first;
    let rest = (0..spread).map(|nth| first + nth * (keys - first) / spread);
    (0..first).chain(rest).map(|index| index as u32).collect()
}

/// A sampled key, its initial charge, and the time of it.
#[derive(Clone, Debug)]
pub struct Witness<K> {
    index: u32,
    key: K,
    units: u32,
    not_before: Duration,
    not_after: Duration,
}

impl<K: CallKey> Witness<K> {
    /// Charges the warm-up to the key.
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

    /// A key that was checked exactly once, between two readings of the limiter's clock.
    #[must_use]
    pub fn first_check(index: u32, not_before: Duration, not_after: Duration) -> Self {
        Self { index, key: K::of(index), units: 1, not_before, not_after }
    }

    /// The key's index.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Verifies that the key's debt is its initial charge, plus `admitted` units, plus units that
    /// may have been charged but never used, less the time since.
    ///
    /// # Errors
    /// When the debt is anything else.
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

/// Verifies that of `checks` timed checks exactly those of the plan were allowed.
///
/// # Errors
/// When the number differs.
pub fn share<C: Contender>(plan: &Plan, allowed: u64, checks: u64) -> Result<(), Failure> {
    let expected = if plan.allowed { checks } else { 0 };
    if allowed == expected {
        Ok(())
    } else {
        Err(Failure::Share { contender: C::label().to_string(), expected, allowed, checks })
    }
}

/// Verifies that exactly the plan's keys are live, if the limiter reports it.
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

/// Verifies that no live key was evicted.
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
