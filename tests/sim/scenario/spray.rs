//! Many new keys a second at the first node, while the last is dead and the others are healthy:
//! what the healthy miss, and what it takes of the core.

use tidegate_cluster::{Member, MemberState};

use super::setup::{FORMING, nodes, setup};
use super::tally::Tally;
use crate::load::{Flow, Keys};
use crate::node::{Node, place_of};
use crate::options::Args;
use crate::report::Report;
use crate::rules::Rule;
use crate::time::{MS, Nanos, SECOND};
use crate::world::World;

/// Slots for each key that is alive at the same time.
const MAX_SLOTS: usize = 1 << 22;
/// Until frames have arrived.
const DRAIN: Nanos = SECOND / 2;

/// How often nodes look at each other.
const SAMPLE: Nanos = 100 * MS;

/// Live nodes that another live one does not hold alive.
fn suspected(world: &World) -> usize {
    let live = world.live();
    let views = live.iter().filter_map(|place| world.node(*place)).map(Node::members);
    let is_wrong = |member: &Member| {
        member.state != MemberState::Alive && live.contains(&place_of(member.addr))
    };
    views.map(|members| members.iter().filter(|member| is_wrong(member)).count()).sum()
}

pub fn run(args: &Args, seed: u64) -> Report {
    let nodes = nodes(args).max(3);
    // A key of cost 1 is live for a second.
    let capacity = ((3.0 * args.keys) as usize).clamp(1_024, MAX_SLOTS);
    let mut tally = Tally::default();
    let mut world = World::new(setup(args, seed, vec![Rule::sprayed(capacity)]));
    world.start(0, &[]);
    for place in 1..nodes {
        world.pass(MS, &mut tally);
        world.start(place, &[0]);
    }
    world.run(FORMING, &mut tally);
    let before: Vec<_> = (0..nodes).filter_map(|n| world.node(n)).map(Node::stats).collect();
    world.crash(nodes - 1);
    let flow = world.add_flow(Flow {
        place: 0,
        rule: 0,
        keys: Keys::New { next: 1 << 32 },
        cost: args.cost,
        rate: args.keys,
        is_even: false,
        wander: None,
    });
    world.ask(flow, true);
    let (end, mut suspicions) = (world.now() + args.duration(), 0);
    while world.now() < end {
        world.pass(SAMPLE, &mut tally);
        suspicions += suspected(&world);
    }
    world.ask(flow, false);
    world.pass(DRAIN, &mut tally);

    let mut report = Report::default();
    report.figure("nodes", nodes);
    let (Some(sprayed), Some(healthy)) = (world.node(0), world.node(1)) else { return report };
    let recorded = sprayed.stats().deltas_recorded;
    let applied = healthy.stats().deltas_applied - before[1].deltas_applied;
    report.figure("deltas_recorded", recorded);
    report.figure("deltas_applied_by_the_healthy", applied);
    report.share("missed_percent", 100.0 * (1.0 - applied as f64 / recorded.max(1) as f64));
    report.figure("false_suspicions_seen", suspicions);
    report.figure("deltas_dropped", sprayed.stats().deltas_dropped);
    report.figure("pending_keys", sprayed.stats().pending_keys);
    report.figure("most_work_in_a_step", sprayed.steps.most_work);
    report.share("longest_step_ms", sprayed.steps.longest.as_secs_f64() * 1_000.0);
    report
}
