//! Putting keys in place before anything is timed.

use crate::audit::{self, Witness};
use crate::contenders::{Audited, Contender};
use crate::draw::{key_of, write_key};
use crate::failure::Failure;
use crate::workloads::Plan;

/// Charges the keys of `order` their warm-up.
///
/// # Errors
/// When one is denied.
pub fn warm_up<C: Contender>(contender: &C, plan: &Plan, order: &[u32]) -> Result<(), Failure> {
    let mut key = key_of(0);
    for index in order {
        write_key(&mut key, *index);
        if !contender.admit(&key, plan.warm_up) {
            return Err(Failure::WarmUp { contender: C::NAME, key });
        }
    }
    Ok(())
}

/// As [`warm_up`], with sampled keys under observation.
///
/// # Errors
/// When a key is denied.
pub fn warm_up_audited<C: Audited>(
    contender: &C,
    plan: &Plan,
    order: &[u32],
) -> Result<Vec<Witness>, Failure> {
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
