//! What scenarios begin with.

use tidegate_cluster::protocol::Options;

use crate::load::{Flow, Keys, Wander};
use crate::network::Conditions;
use crate::options::{Args, Kind, millis};
use crate::rules::{Rule, key_bits};
use crate::time::{MS, Nanos, SECOND};
use crate::world::{Setup, Watch, World};

/// Nodes unless the command line says otherwise.
const NODES: usize = 3;
/// Until all nodes have joined and know each other.
pub(super) const FORMING: Nanos = 3 * SECOND;
/// The number of the hot key.
const HOT: u64 = 1;

pub(super) fn nodes(args: &Args) -> usize {
    args.nodes.unwrap_or(NODES)
}

/// The part of the demand that is at a node.
fn part(args: &Args, place: usize) -> f64 {
    let nodes = nodes(args);
    if let Some(asked) = args.asked {
        return if place < asked { 1.0 / asked as f64 } else { 0.0 };
    }
    match args.first {
        Some(first) if nodes > 1 && place == 0 => first,
        Some(first) if nodes > 1 => (1.0 - first) / (nodes - 1) as f64,
        _ => 1.0 / nodes as f64,
    }
}

pub(super) fn setup(args: &Args, seed: u64, rules: Vec<Rule>) -> Setup {
    Setup {
        seed,
        rules,
        conditions: Conditions {
            delay: millis(args.delay),
            jitter: millis(args.jitter),
            spread: 0,
            loss: args.loss,
            doubled: 0.0,
            mend: (millis(args.mend[0]), millis(args.mend[1])),
        },
        flush: millis(args.flush),
        skew: (args.skew * SECOND as f64) as Nanos,
        ppm: args.drift,
        options: Options { byte_cap: args.byte_cap, ..Options::default() },
        is_traced: args.trace,
        cpu: matches!(args.scenario, Kind::Spray | Kind::Scale).then_some(args.cpu),
    }
}

/// A cluster that has formed, and the same demand at each of its nodes.
pub(super) fn cluster(args: &Args, seed: u64, rules: Vec<Rule>, watch: &mut dyn Watch) -> World {
    let rate = args.load() * rules[0].rate();
    let nodes = nodes(args);
    let mut world = World::new(setup(args, seed, rules));
    world.start(0, &[]);
    for place in 1..nodes {
        world.pass(MS, watch);
        world.start(place, &[0]);
    }
    world.run(FORMING, watch);
    let now = world.now();
    if let Some(node) = world.node_mut(nodes - 1) {
        node.limits(now).put_ahead(0, key_bits(HOT), millis(args.ahead));
    }
    for place in 0..nodes {
        let every = args.wander.map(millis);
        let flow = world.add_flow(Flow {
            place,
            rule: 0,
            keys: Keys::One(HOT),
            cost: args.cost,
            rate: rate * part(args, place) / args.cost as f64,
            is_even: args.even_arrivals,
            wander: every.map(|every| Wander { every, places: nodes, seed }),
        });
        world.ask(flow, true);
    }
    world
}
