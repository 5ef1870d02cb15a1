//! Even demand on a hot key, without a fault: how far the total is off, how far any instant is
//! beyond an exact central bucket, and what part each node has of what is admitted.

use super::estimate::{self, Truth};
use super::setup::{cluster, nodes};
use super::tally::Tally;
use crate::options::Args;
use crate::report::Report;
use crate::rules::Rule;
use crate::time::{SECOND, seconds};

pub fn run(args: &Args, seed: u64) -> Report {
    let rule = Rule::fast().burst(args.burst);
    let mut tally = Tally::default();
    let mut world = cluster(args, seed, vec![rule], &mut tally);
    let began = world.now();
    world.pass(SECOND.min(args.duration()), &mut tally);
    let (at_first, first) = (tally.worst, tally.admitted());
    let mut truth = Truth::default();
    truth.add(&tally);
    tally.reset(world.now());
    world.run(began + args.duration(), &mut tally);
    truth.add(&tally);

    let mut report = Report::default();
    let granted = rule.tau() as f64 + (world.now() - began) as f64;
    let admitted = (first + tally.admitted()) as f64;
    let tau = rule.tau() as f64;
    let (least, most) = tally.shares();
    report.figure("nodes", nodes(args));
    report.share("total_error_percent", 100.0 * (admitted / granted - 1.0));
    report.share("worst_percent_of_burst", 100.0 * tally.worst as f64 / tau);
    report.share("worst_in_first_second", 100.0 * at_first as f64 / tau);
    report.share("share_least", least);
    report.share("share_most", most);
    let live = world.live();
    let frames: u64 =
        live.iter().filter_map(|place| world.node(*place)).map(|n| n.stats().frames_sent).sum();
    let checks: u64 = tally.counts.iter().map(|count| count.allowed + count.denied).sum();
    report.share("frames_per_check", frames as f64 / checks.max(1) as f64);
    let rate = world.net.bytes as f64 / seconds(world.now()) / live.len().max(1) as f64;
    report.share("bytes_per_second_per_node", rate);
    // The last batches are played back once all of them are there.
    (0..nodes(args)).for_each(|flow| world.ask(flow, false));
    let mut rest = Tally::default();
    world.pass(SECOND, &mut rest);
    estimate::report(&mut report, &world, rule, truth, &[]);
    report
}
