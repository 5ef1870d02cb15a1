//! The scheduling delay of a node, as it notes it for its peers.

use std::time::Duration;

use super::harness::Harness;
use super::identity::say;
use super::network::MS;
use super::words::QUICK;
use super::world::{World, addr};
use crate::protocol::wire::{Agreement, Message, Position};
use crate::protocol::{Level, Nanos, NodeId, Options};

const SECOND: Nanos = 1_000 * MS;

/// A founder that sends frames to a peer.
fn founder() -> Harness {
    let mut harness = Harness::new();
    let peer = NodeId::new(addr(1), 5);
    let link = harness.greet(peer);
    say(&mut harness, link, peer, Vec::new());
    let own = harness.welcome(peer);
    harness.deliver(own, &Message::Resume { position: Some(Position::default()), fresh: false });
    let batch = harness.batch(1, (1, 1), 1);
    harness.deliver(link, &batch);
    harness
}

#[test]
fn how_late_a_flush_comes_is_noted() {
    let mut harness = founder();
    harness.admit((1, 1), MS);
    harness.core.recorded(harness.now());
    let due = harness.core.flush_at().unwrap();
    harness.pass(due - harness.now() + 7 * MS);
    harness.core.tick(harness.now());
    assert_eq!(harness.core.run_delay(), 7 * MS);
    // The first beat was due too.
    assert_eq!(harness.core.stats().run_delay, Duration::from_millis(7));
}

/// A node that is stale catches up with its peers before it decides, so that it lets nothing
/// through that was to be held back. Messages that waited come before anything else.
#[test]
fn a_stop_that_makes_a_node_stale_is_not_noted() {
    for (stopped, is_noted) in [(300 * MS, true), (600 * MS, false), (700 * MS, false)] {
        let mut world = World::new(1, 0, Options::default(), (0.0, 0.0, MS));
        (0..3).for_each(|place| world.start(place, if place == 0 { &[] } else { &[0] }));
        world.run(5 * SECOND);
        world.starve(world.now() + stopped);
        world.run(world.now() + 2 * SECOND);
        for place in 0..3 {
            let run_delay = world.node(place).core.run_delay();
            assert_eq!(run_delay > 0, is_noted, "{stopped}: {run_delay}");
        }
    }
}

/// The last flush, and with it the last split, may be long ago.
#[test]
fn a_drain_in_several_steps_is_not_noted() {
    let mut harness = founder();
    harness.tick(300 * MS);
    harness.admit((QUICK, 1), 95 * MS);
    (0..5_000).for_each(|key| harness.admit((QUICK + 1, key), SECOND));
    harness.core.recorded(harness.now());
    let mut steps = 0;
    while harness.core.deadline().is_some_and(|at| at <= harness.now()) {
        harness.core.tick(harness.now());
        harness.pass(MS / 10);
        steps += 1;
    }
    assert!(steps > 3, "{steps}");
    assert!(harness.core.run_delay() < MS, "{}", harness.core.run_delay());
}

/// A peer may report anything.
#[test]
fn a_lag_and_a_run_delay_without_bound_do_no_harm() {
    let mut harness = founder();
    let peer = NodeId::new(addr(2), 5);
    let link = harness.greet(peer);
    say(&mut harness, link, peer, Vec::new());
    let (now, worst) = (harness.now(), u64::MAX);
    harness
        .deliver(link, &Message::Beat { now, delay: Some(i64::MIN), lag: worst, run_delay: worst });
    harness.admit((QUICK, 1), 95 * MS);
    harness.core.recorded(now);
    harness.tick(SECOND / 10);
    let level = Level { limit: QUICK, key: 1, debt: MS };
    let levels = Agreement { levels: vec![level], ..Agreement::default() };
    let at = harness.now();
    harness.deliver(link, &Message::Batch { number: 1, at, groups: Vec::new(), levels });
    harness.tick(2 * SECOND);
    assert_eq!(harness.core.stats().violations, 0);
}
