//! The last node is cut off for a while, under a load below the limit: neither side may deny
//! anything afterwards.

use super::setup::{cluster, nodes};
use super::tally::Tally;
use crate::options::Args;
use crate::report::Report;
use crate::rules::Rule;
use crate::time::{MS, Nanos, SECOND, seconds};
use crate::world::World;

/// Load before the fault.
const BEFORE: Nanos = 3 * SECOND;
/// Load after it: links that closed are dialled again within 5 s, and words even out.
const AFTER: Nanos = 15 * SECOND;
/// From then on, after the fault, parts of nodes are compared.
const SETTLING: Nanos = 5 * SECOND;

pub fn run(args: &Args, seed: u64) -> Report {
    let last = nodes(args) - 1;
    let cut = |world: &mut World, tally: &mut Tally| {
        for other in 0..last {
            world.cut(last, other);
            world.cut(other, last);
        }
        world.pass(args.fault(), tally);
        for (from, to) in world.net.cuts() {
            world.mend(from, to);
        }
    };
    around(args, seed, cut)
}

/// Load around a fault of the last node, and what was denied before it, in it, and after it.
pub fn around(args: &Args, seed: u64, fault: impl FnOnce(&mut World, &mut Tally)) -> Report {
    let rule = Rule::fast();
    let mut report = Report::default();
    let mut tally = Tally::default();
    let mut world = cluster(args, seed, vec![rule], &mut tally);
    world.pass(BEFORE, &mut tally);
    report.figure("nodes", nodes(args));
    report.figure("fault_seconds", args.fault);
    report.figure("denied_before", tally.denied());
    tally.reset(world.now());
    fault(&mut world, &mut tally);
    report.figure("denied_during", tally.denied());
    let healed = world.now();
    tally.reset(healed);
    tally.late_at = healed + rule.tau();
    tally.settled_at = healed + SETTLING;
    world.rebase();
    world.run(healed + AFTER, &mut tally);
    report.figure("denied_after", tally.denied());
    report.figure("denied_beyond_tau", tally.denied_late());
    let denial = tally.counts.iter().map(|count| count.last_denial).max().unwrap_or(0);
    report.share("last_denial_seconds", seconds(denial.saturating_sub(healed)));
    let dark = tally.counts.iter().map(|count| count.dark).max().unwrap_or(0);
    report.share("longest_dark_ms", dark as f64 / MS as f64);
    report.share("worst_percent_of_burst", 100.0 * tally.worst as f64 / rule.tau() as f64);
    let (least, most) = tally.shares();
    report.share("share_least", least);
    report.share("share_most", most);
    report
}
