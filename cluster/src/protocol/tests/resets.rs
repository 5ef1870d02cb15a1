//! What nodes give back, next to what others consume.

use super::harness::Harness;
use super::network::MS;
use super::words::QUICK;
use super::world::{World, addr};
use crate::protocol::bounds::VERSION;
use crate::protocol::wire::{Agreement, Group, Message};
use crate::protocol::{NodeId, Options, Subject};

const SECOND: u64 = 1_000 * MS;
const KEY: (u64, u64) = (QUICK, 1);

/// Two nodes reset a key before they know of each other, and one of them consumes soon after that.
/// Were the other's reset sent with what that node consumes later, no date would say that it came
/// first, and it would forgive what was consumed in between.
#[test]
fn what_is_consumed_after_two_resets_at_once_stays() {
    // Levels are sent every 100 ms, and with them all that waits.
    for phase in 0..10 {
        let mut world = World::new(1, 0, Options::default(), (0.0, 0.0, MS));
        world.start(0, &[]);
        world.start(1, &[0]);
        world.run(5 * SECOND);
        world.admit(0, KEY.0, KEY.1, 50 * MS);
        for _ in 0..50 + phase {
            world.run(world.now() + 10 * MS);
            world.admit(0, KEY.0, KEY.1, 10 * MS);
        }
        // All of that is flushed.
        world.run(world.now() + 12 * MS);
        let at = world.now();
        let given_back = [0, 1].map(|place| world.reset(place, KEY));
        assert!(given_back[0] > 20 * MS, "{phase}: {given_back:?}");
        // Each has sent what it gave back.
        world.run(at + 12 * MS);
        world.admit(1, KEY.0, KEY.1, 90 * MS);
        world.run(at + 18 * MS);
        world.admit(0, KEY.0, KEY.1, MS);
        world.run(at + 80 * MS);
        for place in [0, 1] {
            let until = world.tat(place, KEY.0, KEY.1).saturating_sub(at) / MS;
            // Up to a flush interval more, as what is consumed has no date until the flush.
            assert!((100..=115).contains(&until), "{phase}, node {place}: {until}");
        }
    }
}

/// The transport takes a way of 1 ms for one of 10 ms, so what the peer gives back is dated 9 ms
/// too early: before this node consumed it, as far as clocks say.
#[test]
fn what_another_node_gives_back_is_not_before_what_it_had_received() {
    const WAY: u64 = MS;
    const ESTIMATE: u64 = 10 * MS;
    let debt = |ms: u64| (ms * MS).cast_signed();
    // When this node consumes 100 ms, when the peer gives 70 of them back, and what is left.
    for (consumed, given_back, left) in
        [(1_000, 1_004, 30), (1_000, 1_008, 30), (1_005, 1_003, 100)]
    {
        let mut harness = Harness::new();
        let id = NodeId::new(addr(1), 5);
        let link = harness.core.accepted(0, Subject::node(id.addr)).unwrap();
        let key = super::harness::KEY;
        harness.deliver(link, &Message::Hello { version: VERSION, oldest: VERSION, id, key });
        harness.pass(WAY);
        harness.deliver_after(
            link,
            &Message::Beat { now: 0, delay: None, lag: 0, run_delay: 0 },
            ESTIMATE,
        );
        harness.core.settle_clock(link);
        let batch = |number, at, debt| {
            let groups = vec![Group { limit: KEY.0, changes: vec![(KEY.1, debt, 0)] }];
            Message::Batch { number, at, groups, levels: Agreement::default() }
        };
        // The first change of a key: it is followed from then on.
        harness.tick(900 * MS);
        harness.deliver_after(link, &batch(1, 900 * MS, debt(1)), ESTIMATE);
        harness.tick((consumed - 900) * MS - WAY);
        harness.admit(KEY, 100 * MS);
        harness.tick((1_020 - consumed) * MS);
        harness.deliver_after(link, &batch(2, given_back * MS, -debt(70)), ESTIMATE);
        assert_eq!(harness.tat(KEY) - consumed * MS, left * MS, "{consumed}, {given_back}");
    }
}

/// A node uses a key, which is not flushed, and receives what another one gave back of what a third
/// one used before it receives that use.
#[test]
fn what_is_given_back_before_its_charge_arrives_leaves_what_was_used_here() {
    let all = [Used::Followed, Used::Before, Used::Meanwhile];
    for used in all {
        let mut harness = Harness::new();
        harness.pass(1_000 * MS);
        let [second, third] = [1, 2].map(|place| harness.greet(NodeId::new(addr(place), 5)));
        harness.tick(100 * MS);
        let mut number = 1;
        if used == Used::Followed {
            harness.deliver(third, &harness.batch(number, KEY, (5 * MS).cast_signed()));
            harness.tick(10 * MS);
            number += 1;
        }
        let charge = harness.batch(number, KEY, (40 * MS).cast_signed());
        harness.pass(MS);
        let at = harness.now();
        match used {
            Used::Meanwhile => {
                harness.admit(KEY, 2 * MS);
                harness.use_after_drain(KEY, (18 * MS).cast_signed());
            }
            _ => harness.admit(KEY, 20 * MS),
        }
        harness.pass(MS);
        harness.deliver(second, &harness.batch(1, KEY, -(35 * MS).cast_signed()));
        harness.tick(20 * MS);
        harness.deliver(third, &charge);
        harness.tick(20 * MS);
        let left = (harness.tat(KEY) - at) / MS;
        assert!((24..=26).contains(&left), "{used:?}: {left} of 25");
    }
}

/// When a key is used here: what is received of it is kept in order since before, or not, or while
/// what was given back is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    Followed,
    Before,
    Meanwhile,
}
