//! Inserting keys before the timed part.

use crate::audit::{self, Witness};
use crate::contenders::{Audited, Contender};
use crate::draw::key_of;
use crate::failure::Failure;
use crate::script::CallKey as _;
use crate::workloads::Plan;

/// Charges the warm-up to the keys of `order`.
///
/// # Errors
/// When one is denied.
pub fn warm_up<C: Contender>(contender: &C, plan: &Plan, order: &[u32]) -> Result<(), Failure> {
    let mut key = C::Key::of(0);
    for &index in order {
        key.set(index);
        if !contender.admit(&key, plan.warm_up) {
            let contender = C::label().to_string();
            return Err(Failure::WarmUp { contender, key: key_of(index) });
        }
    }
    Ok(())
}

/// As [`warm_up`], tracking sampled keys for the audit.
///
/// # Errors
/// When a key is denied.
pub fn warm_up_audited<C: Audited>(
    contender: &C,
    plan: &Plan,
    order: &[u32],
) -> Result<Vec<Witness<C::Key>>, Failure> {
    let sample = audit::sample(plan.keys);
    let is_sampled = |index: &u32| sample.binary_search(index).is_ok();
    let mut witnesses = Vec::with_capacity(sample.len());
    for run in order.chunk_by(|one, other| is_sampled(one) == is_sampled(other)) {
        if run.first().is_some_and(is_sampled) {
            for index in run {
                witnesses.push(Witness::warm_up(contender, plan, *index)?);
            }
        } else {
            warm_up(contender, plan, run)?;
        }
    }
    Ok(witnesses)
}
