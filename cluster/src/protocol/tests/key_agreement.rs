//! All nodes of a cluster hash keys alike, and two clusters that meet become one.

use super::harness::Harness;
use super::world::{World, addr};
use crate::member::MemberState;
use crate::protocol::bounds::{MAX_HASH_KEYS, VERSION};
use crate::protocol::hash_key::HashKey;
use crate::protocol::wire::Message;
use crate::protocol::{Action, JoinKind, Nanos, NodeId, Options, Subject};

const SECOND: Nanos = 1_000_000_000;
const DAY: Nanos = 86_400 * SECOND;
const LIMIT: u64 = 1;

/// Nodes on a network that loses, doubles and delays.
fn world(seed: u64) -> World {
    World::new(seed, 0, Options::default(), (0.05, 0.05, 20_000_000))
}

fn keys(world: &World) -> Vec<HashKey> {
    world.live().iter().map(|place| world.node(*place).core.hash_key()).collect()
}

fn assert_together(world: &World) {
    let keys = keys(world);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    for place in world.live() {
        let core = &world.node(place).core;
        assert!(core.has_joined(), "node {place}");
        let alive =
            core.members().iter().filter(|member| member.state == MemberState::Alive).count();
        assert_eq!(alive, world.live().len(), "node {place} sees {:?}", core.members());
        assert_eq!(core.stats().violations, 0, "node {place}");
    }
}

#[test]
fn a_node_that_joins_hashes_as_the_cluster_does() {
    let mut world = world(1);
    world.start(0, &[]);
    let key = world.node(0).core.hash_key();
    for place in 1..4 {
        world.start(place, &[place - 1]);
        assert_ne!(world.node(place).core.hash_key().to_bytes(), key.to_bytes());
        world.run(world.now() + 3 * SECOND);
        assert_together(&world);
    }
    assert_eq!(world.node(0).core.hash_key().to_bytes(), key.to_bytes());
    // The founder returns with the same list as the others: it founds nothing.
    world.crash(0);
    world.run(world.now() + SECOND);
    world.start(0, &[1, 2]);
    world.run(world.now() + 10 * SECOND);
    assert_together(&world);
    assert_eq!(world.node(0).core.hash_key().to_bytes(), key.to_bytes());
}

#[test]
fn nodes_that_start_together_agree() {
    for seed in 0..8 {
        let mut world = world(seed);
        for place in 0..5 {
            let others: Vec<usize> = (0..5).filter(|other| *other != place).collect();
            world.start(place, &others);
        }
        world.run(30 * SECOND);
        assert_together(&world);
    }
}

#[test]
fn two_clusters_that_meet_become_the_older_one() {
    for seed in 0..8 {
        let mut world = world(seed);
        world.start(0, &[]);
        world.start(1, &[0]);
        world.start(2, &[]);
        world.start(3, &[2]);
        world.run(5 * SECOND);
        let (older, younger) = (keys(&world)[0], keys(&world)[2]);
        assert!(older < younger && keys(&world) == [older, older, younger, younger]);
        world.admit(0, LIMIT, 1, DAY);
        world.admit(3, LIMIT, 2, DAY);
        world.run(6 * SECOND);
        let before = world.node(2).core.me();

        // One node that knows both.
        world.start(4, &[0, 2]);
        world.run(40 * SECOND);
        assert_together(&world);
        assert_eq!(keys(&world)[0], older);
        let after = world.node(2).core.me();
        assert!(after.generation > before.generation && after.outranks(before.rank));
        for place in 0..5 {
            assert!(world.tat(place, LIMIT, 1) > 0, "node {place} has the older one's state");
        }
        // From here on everything counts once everywhere.
        for place in 0..5 {
            world.admit(place, LIMIT, 7, SECOND * 1_000);
        }
        world.run(50 * SECOND);
        let tats: Vec<Nanos> = (0..5).map(|place| world.tat(place, LIMIT, 7)).collect();
        assert!(tats.iter().all(|tat| tat.abs_diff(5_040 * SECOND) < SECOND), "{tats:?}");
    }
}

/// Whatever its clock said when it founded.
#[test]
fn a_node_that_founded_alone_makes_no_cluster_start_over() {
    for seed in 0..8 {
        let mut world = world(seed);
        world.start(0, &[]);
        world.run(SECOND);
        world.start(1, &[]);
        world.start(2, &[1]);
        world.run(5 * SECOND);
        let [single, of_two, same] = keys(&world)[..] else { panic!("three nodes") };
        assert!(of_two < single && of_two == same);
        let lives = |world: &World| [1, 2].map(|place| world.node(place).core.me().generation);
        let before = lives(&world);
        world.admit(2, LIMIT, 1, DAY);

        world.start(3, &[0, 1]);
        world.run(40 * SECOND);
        assert_together(&world);
        assert_eq!(keys(&world)[0], of_two);
        assert_eq!(lives(&world), before, "none started over");
        assert!(world.tat(0, LIMIT, 1) > 0, "it has their state");
    }
}

/// Its words are empty from when it meets the older cluster until it has the state of that.
#[test]
fn a_node_that_starts_over_is_not_current_until_it_has_joined() {
    let mut world = world(1);
    for (place, join) in [(0, vec![]), (1, vec![0]), (2, vec![]), (3, vec![2])] {
        world.start(place, &join);
    }
    world.run(5 * SECOND);
    let before = [2, 3].map(|place| world.node(place).core.me().generation);
    world.start(4, &[0, 2]);
    let mut seen = [0; 2];
    while world.now() < 10 * SECOND {
        world.run(world.now() + SECOND / 1_000);
        for place in [2, 3].into_iter().filter(|place| !world.node(*place).core.has_joined()) {
            assert_eq!(world.node(place).core.current_until(), 0, "node {place}");
            seen[place - 2] += 1;
        }
    }
    assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
    for (place, before) in [2, 3].into_iter().zip(before) {
        let core = &world.node(place).core;
        assert!(core.me().generation > before && core.has_joined());
        assert!(core.current_until() > world.now(), "node {place}");
    }
}

/// One that has not had a state yet is in no cluster that decides, and one that leaves waits for
/// nothing.
#[test]
fn only_a_node_that_had_joined_waits_for_the_state_of_the_older_cluster() {
    let (mut harness, _) = sent(HashKey::candidate(0, [1; 16]).in_use());
    assert_eq!(harness.core.current_until(), 0);
    harness.core.leave(harness.now());
    assert_eq!(harness.core.current_until(), Nanos::MAX);

    let join = vec![addr(1)];
    let mut harness = Harness::with(Options { join, ..Options::default() });
    harness.tick(SECOND);
    let _ = harness.welcome(NodeId::new(addr(1), 5));
    let link = harness.core.accepted(harness.now(), Subject::node(addr(2))).unwrap();
    let key = HashKey::candidate(0, [1; 16]).in_use();
    let id = NodeId::new(addr(2), 5);
    let generation = harness.core.me().generation;
    harness.deliver(link, &Message::Hello { version: VERSION, oldest: VERSION, id, key });
    assert!(harness.core.me().generation > generation, "it starts over");
    assert_eq!(harness.core.current_until(), Nanos::MAX);
}

/// The seeds that answer first have no state, and the other cluster has one.
#[test]
fn a_node_that_starts_over_does_not_found_as_its_seeds_have_answered() {
    let join = vec![addr(1)];
    let mut harness = Harness::with(Options { join, ..Options::default() });
    harness.tick(6 * SECOND);
    assert_eq!(harness.core.join_kind(), Some(JoinKind::FoundedAlone));
    while harness.core.poll().is_some() {}
    let link = harness.core.accepted(harness.now(), Subject::node(addr(2))).unwrap();
    let key = HashKey::candidate(0, [1; 16]).in_use();
    let id = NodeId::new(addr(2), 5);
    harness.deliver(link, &Message::Hello { version: VERSION, oldest: VERSION, id, key });
    let link = harness.dial_of(addr(1));
    harness.core.connected(harness.now(), link, Subject::node(addr(1)));
    let id = NodeId::new(addr(1), 5);
    let welcome = Message::Welcome { version: VERSION, id, rank_floor: 0, key, joined: false };
    harness.deliver(link, &welcome);
    harness.tick(4_900_000_000);
    assert_eq!(harness.core.join_kind(), None);
    harness.tick(SECOND / 5);
    assert_eq!(harness.core.join_kind(), Some(JoinKind::FoundedAlone));
}

/// A founder, and a peer that sends another key.
fn sent(key: HashKey) -> (Harness, Vec<Action>) {
    let mut harness = Harness::new();
    let link = harness.greet(NodeId::new(addr(1), 5));
    harness.tick(SECOND);
    while harness.core.poll().is_some() {}
    harness.deliver(link, &Message::Key { key });
    let actions = std::iter::from_fn(|| harness.core.poll()).collect();
    (harness, actions)
}

#[test]
fn only_a_key_that_wins_is_taken_over() {
    let older = HashKey::candidate(0, [1; 16]).in_use();
    let (harness, actions) = sent(older);
    assert_eq!(harness.core.hash_key(), older);
    assert!(!harness.core.has_joined() && harness.core.me().generation > 1);
    assert!(actions.iter().any(|action| matches!(action, Action::Close { .. })));
    assert!(actions.iter().any(|a| matches!(a, Action::Dial { addr: to, .. } if *to == addr(1))));

    let younger = HashKey::candidate(9, [1; 16]).in_use();
    let unused = HashKey::candidate(0, [1; 16]);
    for key in [younger, unused] {
        let (harness, actions) = sent(key);
        assert_eq!((harness.core.has_joined(), harness.core.me().generation), (true, 1));
        assert_eq!(actions, []);
    }
    // The same key, sent by a node that has known it for longer, changes no hash.
    let (harness, _) = sent(HashKey::candidate(0, [0; 16]).in_use());
    assert_eq!((harness.core.has_joined(), harness.core.me().generation), (true, 1));
}

/// Nodes would pass it on to each other with every stamp that a member invents.
#[test]
fn the_key_in_use_with_another_stamp_is_not_passed_on() {
    let mut harness = Harness::new();
    let link = harness.greet(NodeId::new(addr(1), 5));
    harness.greet(NodeId::new(addr(2), 5));
    let key = harness.core.hash_key();
    while harness.core.poll().is_some() {}
    harness.deliver(link, &Message::Key { key: HashKey::candidate(0, [0; 16]).in_use() });
    assert_eq!((harness.core.hash_key(), harness.core.poll()), (key, None));
}

#[test]
fn a_node_that_starts_over_dials_its_peers_anew() {
    let mut harness = Harness::new();
    let id = NodeId::new(addr(1), 5);
    harness.greet(id);
    let link = harness.dial_of(id.addr);
    harness.core.connected(harness.now(), link, Subject::node(id.addr));
    while harness.core.poll().is_some() {}
    let key = HashKey::candidate(0, [1; 16]).in_use();
    let welcome = Message::Welcome { version: VERSION, id, rank_floor: 0, key, joined: true };
    harness.deliver(link, &welcome);
    let actions: Vec<Action> = std::iter::from_fn(|| harness.core.poll()).collect();
    assert!(actions.contains(&Action::Close { link }));
    assert!(actions.iter().any(|a| matches!(a, Action::Dial { addr: to, .. } if *to == id.addr)));
    let on_it = |a: &Action| matches!(a, Action::Message { link: of, .. } if *of == link);
    assert!(!actions.iter().any(on_it), "{actions:?}");
}

#[test]
fn keys_in_one_run_are_bounded() {
    let mut harness = Harness::new();
    let mut taken = 0;
    for round in 0..2 * MAX_HASH_KEYS {
        let link = harness.greet(NodeId::new(addr(1), 5 + round as u64));
        let key = HashKey::candidate(0, [200 - round as u8; 16]).in_use();
        let before = harness.core.hash_key();
        harness.deliver(link, &Message::Key { key });
        taken += usize::from(harness.core.hash_key() != before);
    }
    assert_eq!(taken + 1, MAX_HASH_KEYS);
    assert_eq!(harness.core.stats().violations as usize, 2 * MAX_HASH_KEYS - taken);

    // A node that could follow no more would stay out of its cluster until it is restarted.
    for (minute, round) in (1..=3_u32).zip([30_u8, 20, 10]) {
        harness.tick(60 * SECOND);
        for (bytes, is_taken) in [(round + 1, true), (round, false)] {
            let link = harness.greet(NodeId::new(addr(1), 500 + u64::from(minute)));
            let key = HashKey::candidate(0, [bytes; 16]).in_use();
            harness.deliver(link, &Message::Key { key });
            assert_eq!(harness.core.hash_key() == key, is_taken, "minute {minute}: {bytes}");
        }
    }
}
