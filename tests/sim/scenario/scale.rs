//! Many nodes and many live keys, of which some change: bytes and frames, processor time, how long
//! it takes until all nodes agree once load has ended, and what a node takes that joins then.

use tidegate_cluster::MemberState;
use tidegate_cluster::protocol::Stats;

use super::setup::{nodes, setup};
use super::tally::Tally;
use crate::load::{Flow, Keys};
use crate::network::Kinds;
use crate::node::Node;
use crate::options::Args;
use crate::report::Report;
use crate::rules::{Rule, key_bits};
use crate::time::{MS, Nanos, SECOND, seconds};
use crate::world::World;

/// The number of the first live key.
const FIRST: u64 = 1 << 32;
/// Until nodes that start are linked to all others, at most.
const FORMING: Nanos = 120 * SECOND;
/// Load before it is measured.
const BEFORE: Nanos = SECOND / 2;
/// How often nodes' words are compared, and for how long at most.
const LOOK: Nanos = 5 * MS;
const AGREEING: Nanos = 60 * SECOND;
/// Keys of which they are compared.
const COMPARED: usize = 200;

pub fn run(args: &Args, seed: u64) -> Report {
    let (nodes, capacity) = (nodes(args), args.live + args.live / 8);
    let rule = Rule::scaled(usize::try_from(capacity).unwrap_or(usize::MAX));
    let mut world = World::new(setup(args, seed, vec![rule]));
    let mut report = Report::default();
    report.figure("nodes", nodes);
    report.figure("live_keys", args.live);
    form(&mut world, nodes);
    report.share("forming_seconds", seconds(world.now()));
    for place in 0..nodes {
        let now = world.now();
        if let Some(node) = world.node_mut(place) {
            let (limits, debt) = (node.limits(now), (rule.tau() as f64 * args.owed) as Nanos);
            (0..args.live).for_each(|key| limits.put_ahead(0, key_bits(FIRST + key), debt));
        }
    }
    let rates = args.changes.iter().copied();
    let flows = (0..nodes).map(|place| Flow {
        place,
        rule: 0,
        keys: Keys::Any { first: FIRST, count: args.live },
        cost: args.cost,
        rate: 1.0,
        is_even: false,
        wander: None,
    });
    let flows: Vec<usize> = flows.map(|flow| world.add_flow(flow)).collect();
    for rate in rates {
        for flow in &flows {
            world.set_rate(*flow, rate / nodes as f64);
            world.ask(*flow, true);
        }
        world.pass(BEFORE, &mut Tally::default());
        let before = Count::of(&world);
        world.pass(args.duration(), &mut Tally::default());
        let after = Count::of(&world);
        for flow in &flows {
            world.ask(*flow, false);
        }
        after.report(&mut report, (rate, args.duration(), nodes), &before);
        let took = agree(&mut world);
        report.share(&format!("at_{rate}_agreed_after_ms"), took as f64 / MS as f64);
    }
    join(&mut world, nodes, &mut report);
    report.figure("memory_mib", memory_mib());
    report
}

/// Starts nodes until each has joined and sends frames to all others.
fn form(world: &mut World, nodes: usize) {
    let mut tally = Tally::default();
    world.start(0, &[]);
    for place in 1..nodes {
        world.pass(MS, &mut tally);
        world.start(place, &[0]);
    }
    let others = nodes as u64 - 1;
    let is_formed = |world: &World| {
        let live = world.live().into_iter();
        live.filter_map(|place| world.node(place)).all(|node| {
            let stats = node.stats();
            node.has_joined() && stats.links_out == others && node.is_acknowledged()
        })
    };
    while world.now() < FORMING && !is_formed(world) {
        world.pass(SECOND / 10, &mut tally);
    }
    world.pass(2 * SECOND, &mut tally);
    let alive = world.node(0).map_or(0, |node| {
        node.members().iter().filter(|member| member.state == MemberState::Alive).count()
    });
    assert!(is_formed(world) && alive == nodes, "{alive} nodes after {} s", seconds(world.now()));
}

/// How long it takes until the words of all nodes agree.
fn agree(world: &mut World) -> Nanos {
    let began = world.now();
    let keys: Vec<(usize, u64)> = world.truth.keys().collect();
    let every = (keys.len() / COMPARED).max(1);
    let keys: Vec<(usize, u64)> = keys.into_iter().step_by(every).collect();
    while world.now() < began + AGREEING && !(is_sent(world) && do_agree(world, &keys)) {
        world.pass(LOOK, &mut Tally::default());
    }
    world.now() - began
}

/// Whether all other nodes have applied, or acknowledged, what each node has recorded.
fn is_sent(world: &World) -> bool {
    let live = world.live();
    let nodes: Vec<&Node> = live.iter().filter_map(|place| world.node(*place)).collect();
    let stats = nodes.iter().map(|node| node.stats());
    let (sent, applied) = stats.fold((0, 0), |(sent, applied), stats| {
        let sent = sent + stats.deltas_recorded - stats.deltas_covered;
        (sent, applied + stats.deltas_applied + stats.deltas_late)
    });
    applied >= sent * (nodes.len() as u64 - 1) || nodes.iter().all(|node| node.is_acknowledged())
}

fn do_agree(world: &mut World, keys: &[(usize, u64)]) -> bool {
    let (now, live) = (world.now(), world.live());
    keys.iter().all(|(rule, key)| {
        let mut debts = Vec::with_capacity(live.len());
        for place in &live {
            debts.extend(world.node_mut(*place).map(|node| node.limits(now).debt(*rule, *key)));
        }
        let (least, most) = (debts.iter().min(), debts.iter().max());
        least.zip(most).is_some_and(|(least, most)| most - least < MS)
    })
}

/// Another node joins.
fn join(world: &mut World, place: usize, report: &mut Report) {
    let (before, began) = (Count::of(world), world.now());
    world.start(place, &[0]);
    let has_joined = |world: &World| world.node(place).is_some_and(Node::has_joined);
    while world.now() < began + FORMING && !has_joined(world) {
        world.pass(LOOK, &mut Tally::default());
    }
    let after = Count::of(world);
    report.share("join_seconds", seconds(world.now() - began));
    let bytes = after.kinds.states - before.kinds.states;
    report.share("join_mib", bytes as f64 / f64::from(1 << 20));
    let spent = |place| world.node(place).map_or(0.0, |node| node.steps.total.as_secs_f64());
    report.share("join_processor_seconds", spent(place));
    let joined = world.node(place).map_or(0.0, |node| node.steps.longest.as_secs_f64());
    report.share("join_longest_step_ms", joined * 1_000.0);
}

/// What has been sent, and what it took.
struct Count {
    stats: Vec<Stats>,
    kinds: Kinds,
    processor: f64,
}

impl Count {
    fn of(world: &World) -> Self {
        let live = world.live();
        let nodes = || live.iter().filter_map(|place| world.node(*place));
        let processor = nodes().map(|node| node.steps.total.as_secs_f64()).sum();
        Self { stats: nodes().map(Node::stats).collect(), kinds: world.net.kinds, processor }
    }

    fn report(&self, report: &mut Report, (rate, time, nodes): (f64, Nanos, usize), before: &Self) {
        let each = |of: fn(&Stats) -> u64| {
            let pairs = self.stats.iter().zip(&before.stats);
            let each = pairs.map(|(after, before)| of(after) - of(before));
            each.map(|sum| sum as f64 / seconds(time)).collect::<Vec<f64>>()
        };
        let mean = |of: fn(&Stats) -> u64| each(of).iter().sum::<f64>() / nodes as f64;
        let most =
            |of: fn(&Stats) -> u64| each(of).iter().fold(0.0_f64, |most, value| most.max(*value));
        let mut say = |name: &str, value| report.share(&format!("at_{rate}_{name}"), value);
        say("changes_per_second", mean(|stats| stats.deltas_recorded) * nodes as f64);
        say("kb_sent_per_second", mean(|stats| stats.bytes_sent) / 1e3);
        say("kb_sent_per_second_most", most(|stats| stats.bytes_sent) / 1e3);
        say("kb_received_per_second", mean(|stats| stats.bytes_received) / 1e3);
        say("frames_sent_per_second", mean(|stats| stats.frames_sent));
        say("acks_sent_per_second", mean(|stats| stats.acks_sent));
        say("levels_per_second", mean(|stats| stats.levels_sent));
        let kinds = self.kinds.since(&before.kinds);
        let all: u64 = kinds.iter().map(|(_, bytes)| bytes).sum();
        for (name, bytes) in kinds {
            say(&format!("percent_{name}"), 100.0 * bytes as f64 / all.max(1) as f64);
        }
        let spent = (self.processor - before.processor) / seconds(time) / nodes as f64;
        say("processor_percent", 100.0 * spent);
    }
}

/// The most memory that this process has had.
fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
