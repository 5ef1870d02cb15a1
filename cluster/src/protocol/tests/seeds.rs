//! Seeds that are looked up: they come later, change and vanish.

use super::harness::Harness;
use super::network::MS;
use super::world::{World, addr};
use crate::member::MemberState;
use crate::protocol::{JoinKind, Nanos, NodeId, Options, Subject};

const SECOND: Nanos = 1_000 * MS;

fn looked_up() -> Options {
    Options { looked_up: true, ack_within: 0, ..Options::default() }
}

fn world() -> World {
    World::new(1, 0, looked_up(), (0.0, 0.0, MS))
}

fn entries(world: &World) -> Vec<Option<JoinKind>> {
    world.live().iter().map(|place| world.node(*place).core.join_kind()).collect()
}

fn alive(world: &World, place: usize) -> usize {
    let members = world.node(place).core.members();
    members.iter().filter(|member| member.state == MemberState::Alive).count()
}

#[test]
fn a_source_that_is_not_found_yet_keeps_a_node_waiting() {
    let mut world = world();
    for place in 0..2 {
        world.start(place, &[0, 1]);
    }
    // Both have answered each other, and one source is left: it may name a node with a state.
    world.run(4_900 * MS);
    assert_eq!(entries(&world), [None; 2]);
    world.run(5_100 * MS);
    assert_eq!(entries(&world), [JoinKind::FoundedAlone, JoinKind::Joined].map(Some));
}

#[test]
fn once_all_sources_are_found_nodes_that_have_answered_found_at_once() {
    let mut world = world();
    for place in 0..3 {
        world.start(place, &[]);
    }
    world.run(SECOND);
    assert_eq!(entries(&world), [None; 3]);
    for place in 0..3 {
        world.seeds(place, &[0, 1, 2], false);
    }
    world.run(2 * SECOND);
    assert_eq!(entries(&world), [None; 3]);
    for place in 0..3 {
        world.seeds(place, &[0, 1, 2], true);
    }
    world.run(3 * SECOND);
    assert_eq!(entries(&world), [JoinKind::Founded, JoinKind::Joined, JoinKind::Joined].map(Some));
}

/// As with a name that lists nodes only once they are ready.
#[test]
fn a_list_without_another_node_is_not_complete() {
    let mut world = world();
    for place in 0..2 {
        world.start(place, &[]);
        world.seeds(place, &[place], true);
    }
    world.run(4_900 * MS);
    assert_eq!(entries(&world), [None; 2]);
    for place in 0..2 {
        world.seeds(place, &[0, 1], true);
    }
    world.run(5_900 * MS);
    assert_eq!(entries(&world), [JoinKind::Founded, JoinKind::Joined].map(Some));
}

#[test]
fn a_seed_that_comes_after_this_node_has_founded_is_joined() {
    let mut world = world();
    for place in 0..2 {
        world.start(place, &[]);
    }
    world.run(10 * SECOND);
    assert_eq!(entries(&world), [Some(JoinKind::FoundedAlone); 2]);
    world.seeds(1, &[0], true);
    world.run(20 * SECOND);
    assert_eq!((alive(&world, 0), alive(&world, 1)), (2, 2));
    let keys = [0, 1].map(|place| world.node(place).core.hash_key());
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn a_node_that_starts_over_dials_the_seeds_of_then() {
    let mut world = world();
    for place in 0..3 {
        world.start(place, &[]);
    }
    world.run(10 * SECOND);
    // Node 1 learns of both before it meets the cluster of the first.
    world.seeds(1, &[0, 2], true);
    world.run(60 * SECOND);
    assert_eq!([0, 1, 2].map(|place| alive(&world, place)), [3; 3]);
}

#[test]
fn an_address_that_vanishes_is_dialled_no_more_unless_it_is_a_node() {
    let mut harness = Harness::with(looked_up());
    let id = NodeId::new(addr(1), 5);
    harness.core.seeds(0, &[addr(1), addr(2), addr(3)], true);
    let link = harness.welcome(id);
    let dials = harness.dials();
    assert_eq!(dials.iter().map(|(_, to)| *to).collect::<Vec<_>>(), [addr(2), addr(3)]);
    harness.core.closed(0, dials[0].0);

    harness.core.seeds(0, &[addr(4)], true);
    let closed: Vec<_> = std::iter::from_fn(|| harness.core.poll()).collect();
    let close_of = |link| crate::protocol::Action::Close { link };
    assert!(
        closed.contains(&close_of(dials[1].0)) && !closed.contains(&close_of(link)),
        "{closed:?}"
    );
    // Of a dial that has been given up, whatever comes is void.
    harness.core.connected(0, dials[1].0, Subject::node(addr(3)));
    assert_eq!(harness.core.poll(), Some(close_of(dials[1].0)));
    let peers: Vec<_> = harness.core.peers(0).iter().map(|peer| peer.addr).collect();
    assert_eq!(peers, [addr(1), addr(4)]);

    // It is dialled again as any peer, when its link closes.
    harness.core.closed(0, link);
    harness.tick(10 * SECOND);
    assert!(harness.dials().iter().any(|(_, to)| *to == addr(1)));
}

#[test]
fn an_address_of_its_own_is_dialled_once_for_as_long_as_it_is_listed() {
    let mut harness = Harness::with(looked_up());
    let me = harness.core.me();
    harness.core.seeds(0, &[addr(7)], true);
    let _ = harness.welcome_from(addr(7), me);
    // It is no other node, so whether there are others is not known.
    assert_eq!(harness.core.join_kind(), None);
    harness.core.seeds(0, &[addr(7)], true);
    assert_eq!(harness.dials(), []);
    harness.tick(10 * SECOND);
    assert_eq!(harness.core.join_kind(), Some(JoinKind::FoundedAlone));
    harness.core.seeds(harness.now(), &[], true);
    harness.core.seeds(harness.now(), &[addr(7)], true);
    assert_eq!(harness.dials().len(), 1);
}

#[test]
fn seeds_are_bounded_and_go_before_hearsay() {
    use crate::protocol::{MAX_PEERS, MAX_SEEDS};
    let mut harness = Harness::with(looked_up());
    let list: Vec<_> = (1..1_000).map(addr).collect();
    harness.core.seeds(0, &list, true);
    assert_eq!(harness.dials().len(), MAX_SEEDS);
    // Others replace them, and none is left over.
    harness.core.seeds(0, &list[500..], true);
    assert_eq!(harness.dials().len(), MAX_SEEDS);
    assert!(harness.core.peers(0).len() <= MAX_PEERS);
    assert_eq!(harness.core.peers(0).len(), MAX_SEEDS);
}
