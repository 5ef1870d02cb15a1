//! A key whose demand alone, from all clients together, has never come near its limit is not
//! denied: not while the cluster is calm, not while it is partitioned, and not later than one tau
//! after a fault has ended.
//!
//! Near is what a node may take for use up to nine tenths of tau, from which on the room is split
//! among the nodes, and a node may deny what is another's part. A word exceeds the demand by what a
//! date may be wrong by, and by less than a flush interval: of what a node has consumed since its
//! last flush it does not know the date, and where that leaves an idle span in which an older
//! change of another node would have drained, that change is added whole. That cannot add up: all
//! spans before the flush are known, and a word that is ahead has none after it until it has
//! drained by as much.
//!
//! Where a node started less than [`RECOVERY`](crate::calm::RECOVERY) before a fault ended, what
//! waited in a cut may be the first that another receives of it: without an earlier reading of its
//! clock that is taken for fresh. Then the fault lasts until all of that has arrived, whose
//! retransmission may wait for two seconds.

use super::property::{Check, Findings};
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
    /// By how much a word may exceed the demand: a date is wrong where one way is not half of both,
    /// and what was consumed since the last flush has none.
    ahead: Nanos,
}

impl Check for FalseDenial {
    fn name(&self) -> &'static str {
        "false_denial"
    }

    fn saw(&mut self, seen: &Seen, calm: &Calm) {
        let Some(tau) = self.taus.get(seen.rule).copied() else { return };
        let near = (tau - tau / LEFT).saturating_sub(self.ahead);
        if seen.is_allowed || seen.demand > near || seen.at <= calm.healed.max(calm.known_by) + tau
        {
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
        let dates = 2 * (conditions.spread + conditions.jitter) + MS;
        self.ahead = self.ahead.max(dates + world.setup().flush + world.thread_waits());
        self.taus = world.truth.rules().iter().map(Rule::tau).collect();
    }

    fn findings(&self) -> &Findings {
        &self.findings
    }
}
