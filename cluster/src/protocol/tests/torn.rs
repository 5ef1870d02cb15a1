//! Words that contain a part of what an origin has sent, which does not send the rest.

use super::harness::Harness;
use super::network::MS;
use super::words::SHORT;
use super::world::addr;
use crate::protocol::host::Level;
use crate::protocol::wire::{Agreement, Group, Message};
use crate::protocol::{LinkId, Nanos, NodeId, Origin};

const SECOND: Nanos = 1_000 * MS;
const KEY: (u64, u64) = (SHORT, 1);

fn peer(place: usize) -> NodeId {
    NodeId::new(addr(place), 5)
}

/// A part of a backlog up to a batch, which is not the last one.
fn part(harness: &Harness, to: u64) -> Message {
    let groups = vec![Group { limit: SHORT, changes: vec![(9, 1, 0)] }];
    Message::Missed { to, at: harness.now(), upto: Some((SHORT, 9)), groups }
}

/// The vector of the state that is given; `None` when the node is busy.
fn ask(harness: &mut Harness, link: LinkId, request: u64) -> Option<Vec<(Origin, u64)>> {
    harness.deliver(link, &Message::StateRequest { request });
    let answers = harness.answers(link).into_iter();
    let mut vectors = answers.filter_map(|message| match message {
        Message::State { vector, .. } => Some(Some(vector)),
        Message::StateBusy { .. } => Some(None),
        _ => None,
    });
    vectors.next().unwrap()
}

fn entry(vector: &[(Origin, u64)], of: NodeId) -> Option<u64> {
    vector.iter().find(|(origin, _)| *origin == of.origin()).map(|(_, through)| *through)
}

#[test]
fn an_unfinished_backlog_keeps_no_node_from_a_state_for_long() {
    let mut harness = Harness::new();
    let (link, asker) = (harness.greet(peer(1)), harness.greet(peer(2)));
    harness.deliver(link, &part(&harness, 9));
    harness.tick(9 * SECOND);
    assert_eq!(ask(&mut harness, asker, 1), None, "the rest may be under way");
    harness.tick(2 * SECOND);
    let vector = ask(&mut harness, asker, 2).unwrap();
    assert_eq!(entry(&vector, peer(1)), Some(u64::MAX), "no log reaches back to a part");
    // The rest may come all the same.
    harness.deliver(link, &harness.part(9, KEY, 5));
    assert!(ask(&mut harness, asker, 3).is_some());
    assert_eq!(harness.core.stats().violations, 0);
}

/// One part after the other, under one generation after the other.
#[test]
fn a_backlog_that_drips_keeps_no_node_from_a_state_for_ever() {
    let mut harness = Harness::new();
    let asker = harness.greet(peer(2));
    let (mut request, mut given) = (0, Vec::new());
    for generation in 5..105 {
        let link = harness.greet(NodeId::new(addr(1), generation));
        harness.deliver(link, &part(&harness, 9));
        harness.tick(9 * SECOND);
        request += 1;
        given.push(ask(&mut harness, asker, request).is_some());
    }
    let given: Vec<_> = given.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).collect();
    assert_eq!(given, [(false, 33), (true, 33), (false, 34)]);
}

#[test]
fn late_changes_without_an_end_keep_no_node_from_a_state_for_long() {
    let mut harness = Harness::new();
    harness.pass(100 * SECOND);
    let (link, asker) = (harness.greet(peer(1)), harness.greet(peer(2)));
    let groups = vec![Group { limit: SHORT, changes: vec![(1, 90_000_000_000, 0)] }];
    let (at, levels) = (harness.now() - 10 * SECOND, Agreement::default());
    harness.deliver(link, &Message::Batch { number: 1, at, groups, levels });
    assert_eq!(ask(&mut harness, asker, 1), None);
    harness.tick(11 * SECOND);
    assert!(harness.tat(KEY) < harness.now(), "it is held back");
    let vector = ask(&mut harness, asker, 2).unwrap();
    assert_eq!(entry(&vector, peer(1)), Some(1));
    assert!(harness.tat(KEY) > harness.now(), "the state contains it");
}

#[test]
fn an_unfinished_backlog_holds_levels_back_for_ten_seconds() {
    let mut harness = Harness::new();
    harness.greet(peer(1));
    let link = harness.welcome(peer(1));
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    let unfinished = harness.greet(peer(2));
    harness.deliver(unfinished, &part(&harness, 9));
    let began = harness.now();
    let mut first = None;
    while harness.now() < began + 20 * SECOND {
        harness.admit(KEY, 200 * MS);
        harness.core.recorded(harness.now());
        harness.tick(200 * MS);
        let levels = harness.answers(link).into_iter().any(|message| match message {
            Message::Batch { number, levels, .. } => {
                harness.deliver(link, &Message::Ack { number });
                !levels.levels.is_empty()
            }
            _ => false,
        });
        first = first.or(levels.then(|| harness.now() - began));
    }
    let first = first.unwrap();
    assert!((10 * SECOND..11 * SECOND).contains(&first), "{first}");
}

#[test]
fn an_unfinished_backlog_keeps_levels_from_being_compared_for_ten_seconds() {
    for (after, moves) in [(9 * SECOND, false), (11 * SECOND, true)] {
        let mut harness = Harness::new();
        let unfinished = harness.greet(peer(2));
        harness.deliver(unfinished, &part(&harness, 9));
        harness.tick(after);
        let inbound = harness.greet(peer(1));
        let link = harness.welcome(peer(1));
        harness.deliver(link, &Message::Resume { position: None, fresh: false });
        harness.admit(KEY, 400 * MS);
        harness.core.flush(harness.now());
        let before = harness.tat(KEY);
        for number in 1..=5 {
            let cut = vec![(harness.core.me().origin(), 1), (peer(2).origin(), 0)];
            let levels = vec![Level { limit: KEY.0, key: KEY.1, debt: 800 * MS }];
            let levels = Agreement { cut, levels, ..Agreement::default() };
            let (at, groups) = (harness.now(), Vec::new());
            harness.deliver(inbound, &Message::Batch { number, at, groups, levels });
            harness.tick(20 * MS);
        }
        assert_eq!(harness.tat(KEY) != before, moves, "{after}");
    }
}
