//! Nodes that are started together, apart from each other, or again: which founds, and which join.

use std::net::SocketAddr;

use super::harness::{Harness, KEY};
use super::network::MS;
use super::world::{World, addr};
use crate::member::MemberState;
use crate::protocol::bounds::VERSION;
use crate::protocol::wire::Message;
use crate::protocol::{JoinKind, LinkId, Nanos, NodeId, Options, Subject};

const SECOND: Nanos = 1_000 * MS;
const LIMIT: u64 = 1;
const DEBT: Nanos = 600 * SECOND;
/// The longest way of a packet.
const MOST_DELAY: Nanos = 20 * MS;

/// Nodes that are started within a second, in an order that the seed chooses, with the same list;
/// not a multiple of three.
fn started_together(seed: u64, nodes: usize) -> World {
    let mut world = World::new(seed, 0, Options::default(), (0.1, 0.1, MOST_DELAY));
    world.nodes.resize_with(nodes, || None);
    let list: Vec<usize> = (0..nodes).collect();
    for turn in 0..nodes {
        let place = (turn * 3 + seed as usize) % nodes;
        world.start(place, &list);
        world.run(world.now() + seed % 4 * 50 * MS);
    }
    world
}

fn entries(world: &World) -> Vec<Option<JoinKind>> {
    world.live().iter().map(|place| world.node(*place).core.join_kind()).collect()
}

fn count(world: &World, entry: JoinKind) -> usize {
    entries(world).iter().filter(|found| **found == Some(entry)).count()
}

/// Each node has all as members at once. One whose packets are lost is suspect for a moment, so all
/// are alive at that or a later look, within 5 s.
fn assert_one_cluster(world: &mut World) {
    let have_all = |world: &World, states: &[MemberState]| {
        let live = world.live();
        live.iter().all(|place| {
            let members = world.node(*place).core.members();
            members.iter().filter(|member| states.contains(&member.state)).count() == live.len()
        })
    };
    let members = |world: &World| -> Vec<_> {
        world.live().into_iter().map(|place| world.node(place).core.members()).collect()
    };
    let known = [MemberState::Alive, MemberState::Suspect];
    assert!(have_all(world, &known), "{:?}", members(world));
    let mut looks = 0;
    while !have_all(world, &known[..1]) && looks < 10 {
        world.run(world.now() + SECOND / 2);
        looks += 1;
    }
    assert!(have_all(world, &known[..1]), "{:?}", members(world));
}

fn debt(world: &World, place: usize, key: u64) -> Nanos {
    world.tat(place, LIMIT, key).saturating_sub(world.now())
}

#[test]
fn nodes_that_are_started_together_become_one_cluster_at_once() {
    for seed in 0..20 {
        let mut world = started_together(seed, [2, 4, 5, 7][seed as usize % 4]);
        // A lost packet of QUIC would be sent again; a dial that came too early waits 0.2 s.
        world.run(world.now() + SECOND);
        let found = entries(&world);
        assert_eq!(count(&world, JoinKind::Founded), 1, "seed {seed}: {found:?}");
        assert_eq!(count(&world, JoinKind::Joined), found.len() - 1, "seed {seed}: {found:?}");
        world.run(world.now() + 10 * SECOND);
        assert_one_cluster(&mut world);
    }
}

#[test]
fn with_a_node_missing_the_others_wait_and_become_one_cluster() {
    let mut world = World::new(1, 0, Options::default(), (0.0, 0.0, MS));
    for place in 0..3 {
        world.start(place, &[0, 1, 2, 3]);
    }
    world.run(4_900 * MS);
    assert_eq!(entries(&world), [None; 3]);
    world.run(5_100 * MS);
    assert_eq!(
        entries(&world),
        [JoinKind::FoundedAlone, JoinKind::Joined, JoinKind::Joined].map(Some)
    );
}

#[test]
fn a_node_that_waits_for_one_that_ends_founds_itself() {
    let mut world = World::new(1, 0, Options::default(), (0.0, 0.0, MS));
    for place in 0..2 {
        world.start(place, &[0, 1, 2]);
    }
    world.run(4_900 * MS);
    world.crash(0);
    world.run(5_500 * MS);
    assert_eq!(entries(&world), [Some(JoinKind::FoundedAlone)]);
}

#[test]
fn a_node_without_an_answer_founds_and_is_joined_to_the_others_later() {
    let mut world = World::new(1, 0, Options::default(), (0.0, 0.0, MS));
    world.start(0, &[]);
    assert_eq!(entries(&world), [Some(JoinKind::Founded)]);
    world.net.partition(0, 0, 1);
    world.start(1, &[0]);
    world.run(4_900 * MS);
    assert_eq!(world.node(1).core.join_kind(), None);
    world.run(10 * SECOND);
    assert_eq!(world.node(1).core.join_kind(), Some(JoinKind::FoundedAlone));
    let failed = world.node(1).core.stats().dials_failed;
    assert!(failed > 1, "{failed}");
    world.net.heal();
    world.run(world.now() + 10 * SECOND);
    // From when it succeeded no dial has failed: one more may have, just before.
    let now = world.node(1).core.stats().dials_failed;
    assert!(now <= failed + 1, "{now} {failed}");
    assert_one_cluster(&mut world);
}

/// Nodes at places are stopped for a while, for as long as which their links time out.
fn stop(world: &mut World, places: &[usize], time: Nanos) {
    for place in places {
        world.stop(*place, time);
    }
    world.run(world.now() + 5 * SECOND);
    for place in places {
        world.net.isolate(world.now(), *place);
    }
    world.run(world.now() + time - 5 * SECOND);
}

/// At any moment of its start.
#[test]
fn a_node_that_is_stopped_while_it_joins_joins() {
    for (seed, after) in [0, 10, 30, 100, 4_900].into_iter().enumerate() {
        let mut world = World::new(seed as u64, 0, Options::default(), (0.0, 0.0, MOST_DELAY));
        world.start(0, &[]);
        world.admit(0, LIMIT, 1, DEBT);
        if after == 4_900 {
            // It has found no node, and has waited for long.
            world.net.partition(0, 0, 1);
        }
        world.start(1, &[0]);
        let generation = |world: &World| world.node(1).core.me().generation;
        let before = generation(&world);
        world.run(world.now() + after * MS);
        world.net.heal();
        stop(&mut world, &[1], 6 * SECOND);
        world.run(world.now() + 3 * SECOND);
        assert_eq!(entries(&world), [JoinKind::Founded, JoinKind::Joined].map(Some), "{after}");
        assert!(debt(&world, 1, 1) > DEBT / 2, "{after}");
        assert_eq!(generation(&world), before, "{after}: it did not found and start over");
    }
}

#[test]
fn nodes_that_are_stopped_as_they_start_found_one_cluster() {
    for (seed, stopped) in [&[0, 1][..], &[0], &[1]].into_iter().enumerate() {
        for before in [0, 15 * MS, 4_900 * MS] {
            let mut world = World::new(seed as u64, 0, Options::default(), (0.0, 0.0, MOST_DELAY));
            for place in 0..2 {
                world.start(place, &[0, 1, 2]);
            }
            world.run(before);
            stop(&mut world, stopped, 7 * SECOND);
            world.run(world.now() + 10 * SECOND);
            let found = entries(&world);
            assert_eq!(count(&world, JoinKind::FoundedAlone), 1, "{stopped:?} {before}: {found:?}");
            assert_eq!(count(&world, JoinKind::Joined), 1, "{stopped:?} {before}: {found:?}");
        }
    }
}

/// A node of three that has dialled the others, and has the answer of the first.
fn answered_by_one() -> (Harness, [LinkId; 2]) {
    let join = vec![addr(1), addr(2)];
    let mut harness = Harness::with(Options { join, ..Options::default() });
    let links = harness.dials().into_iter().map(|(link, _)| link).collect::<Vec<_>>();
    for (link, place) in links.iter().zip(1..) {
        harness.core.connected(harness.now(), *link, Subject::node(addr(place)));
    }
    answer(&mut harness, links[0], 1, false);
    (harness, [links[0], links[1]])
}

/// The node at a place answers on a link.
fn answer(harness: &mut Harness, link: LinkId, place: usize, joined: bool) {
    let (version, id) = (VERSION, NodeId::new(addr(place), 5));
    harness.deliver(link, &Message::Welcome { version, id, rank_floor: 0, key: KEY, joined });
}

/// By then another node may have founded, and the answer of each is from before.
#[test]
fn what_others_said_before_a_stop_is_asked_again() {
    for (is_first, joined) in [(false, false), (true, false), (true, true)] {
        let (mut harness, links) = answered_by_one();
        harness.pass(6 * SECOND);
        if !is_first {
            harness.core.tick(harness.now());
        }
        answer(&mut harness, links[1], 2, false);
        assert_eq!(harness.core.join_kind(), None);
        let dials = harness.dials();
        assert_eq!(dials.iter().map(|(_, to)| *to).collect::<Vec<_>>(), [addr(1), addr(2)]);
        for ((link, to), place) in dials.into_iter().zip(1..) {
            harness.core.connected(harness.now(), link, Subject::node(to));
            answer(&mut harness, link, place, joined);
        }
        let founded = harness.core.join_kind();
        assert_eq!(founded, (!joined).then_some(JoinKind::Founded), "{is_first}");
        assert_eq!(harness.core.stats().violations, 0);
    }
}

/// A long time without an input is not a stop.
#[test]
fn a_node_that_waits_is_stepped() {
    let (mut harness, links) = answered_by_one();
    harness.tick(4 * SECOND);
    answer(&mut harness, links[1], 2, false);
    assert_eq!(harness.core.join_kind(), Some(JoinKind::Founded));
}

#[test]
fn a_node_that_has_waited_and_waits_for_another_one_is_not_stepped_without_a_pause() {
    let lower = SocketAddr::from(([10, 0, 0, 1], 999));
    let mut harness = Harness::with(Options { join: vec![lower], ..Options::default() });
    let link = harness.dial_of(lower);
    harness.core.connected(harness.now(), link, Subject::node(lower));
    let (version, id) = (VERSION, NodeId::new(lower, 5));
    harness
        .deliver(link, &Message::Welcome { version, id, rank_floor: 0, key: KEY, joined: false });
    for _ in 0..30 {
        harness.pass(200 * MS);
        harness.core.tick(harness.now());
    }
    assert_eq!(harness.core.join_kind(), None);
    assert!(harness.core.deadline() > Some(harness.now()));
}

/// That one is starved, and begins to wait anew again and again.
#[test]
fn a_node_that_others_keep_waiting_founds_in_the_end() {
    for lower in 1..=2 {
        let join: Vec<_> = (0..lower).map(|n| SocketAddr::from(([10, 0, 0, 1], 900 + n))).collect();
        let options = Options { join: join.clone(), ..Options::default() };
        let mut harness = Harness::with(options);
        for addr in join {
            let link = harness.dial_of(addr);
            harness.core.connected(harness.now(), link, Subject::node(addr));
            let (version, id) = (VERSION, NodeId::new(addr, 5));
            let joined = false;
            harness
                .deliver(link, &Message::Welcome { version, id, rank_floor: 0, key: KEY, joined });
        }
        let waited = (5 + 10 * Nanos::from(lower)) * SECOND;
        harness.tick(waited - 100 * MS);
        assert_eq!(harness.core.join_kind(), None);
        harness.tick(200 * MS);
        assert_eq!(harness.core.join_kind(), Some(JoinKind::Founded));
    }
}

/// The first thing that it sees after the stop.
#[test]
fn a_node_that_was_stopped_and_learns_of_seeds_waits_anew() {
    let join = vec![addr(1)];
    let mut harness = Harness::with(Options { join, looked_up: true, ..Options::default() });
    harness.pass(6 * SECOND);
    harness.core.seeds(harness.now(), &[addr(1), addr(2)], true);
    harness.tick(4_900 * MS);
    assert_eq!(harness.core.join_kind(), None);
    harness.tick(200 * MS);
    assert_eq!(harness.core.join_kind(), Some(JoinKind::FoundedAlone));
}

/// Two halves of a list that are cut from each other when they start.
#[test]
fn halves_that_start_apart_found_one_cluster_each_and_become_one() {
    let mut world = World::new(1, 0, Options::default(), (0.0, 0.0, MS));
    for (a, b) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
        world.net.partition(0, a, b);
    }
    for place in 0..4 {
        world.start(place, &[0, 1, 2, 3]);
    }
    world.run(6 * SECOND);
    assert_eq!(count(&world, JoinKind::FoundedAlone), 2, "{:?}", entries(&world));
    assert_eq!(count(&world, JoinKind::Joined), 2);
    world.run(world.now() + 20 * SECOND);
    world.net.heal();
    world.run(world.now() + 20 * SECOND);
    assert_one_cluster(&mut world);
    assert!(entries(&world).iter().all(Option::is_some), "{:?}", entries(&world));
    world.admit(3, LIMIT, 1, DEBT);
    world.run(world.now() + SECOND);
    for place in 0..4 {
        let known = debt(&world, place, 1);
        assert!(known > DEBT / 2 && known <= DEBT, "{place}: {known}");
    }
}

/// A state is as old as it was under way, which is known but for what the network varies by.
#[test]
fn a_founder_that_is_restarted_with_its_list_gives_nothing_away() {
    for seed in 0..8 {
        let mut world = started_together(seed, 4);
        world.run(world.now() + 5 * SECOND);
        world.admit(0, LIMIT, 1, DEBT);
        world.run(world.now() + SECOND);
        world.crash(0);
        world.run(world.now() + 100 * MS);
        world.start(0, &[0, 1, 2, 3]);
        world.run(world.now() + SECOND);
        assert_eq!(world.node(0).core.join_kind(), Some(JoinKind::Joined), "seed {seed}");
        let (known, expected) = (debt(&world, 0, 1), debt(&world, 1, 1));
        let is_same = known.abs_diff(expected) < MOST_DELAY;
        assert!(known > DEBT / 2 && is_same, "seed {seed}: {known} {expected}");
    }
}

/// It was dialled before it was there.
#[test]
fn a_node_that_opens_a_link_is_dialled_anew() {
    for (unanswered, anew) in [(50 * MS, 0), (150 * MS, 1)] {
        let options = Options { join: vec![addr(1)], ..Options::default() };
        let mut harness = Harness::with(options);
        let first = harness.dial_of(addr(1));
        harness.tick(unanswered);
        let _ = harness.greet(NodeId::new(addr(1), 5));
        let dials = harness.dials();
        assert_eq!(dials.len(), anew, "{dials:?}");
        // A node that answers the first one nevertheless is not greeted on it.
        harness.core.connected(harness.now(), first, Subject::node(addr(1)));
        assert_eq!(harness.answers(first).len(), 1 - anew);
    }
}

/// It has not answered on the link that is open: its process is another one. The handshake of the
/// one before has just been completed, or a while ago.
#[test]
fn a_link_without_an_answer_is_dialled_anew_too() {
    for (unanswered, anew) in [(450 * MS, 0), (550 * MS, 1)] {
        let options = Options { join: vec![addr(1)], ..Options::default() };
        let mut harness = Harness::with(options);
        let first = harness.dial_of(addr(1));
        harness.tick(unanswered);
        harness.core.connected(harness.now(), first, Subject::node(addr(1)));
        harness.tick(unanswered);
        let _ = harness.greet(NodeId::new(addr(1), 5));
        assert_eq!(harness.dials().len(), anew);
        harness.tick(60 * MS);
        assert_eq!(harness.dials().len(), 1 - anew);
    }
}

/// The last message of a handshake with the run before was under way for longer than the node took
/// to be back. The link has its time from when it opens, and is dialled anew once.
#[test]
fn a_link_that_opens_after_its_node_has_opened_one_is_dialled_anew_without_an_answer() {
    for (opened_after, answers) in [(50 * MS, false), (50 * MS, true), (700 * MS, false)] {
        let options = Options { join: vec![addr(1)], ..Options::default() };
        let mut harness = Harness::with(options);
        let first = harness.dial_of(addr(1));
        let id = NodeId::new(addr(1), 5);
        let _ = harness.greet(id);
        harness.tick(opened_after);
        harness.core.connected(harness.now(), first, Subject::node(addr(1)));
        if answers {
            let (version, key) = (VERSION, KEY);
            let welcome = Message::Welcome { version, id, rank_floor: 0, key, joined: true };
            harness.deliver(first, &welcome);
        }
        harness.tick(450 * MS);
        assert!(harness.dials().is_empty());
        harness.tick(50 * MS);
        let dials = harness.dials();
        assert_eq!(dials.len(), usize::from(!answers));
        if let Some((again, _)) = dials.first() {
            harness.core.connected(harness.now(), *again, Subject::node(addr(1)));
            harness.tick(2 * SECOND);
            assert!(harness.dials().is_empty());
        }
    }
}

/// Its clock was set back over a crash; or another node has the same address, and each of them
/// opens links again and again.
#[test]
fn a_node_that_is_there_in_an_earlier_run_is_dialled_anew() {
    let [later, earlier] = [9, 5].map(|generation| NodeId::new(addr(1), generation));
    let mut harness = Harness::new();
    harness.greet(later);
    harness.welcome(later);
    let _ = harness.greet(earlier);
    // Dialled, it is the later one after all.
    harness.welcome(later);
    for (passed, dialled) in [(0, 0), (9 * SECOND, 0), (2 * SECOND, 1)] {
        harness.tick(passed);
        let _ = harness.greet(earlier);
        assert_eq!(harness.dials().len(), dialled);
    }
    assert_eq!(harness.core.stats().violations, 0);
}

#[test]
fn a_node_that_is_listed_by_another_of_its_addresses_knows_itself() {
    let join = vec![addr(0), addr(7)];
    let mut harness = Harness::with(Options { join, ..Options::default() });
    let me = harness.core.me();
    assert_eq!(harness.core.join_kind(), None);
    let _ = harness.welcome_from(addr(7), me);
    assert_eq!(harness.core.join_kind(), Some(JoinKind::Founded));
    harness.tick(60 * SECOND);
    assert!(harness.dials().is_empty());
    // And answers itself, rather than take its own dial for a fault.
    let inbound = harness.greet(me);
    assert!(matches!(harness.answers(inbound)[..], [Message::Welcome { id, .. }] if id == me));
}

#[test]
fn a_node_that_is_listed_by_another_address_is_dialled_by_its_own() {
    let join = vec![addr(7)];
    let mut harness = Harness::with(Options { join, ..Options::default() });
    let (me, id) = (harness.core.me(), NodeId::new(addr(1), 5));
    let _ = harness.welcome_from(addr(7), id);
    assert_eq!(harness.core.join_kind(), None);
    let link = harness.welcome_from(addr(1), id);
    assert_eq!(harness.core.join_kind(), None, "it has joined, so its state is requested");
    let asked = |message: &Message| matches!(message, Message::StateRequest { .. });
    assert!(harness.answers(link).iter().any(asked));
    // While that link is open, a second one would close it.
    harness.tick(60 * SECOND);
    assert!(harness.dials().is_empty(), "{me}");
    assert_eq!(harness.core.stats().violations, 0);
}
