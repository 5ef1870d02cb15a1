//! A key whose demand alone, from all clients together, has never come near its limit is not
//! denied: not while the cluster is calm, not while it is cut, and not later than one tau after a
//! fault has ended.

use super::{Check, Findings};
use crate::calm::Calm;
use crate::rules::Rule;
use crate::time::{MS, Nanos, seconds};
use crate::truth::Seen;
use crate::world::World;

/// The part of tau that demand must have left.
const LEFT: u64 = 10;

#[derive(Default)]
pub struct FalseDenial {
    findings: Findings,
    taus: Vec<Nanos>,
    /// By how much a date may be wrong: one way is not half of both.
    dates: Nanos,
}

impl Check for FalseDenial {
    fn name(&self) -> &'static str {
        "false_denial"
    }

    fn saw(&mut self, seen: &Seen, calm: &Calm) {
        let Some(tau) = self.taus.get(seen.rule).copied() else { return };
        let near = (tau - tau / LEFT).saturating_sub(self.dates);
        if seen.is_allowed || seen.demand > near || seen.at <= calm.healed + tau {
            return;
        }
        self.findings.add_at(seen.at, || {
            format!(
                "node {} denied {}/{:x}, whose demand never exceeded {} of {} ms; the last fault \
                 ended {:.3} s before{}",
                seen.place,
                seen.rule,
                seen.key,
                seen.demand / MS,
                tau / MS,
                seconds(seen.at - calm.healed),
                if calm.is_ongoing() { ", another is ongoing" } else { "" },
            )
        });
    }

    fn sample(&mut self, world: &mut World) {
        let conditions = world.net.conditions();
        self.dates = self.dates.max(2 * (conditions.spread + conditions.jitter) + MS);
        self.taus = world.truth.rules().iter().map(Rule::tau).collect();
    }

    fn findings(&self) -> &Findings {
        &self.findings
    }
}
