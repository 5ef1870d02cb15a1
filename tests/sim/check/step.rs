//! No call of the core handles more deltas and words than a bound, whatever has piled up.

use super::property::{Check, Findings};
use crate::report::Report;
use crate::world::World;

/// Deltas and words in one call: two full frames and what is recorded meanwhile.
const MAX_WORK: u64 = 8_192;

#[derive(Default)]
pub struct Step {
    findings: Findings,
    most: u64,
}

impl Check for Step {
    fn name(&self) -> &'static str {
        "step"
    }

    fn finish(&mut self, world: &mut World) {
        let live = world.live();
        let steps = live.iter().filter_map(|place| world.node(*place)).map(|node| node.steps);
        let all = steps.chain(world.past.iter().copied());
        let most = all.map(|steps| steps.most_work).max().unwrap_or(0);
        self.most = most;
        if most > MAX_WORK {
            let findings = &mut self.findings;
            findings.add(|| format!("{most} deltas and words in a call, of at most {MAX_WORK}"));
        }
    }

    fn figures(&self, report: &mut Report) {
        report.figure("most_work_in_a_step", self.most);
    }

    fn findings(&self) -> &Findings {
        &self.findings
    }
}
