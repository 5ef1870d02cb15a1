//! A little demand on one key at each node, far from its limit: what it costs to gossip it.

use super::setup::{cluster, nodes};
use super::tally::Tally;
use crate::options::Args;
use crate::report::Report;
use crate::rules::Rule;
use crate::time::{SECOND, seconds};
use crate::world::World;

pub fn run(args: &Args, seed: u64) -> Report {
    let mut tally = Tally::default();
    let mut world = cluster(args, seed, vec![Rule::fast()], &mut tally);
    world.pass(SECOND, &mut tally);
    tally.reset(world.now());
    let before = count(&world);
    let began = world.now();
    world.run(began + args.duration(), &mut tally);
    let after = count(&world);

    let checks: u64 = tally.counts.iter().map(|count| count.allowed + count.denied).sum();
    let each = |before: u64, after: u64| (after - before) as f64 / checks.max(1) as f64;
    let mut report = Report::default();
    report.figure("nodes", nodes(args));
    report.share("checks_per_second", checks as f64 / seconds(world.now() - began));
    report.figure("denied", tally.denied());
    report.share("frames_per_check", each(before.frames, after.frames));
    report.share("acks_per_check", each(before.acks, after.acks));
    report.share("messages_per_check", each(before.messages, after.messages));
    report.share("bytes_per_check", each(before.bytes, after.bytes));
    report.share("core_calls_per_check", each(before.calls, after.calls));
    report
}

/// What all nodes have sent, on streams: `messages` are frames, acknowledgements and beats.
struct Count {
    frames: u64,
    acks: u64,
    messages: u64,
    bytes: u64,
    calls: u64,
}

fn count(world: &World) -> Count {
    let live = world.live();
    let nodes = || live.iter().filter_map(|place| world.node(*place));
    Count {
        frames: nodes().map(|node| node.stats().frames_sent).sum(),
        acks: nodes().map(|node| node.stats().acks_sent).sum(),
        messages: world.net.messages,
        bytes: world.net.bytes,
        calls: nodes().map(|node| node.steps.calls).sum(),
    }
}
