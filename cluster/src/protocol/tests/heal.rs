//! Partitions and restarts, with words that drain as real ones do.

use super::harness::Harness;
use super::network::MS;
use super::words::SHORT;
use super::world::{World, addr};
use crate::member::MemberState;
use crate::protocol::wire::Message;
use crate::protocol::{Nanos, NodeId, Options};

const SECOND: Nanos = 1_000 * MS;
const LIMIT: u64 = 1;

fn world(nodes: usize) -> World {
    let mut world = World::new(1, 0, Options::default(), (0.0, 0.0, MS));
    world.start(0, &[]);
    for place in 1..nodes {
        world.start(place, &[0]);
    }
    world.run(5 * SECOND);
    world
}

fn debt(world: &World, place: usize, key: u64) -> Nanos {
    world.tat(place, LIMIT, key).saturating_sub(world.now())
}

#[test]
fn a_partition_of_an_hour_neither_denies_nor_gives_away() {
    let mut world = world(2);
    let split = world.now();
    world.net.partition(split, 0, 1);
    // Key 1 is used at half its rate all the time on either side: never exceeded. Key 2 is drained
    // to a long debt of two hours just once.
    world.admit(0, LIMIT, 2, 7_200 * SECOND);
    for step in 1..=36_000 {
        world.run(split + step * 100 * MS);
        for place in [0, 1] {
            world.admit(place, SHORT, 1, 25 * MS);
        }
    }
    world.net.heal();
    world.run(world.now() + 20 * SECOND);
    for place in [0, 1] {
        // Of what was consumed in the last tolerance, at most.
        let debt = world.tat(place, SHORT, 1).saturating_sub(world.now());
        assert!(debt <= SECOND, "{debt}");
        let members = world.node(place).core.members();
        assert!(members.iter().all(|member| member.state == MemberState::Alive), "{members:?}");
    }
    let (local, remote) = (debt(&world, 0, 2), debt(&world, 1, 2));
    assert!(remote.abs_diff(local) < MS, "{local} {remote}");
}

#[test]
fn a_late_joiner_knows_what_was_consumed() {
    let mut world = world(2);
    world.admit(0, LIMIT, 1, 60 * SECOND);
    world.admit(1, LIMIT, 1, 60 * SECOND);
    world.run(world.now() + 40 * SECOND);
    world.start(2, &[1]);
    world.run(world.now() + 5 * SECOND);
    assert!(world.node(2).core.has_joined());
    let expected = debt(&world, 0, 1);
    assert!(debt(&world, 2, 1).abs_diff(expected) < MS, "{} {expected}", debt(&world, 2, 1));
}

#[test]
fn a_founder_that_restarts_alone_learns_from_the_others() {
    let mut world = world(3);
    world.admit(0, LIMIT, 1, 600 * SECOND);
    world.run(world.now() + SECOND);
    world.crash(0);
    world.run(world.now() + 20 * SECOND);
    assert_eq!(world.node(1).core.members()[1].addr, addr(0));
    assert_eq!(world.node(1).core.members()[1].state, MemberState::Down);
    world.start(0, &[]);
    world.run(world.now() + 20 * SECOND);
    let expected = debt(&world, 1, 1);
    assert!(debt(&world, 0, 1).abs_diff(expected) < MS, "{} {expected}", debt(&world, 0, 1));
    for place in 0..3 {
        let members = world.node(place).core.members();
        assert!(members.iter().all(|member| member.state == MemberState::Alive), "{members:?}");
    }
}

#[test]
fn a_down_member_is_known_within_ten_seconds_and_kept_for_a_minute() {
    let mut world = world(3);
    world.crash(2);
    let crashed = world.now();
    let state = |world: &World, place: usize| {
        let members = world.node(place).core.members();
        members.iter().find(|member| member.addr == addr(2)).map(|member| member.state)
    };
    world.run(crashed + 10 * SECOND);
    assert_eq!(
        (state(&world, 0), state(&world, 1)),
        (Some(MemberState::Down), Some(MemberState::Down))
    );
    world.run(crashed + 70 * SECOND);
    assert_eq!(state(&world, 0), Some(MemberState::Down));
}

#[test]
fn a_life_whose_clock_went_back_still_wins_its_address() {
    let mut world = world(2);
    world.crash(1);
    world.run(world.now() + SECOND);
    world.restart_in_the_past(1, &[0]);
    world.run(world.now() + 20 * SECOND);
    for place in 0..2 {
        let members = world.node(place).core.members();
        assert!(members.iter().all(|member| member.state == MemberState::Alive), "{members:?}");
    }
}

#[test]
fn a_new_generation_is_sent_frames_at_once_though_links_to_the_old_one_look_alive() {
    let mut world = world(2);
    world.vanish(1);
    world.start(1, &[0]);
    world.run(world.now() + SECOND);
    world.admit(0, LIMIT, 1, 600 * SECOND);
    world.run(world.now() + SECOND);
    let expected = debt(&world, 0, 1);
    assert!(debt(&world, 1, 1).abs_diff(expected) < 100 * MS, "{} {expected}", debt(&world, 1, 1));
}

/// A node that is gone and many new keys at the same time.
#[test]
fn the_absent_make_room_for_those_that_are_behind() {
    const KEYS: u64 = 100;
    let options = Options { log_age: 30 * MS, backlog_keys: 128, ..Options::default() };
    let mut world = World::new(1, 0, options, (0.0, 0.0, MS));
    world.start(0, &[]);
    (1..3).for_each(|place| world.start(place, &[0]));
    world.run(5 * SECOND);
    let mut keys = 1..;
    let mut admit = |world: &mut World, every: Nanos| {
        for key in keys.by_ref().take(KEYS as usize) {
            world.admit(0, LIMIT, key, 3_600 * SECOND);
            world.run(world.now() + every);
        }
    };
    // For longer than an absent node acknowledges nothing, and for less than it takes to be down.
    let now = world.now();
    (0..2).for_each(|place| world.net.partition(now, place, 2));
    admit(&mut world, 12 * MS);
    // What this one lacks is neither in the log, nor would there be room for it.
    let now = world.now();
    world.net.partition(now, 0, 1);
    admit(&mut world, 5 * MS);
    let stats = world.node(0).core.stats();
    assert_eq!((stats.peers_given_up, stats.deltas_dropped), (1, 0));
    world.net.heal();
    world.run(world.now() + 2 * SECOND);
    for place in 1..3 {
        let words = (1..=2 * KEYS).map(|key| debt(&world, place, key));
        let known = words.filter(|debt| debt.abs_diff(3_600 * SECOND) < 60 * SECOND).count();
        assert_eq!(known as u64, 2 * KEYS, "node {place}");
    }
    let stats: Vec<_> = (1..3).map(|place| world.node(place).core.stats()).collect();
    assert!(stats[0].parts_received > 0 && stats[0].gaps == 0, "{:?}", stats[0]);
    assert!(stats[1].gaps > 0 && stats.iter().all(|stats| stats.violations == 0), "{stats:?}");
}

/// A link that stays open though the peer acknowledges nothing.
#[test]
fn an_absent_peer_is_given_a_gap_once_too_much_is_kept_for_it() {
    let options = Options { log_age: MS, backlog_keys: 4, ..Options::default() };
    let mut harness = Harness::with(options);
    let peer = NodeId::new(addr(1), 5);
    harness.greet(peer);
    let link = harness.welcome(peer);
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    let mut sent = Vec::new();
    for key in 0..10 {
        harness.admit((LIMIT, key), 3_600 * SECOND);
        harness.core.flush(harness.now());
        harness.tick(SECOND / 4);
        let stats = harness.core.stats();
        sent.push((harness.answers(link).contains(&Message::Gap), stats.pending_keys));
    }
    let gaps: Vec<_> = sent.iter().filter(|(gap, _)| *gap).collect();
    assert_eq!(gaps, [&(true, 0)], "{sent:?}");
    assert_eq!((sent[9], harness.core.stats().deltas_dropped), ((false, 0), 0));
}
