//! Which differences between nodes' words are mended, and which are none.

use super::harness::Harness;
use super::network::MS;
use super::words::{QUICK, SHORT, SLOW, SMALL};
use super::world::{World, addr};
use crate::inline;
use crate::protocol::host::Level;
use crate::protocol::wire::{Agreement, Group, Message};
use crate::protocol::{LinkId, Nanos, NodeId, Options, Origin};

const SECOND: Nanos = 1_000 * MS;
const KEY: (u64, u64) = (SLOW, 1);
/// A part of the burst tolerance.
const SLIGHT: Nanos = 4 * SECOND;

fn world(nodes: usize) -> World {
    let mut world = World::new(1, 0, Options::default(), (0.0, 0.0, MS));
    world.start(0, &[]);
    (1..nodes).for_each(|place| world.start(place, &[0]));
    world.run(5 * SECOND);
    world
}

/// By how much the words of the live nodes differ, and their sum.
fn words(world: &World) -> (Nanos, Nanos) {
    let live = world.live();
    let words: Vec<_> = live.iter().map(|place| world.tat(*place, KEY.0, KEY.1)).collect();
    let (most, least) = (words.iter().max().unwrap(), words.iter().min().unwrap());
    (most - least, words.iter().sum())
}

#[test]
fn a_difference_that_load_left_behind_is_mended() {
    let mut world = world(4);
    world.admit(1, KEY.0, KEY.1, 1_200 * SECOND);
    world.run(world.now() + 10 * SECOND);
    for place in 0..4 {
        world.shift(place, KEY, (100 * SECOND * place as Nanos).cast_signed());
    }
    let (_, sum) = words(&world);
    world.run(world.now() + 100 * SECOND);
    let (difference, now) = words(&world);
    assert!(difference < SLIGHT, "{} ms", difference / MS);
    assert!(sum.abs_diff(now) < MS, "{sum} {now}");
}

/// A node crashes that one of two others has received nothing of lately.
#[test]
fn what_a_crashed_node_sent_to_one_of_two_is_a_difference() {
    for deaf in [0, 1] {
        let mut world = world(3);
        world.admit(1, KEY.0, KEY.1, 1_200 * SECOND);
        world.admit(2, KEY.0, KEY.1, SECOND);
        world.run(world.now() + SECOND);
        let now = world.now();
        world.net.partition(now, deaf, 2);
        world.admit(2, KEY.0, KEY.1, 600 * SECOND);
        world.run(now + SECOND);
        assert!(words(&world).0.abs_diff(600 * SECOND) < 50 * MS);
        world.crash(2);
        world.run(now + 200 * SECOND);
        let (difference, _) = words(&world);
        assert!(difference < SLIGHT, "{deaf}: {} ms", difference / MS);
    }
}

fn peer() -> NodeId {
    NodeId::new(addr(1), 5)
}

/// A node with links to and from a peer, which knows batch 1 of its own: a debt on the key that was
/// not used lately.
fn linked() -> (Harness, LinkId, LinkId) {
    let mut harness = Harness::new();
    harness.pass(1_000 * SECOND);
    let inbound = harness.greet(peer());
    let link = harness.welcome(peer());
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    harness.admit(KEY, 1_200 * SECOND);
    harness.core.flush(harness.now());
    harness.tick(150 * MS);
    (harness, inbound, link)
}

/// The peer owes 600 s more than this node, and its words contain this much of others.
fn ahead(harness: &Harness, number: u64, others: &[(Origin, u64)]) -> Message {
    let debt = harness.tat(KEY) - harness.now() + 600 * SECOND;
    let levels = vec![Level { limit: KEY.0, key: KEY.1, debt }];
    let mut cut = vec![(NodeId::new(addr(0), 1).origin(), 1)];
    cut.extend(others);
    let (at, groups) = (harness.now(), Vec::new());
    let levels = Agreement { cut, levels, ..Agreement::default() };
    Message::Batch { number, at, groups, levels }
}

/// By how much the node's word has moved when it has had the time for it.
fn moved(harness: &mut Harness) -> i64 {
    let before = harness.tat(KEY);
    harness.tick(50 * MS);
    harness.tat(KEY).cast_signed() - before.cast_signed()
}

#[test]
fn what_is_still_to_come_is_no_difference() {
    let third = NodeId::new(addr(2), 7);
    let (mut harness, inbound, _) = linked();
    harness.deliver(inbound, &ahead(&harness, 1, &[(third.origin(), 1)]));
    assert_eq!(moved(&mut harness), 0, "membership does not know the third node yet");
    let third_link = harness.greet(third);
    harness.deliver(inbound, &ahead(&harness, 2, &[(third.origin(), 1)]));
    assert_eq!(moved(&mut harness), 0, "its batch has not come");
    harness.deliver(third_link, &harness.batch(1, (QUICK, 1), 1));
    harness.deliver(inbound, &ahead(&harness, 3, &[(third.origin(), 1)]));
    assert_eq!(moved(&mut harness), 200_000_000_000, "a third of the difference");
}

/// Nodes that have another quota under the same name owe what no key can owe here: were such words
/// compared, the other node's would be lowered again and again, and it would admit that anew.
#[test]
fn a_word_of_which_something_was_refused_is_not_compared() {
    let most = 16 * 3_600 * SECOND;
    for refused in [0, 1] {
        let (mut harness, inbound, link) = linked();
        let debt = most - 1_300 * SECOND + refused * 200 * SECOND;
        harness.deliver(inbound, &harness.batch(1, KEY, debt.cast_signed()));
        assert_eq!(harness.core.stats().debts_refused, refused);
        let _ = first_levels(&mut harness, link, 5 * MS);
        let sent = first_levels(&mut harness, link, 150 * MS);
        let is_sent = sent.levels.iter().any(|level| (level.limit, level.key) == KEY);
        assert_eq!(is_sent, refused == 0);
        let level = Level { limit: KEY.0, key: KEY.1, debt: most - 9_000 * SECOND };
        let cut = vec![(NodeId::new(addr(0), 1).origin(), 1)];
        let levels = Agreement { cut, levels: vec![level], ..Agreement::default() };
        let at = harness.now();
        harness.deliver(inbound, &Message::Batch { number: 2, at, groups: Vec::new(), levels });
        assert_eq!(moved(&mut harness) < 0, refused == 0);
    }
}

/// What a level contains of an origin is not known where the cut does not say so.
#[test]
fn an_origin_that_a_cut_does_not_name_is_not_taken_for_unreceived() {
    let third = NodeId::new(addr(2), 7);
    let (mut harness, inbound, _) = linked();
    let third_link = harness.greet(third);
    harness.deliver(third_link, &harness.batch(1, KEY, 50_000_000_000));
    harness.deliver(inbound, &ahead(&harness, 1, &[]));
    assert_eq!(moved(&mut harness), 0);
    harness.deliver(inbound, &ahead(&harness, 2, &[(third.origin(), 1)]));
    assert_eq!(moved(&mut harness), 200_000_000_000);
}

/// Nodes that left long ago are in the version vectors of those that have met them.
#[test]
fn an_origin_that_a_state_alone_names_keeps_no_level_from_being_compared() {
    for (is_named, expected) in [(false, 300_000_000_000), (true, 0)] {
        let third = NodeId::new(addr(2), 7).origin();
        let (mut harness, inbound, link) = linked();
        harness.deliver(inbound, &Message::Gap);
        let is_request = |message: Message| match message {
            Message::StateRequest { request } => Some(request),
            _ => None,
        };
        let request = harness.answers(link).into_iter().find_map(is_request).unwrap();
        let vector = vec![(peer().origin(), 1), (third, 9)];
        harness.deliver(link, &Message::State { request, vector });
        harness.deliver(link, &Message::StateChunk { last: true, entries: Vec::new() });
        harness.tick(0);
        let named: &[_] = if is_named { &[(third, 8)] } else { &[] };
        harness.deliver(inbound, &ahead(&harness, 2, named));
        assert_eq!(moved(&mut harness), expected, "{is_named}");
    }
}

#[test]
fn a_cut_names_origins_of_which_a_change_is_held_back() {
    let (mut harness, inbound, link) = linked();
    let at = harness.now() - 10 * SECOND;
    let changes = vec![(1, 12_000_000_000, 0)];
    let groups = vec![Group { limit: SHORT, changes }];
    let late = Message::Batch { number: 1, at, groups, levels: Agreement::default() };
    harness.deliver(inbound, &late);
    assert_eq!(harness.core.stats().deltas_late, 1);
    let _ = harness.answers(link);
    harness.pass(200 * MS);
    harness.admit(KEY, SECOND);
    harness.admit((SHORT, 1), 700 * MS);
    // Both are looked at from here on.
    let _ = first_levels(&mut harness, link, 5 * MS);
    let sent = first_levels(&mut harness, link, 150 * MS);
    assert_eq!(sent.cut, [(peer().origin(), 1)]);
    let keys: Vec<_> = sent.levels.iter().map(|level| (level.limit, level.key)).collect();
    assert_eq!(keys, [KEY], "the other word lacks what is held back");
}

#[test]
fn no_level_is_sent_of_a_word_of_which_a_change_under_another_quota_is_held_back() {
    let other = (inline::id(SECOND, 2 * MS), 2);
    for held_back in [false, true] {
        let (mut harness, inbound, link) = linked();
        let at = harness.now() - if held_back { 10 * SECOND } else { MS };
        let groups = vec![Group { limit: SMALL, changes: vec![(2, 12_000_000_000, 0)] }];
        let late = Message::Batch { number: 1, at, groups, levels: Agreement::default() };
        harness.deliver(inbound, &late);
        assert_eq!(harness.core.stats().deltas_late, u64::from(held_back));
        let _ = harness.answers(link);
        harness.pass(200 * MS);
        harness.admit(KEY, SECOND);
        harness.admit(other, 700 * MS);
        let _ = first_levels(&mut harness, link, 5 * MS);
        let sent = first_levels(&mut harness, link, 150 * MS);
        let is_sent = sent.levels.iter().any(|level| (level.limit, level.key) == other);
        assert_eq!(is_sent, !held_back);
    }
}

/// The levels that are sent first, in this time.
fn first_levels(harness: &mut Harness, link: LinkId, time: Nanos) -> Agreement {
    harness.core.flush(harness.now());
    let until = harness.now() + time;
    while harness.now() < until {
        harness.tick(5 * MS);
        harness.core.flush(harness.now());
        let mut answers = harness.answers(link).into_iter();
        let levels = answers.find_map(|message| match message {
            Message::Batch { levels, .. } if !levels.levels.is_empty() => Some(levels),
            _ => None,
        });
        if let Some(levels) = levels {
            return levels;
        }
    }
    Agreement::default()
}

/// Checks that are decided together are recorded when all of them are.
#[test]
fn a_level_contains_nothing_that_is_not_recorded() {
    let (mut harness, _, link) = linked();
    harness.pass(200 * MS);
    harness.admit(KEY, SECOND);
    harness.charge(KEY, 60 * SECOND);
    assert_eq!(
        first_levels(&mut harness, link, 5 * MS).levels,
        [],
        "nothing was seen of the word yet"
    );
    harness.record(KEY, 60 * SECOND);
    let levels = first_levels(&mut harness, link, 150 * MS).levels;
    let owes = |harness: &Harness| harness.tat(KEY) - harness.now();
    assert_eq!(levels, [Level { limit: KEY.0, key: KEY.1, debt: owes(&harness) }]);

    harness.admit(KEY, SECOND);
    harness.charge(KEY, 60 * SECOND);
    assert_eq!(first_levels(&mut harness, link, 350 * MS).levels, []);
    harness.record(KEY, 60 * SECOND);
    let levels = first_levels(&mut harness, link, 150 * MS).levels;
    assert_eq!(levels, [Level { limit: KEY.0, key: KEY.1, debt: owes(&harness) }]);
}

/// The same of this node's word, with which a level is compared.
#[test]
fn no_level_is_compared_with_what_is_not_recorded() {
    let (mut harness, inbound, link) = linked();
    harness.admit(KEY, SECOND);
    let _ = first_levels(&mut harness, link, 150 * MS);
    harness.admit(KEY, SECOND);
    harness.core.flush(harness.now());
    let mut batches = harness.answers(link).into_iter().filter_map(|message| match message {
        Message::Batch { number, .. } => Some(number),
        _ => None,
    });
    // The peer knows all that, and owes 600 s more.
    let mut ahead = ahead(&harness, 1, &[]);
    let Message::Batch { levels, .. } = &mut ahead else { unreachable!() };
    levels.cut[0].1 = batches.next_back().unwrap();
    harness.charge(KEY, 60 * SECOND);
    harness.deliver(inbound, &ahead);
    assert_eq!(moved(&mut harness), 0);
    harness.record(KEY, 60 * SECOND);
    assert_eq!(moved(&mut harness), 300_000_000_000, "half of the difference");
}

/// Something is given back between the drain and the reading of a word that is not watched: the
/// level would lack it, and the batches do not contain it.
#[test]
fn what_is_given_back_since_the_drain_is_no_difference() {
    let given_back = -(60 * SECOND).cast_signed();
    let (mut harness, inbound, _) = linked();
    harness.deliver(inbound, &ahead(&harness, 1, &[]));
    harness.use_after_drain(KEY, given_back);
    assert_eq!(moved(&mut harness), given_back);

    let (mut harness, _, link) = linked();
    harness.pass(200 * MS);
    harness.use_after_drain(KEY, given_back);
    harness.tick(50 * MS);
    let levels = |message| match message {
        Message::Batch { levels, .. } => levels.levels,
        _ => Vec::new(),
    };
    let sent: Vec<Level> = harness.answers(link).into_iter().flat_map(levels).collect();
    assert_eq!(sent, []);
    // Once it is not taken for something that is in the word and not recorded.
    let levels = first_levels(&mut harness, link, 1_500 * MS).levels;
    let debt = harness.tat(KEY) - harness.now();
    assert_eq!(levels, [Level { limit: KEY.0, key: KEY.1, debt }]);
}

#[test]
fn what_is_missed_is_caught_up_with_before_levels_are_sent() {
    let (mut harness, inbound, link) = linked();
    let part = |upto| Message::Missed { to: 4, at: harness.now(), upto, groups: Vec::new() };
    let (some, rest) = (part(Some((SLOW, 9))), part(None));
    harness.deliver(inbound, &some);
    let _ = harness.answers(link);
    let levels = |harness: &mut Harness| {
        harness.pass(200 * MS);
        harness.admit(KEY, SECOND);
        first_levels(harness, link, 150 * MS).levels.len()
    };
    assert_eq!(levels(&mut harness), 0);
    harness.deliver(inbound, &rest);
    assert_eq!(levels(&mut harness), 1);
}

/// What the other node lacks is added to its level, but may have drained there once it is old.
#[test]
fn nothing_is_compared_over_what_may_have_drained_at_the_other_node() {
    // A half of the difference.
    for (ago, expected) in [(10 * MS, 50), (100 * MS, 0)] {
        let (mut harness, inbound, link) = linked();
        harness.admit(HOT, 300 * MS);
        harness.core.flush(harness.now());
        let known = last_batch(&mut harness, link);
        // Since then the key counts as in debt.
        let debt = harness.tat(HOT) - harness.now();
        harness.deliver(inbound, &hot_level(&harness, (1, known), debt));
        harness.tick(20 * MS);
        harness.admit(HOT, 200 * MS);
        harness.core.flush(harness.now());
        harness.pass(ago);
        let debt = harness.tat(HOT) - harness.now() - 200 * MS;
        let before = harness.tat(HOT);
        harness.deliver(inbound, &hot_level(&harness, (2, known), debt + 100 * MS));
        harness.tick(20 * MS);
        let moved = (harness.tat(HOT) - before) / MS;
        assert!(moved.abs_diff(expected) <= 2, "{moved} ms, {} ms ago", ago / MS);
    }
}

/// The number of the last batch that this node has sent.
fn last_batch(harness: &mut Harness, link: LinkId) -> u64 {
    let numbers = harness.answers(link).into_iter().filter_map(|message| match message {
        Message::Batch { number, .. } => Some(number),
        _ => None,
    });
    numbers.max().unwrap()
}

/// A peer's level of the hot key in its batch, which contains this node's batches up to a number.
fn hot_level(harness: &Harness, (number, known): (u64, u64), debt: Nanos) -> Message {
    let levels = vec![Level { limit: HOT.0, key: HOT.1, debt }];
    let cut = vec![(NodeId::new(addr(0), 1).origin(), known)];
    let levels = Agreement { cut, levels, ..Agreement::default() };
    Message::Batch { number, at: harness.now(), groups: Vec::new(), levels }
}

const HOT: (u64, u64) = (QUICK, 1);

/// A hot key at a node that has used it for half a second, paused, and gone on; and since when.
fn used(pause: Nanos) -> (Harness, LinkId, Nanos) {
    let (mut harness, inbound, _) = linked();
    let began = harness.now();
    for _ in 0..10 {
        harness.admit(HOT, 60 * MS);
        harness.core.flush(harness.now());
        harness.pass(50 * MS);
    }
    harness.pass(pause);
    harness.admit(HOT, 60 * MS);
    harness.core.flush(harness.now());
    (harness, inbound, began)
}

/// The first batch of a peer, which consumed this at a time.
fn consumed(at: Nanos, debt: Nanos) -> Message {
    let groups = vec![Group { limit: QUICK, changes: vec![(1, debt.cast_signed(), 0)] }];
    Message::Batch { number: 1, at, groups, levels: Agreement::default() }
}

/// What comes later than the burst tolerance, from before the key was used here.
#[test]
fn a_word_in_debt_lacks_what_comes_late_whole() {
    // Of 295 ms that were left when the key was used first, what was left at the first look.
    for (pause, expected) in [(0, 150..296), (200, 0..1)] {
        let (mut harness, inbound, began) = used(pause * MS);
        let before = harness.tat(HOT);
        harness.deliver(inbound, &consumed(began - 5 * MS, 300 * MS));
        assert_eq!(harness.tat(HOT), before, "the origin may send more of it");
        harness.deliver(inbound, &harness.batch(2, KEY, 0));
        let added = (harness.tat(HOT) - before) / MS;
        assert!(expected.contains(&added), "{added} after a pause of {pause} ms");
    }
}

/// The same from when it was: whether it would have drained is known.
#[test]
fn what_comes_late_is_applied_in_the_order_of_dates() {
    for (pause, expected) in [(0, 30), (80, 30), (115, 15), (200, 0)] {
        let (mut harness, inbound, _) = used(pause * MS);
        let before = harness.tat(HOT);
        harness.deliver(inbound, &consumed(harness.now() - 300 * MS, 30 * MS));
        assert_eq!((harness.tat(HOT) - before) / MS, expected, "after a pause of {pause} ms");
        assert_eq!(harness.core.stats().deltas_late, 0);
    }
}
