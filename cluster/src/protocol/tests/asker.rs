//! One node that requests the state of simulated peers, whose answers come late or out of order.

use super::harness::Harness;
use super::world::addr;
use crate::protocol::host::Level;
use crate::protocol::id::Origin;
use crate::protocol::wire::{Message, Position};
use crate::protocol::{LinkId, Nanos, NodeId};

const KEY: (u64, u64) = (1, 1);
const SECOND: Nanos = 1_000_000_000;

fn peer(place: usize, generation: u64) -> NodeId {
    NodeId::new(addr(place), generation)
}

fn state(request: u64, vector: &[(Origin, u64)]) -> Message {
    Message::State { request, vector: vector.to_vec() }
}

fn chunk(debt: u64) -> Message {
    let entries = vec![Level { limit: KEY.0, key: KEY.1, debt }];
    Message::StateChunk { last: true, entries }
}

/// A founder that needs the state of a peer, with the links from and to that peer.
fn in_need_of(id: NodeId) -> (Harness, LinkId, LinkId) {
    let mut harness = Harness::new();
    let inbound = harness.greet(id);
    let outbound = harness.welcome(id);
    harness.deliver(inbound, &Message::Gap);
    (harness, inbound, outbound)
}

/// The numbers of the requests on the link, and how many were cancelled.
fn asked(sent: &[Message]) -> (Vec<u64>, usize) {
    let request = |message: &Message| match message {
        Message::StateRequest { request, .. } => Some(*request),
        _ => None,
    };
    let stops = sent.iter().filter(|message| **message == Message::StateStop).count();
    (sent.iter().filter_map(request).collect(), stops)
}

#[test]
fn a_late_answer_is_no_violation_and_not_taken_for_the_next() {
    let id = peer(1, 5);
    let (mut harness, _, link) = in_need_of(id);
    let (first, _) = asked(&harness.answers(link));
    harness.tick(6 * SECOND);
    let (second, stops) = asked(&harness.answers(link));
    assert_eq!((first.len(), second.len(), stops), (1, 1, 1));
    harness.deliver(link, &state(first[0], &[(id.origin(), 1)]));
    harness.deliver(link, &chunk(5));
    assert_eq!(harness.tat(KEY), 0);
    harness.deliver(link, &Message::StateBusy { request: first[0] });
    harness.deliver(link, &state(second[0], &[(id.origin(), 2)]));
    let now = harness.now();
    harness.deliver(link, &chunk(7 * SECOND));
    assert_eq!(harness.tat(KEY), now + 7 * SECOND);
    assert_eq!(harness.core.stats().violations, 0);
}

/// A path on which every answer takes six seconds.
#[test]
fn the_stall_timeout_grows_until_a_slow_answer_arrives() {
    let id = peer(1, 5);
    let (mut harness, inbound, link) = in_need_of(id);
    let (first, _) = asked(&harness.answers(link));
    harness.tick(6 * SECOND);
    harness.deliver(link, &state(first[0], &[(id.origin(), 1)]));
    let (second, _) = asked(&harness.answers(link));
    harness.tick(6 * SECOND);
    assert_eq!(asked(&harness.answers(link)), (Vec::new(), 0));
    harness.deliver(link, &state(second[0], &[(id.origin(), 1)]));
    harness.deliver(link, &chunk(5 * SECOND));
    assert_eq!(harness.tat(KEY), harness.now() + 5 * SECOND);
    assert_eq!(harness.core.stats().states_received, 1);
    // The transfer succeeded, so the timeout of the next one is the shortest again.
    harness.deliver(inbound, &Message::Gap);
    harness.tick(6 * SECOND);
    let (again, stops) = asked(&harness.answers(link));
    assert_eq!((again.len(), stops), (2, 1));
}

#[test]
fn a_silent_peer_does_not_keep_others_waiting() {
    let (mut harness, _, silent) = in_need_of(peer(1, 5));
    assert_eq!(asked(&harness.answers(silent)).0.len(), 1);
    let other = harness.greet(peer(2, 5));
    let link = harness.welcome(peer(2, 5));
    harness.deliver(other, &Message::Gap);
    harness.tick(6 * SECOND);
    assert_eq!(asked(&harness.answers(link)).0.len(), 1);
    harness.tick(10 * SECOND);
    assert_eq!(asked(&harness.answers(silent)).0.len(), 1);
}

#[test]
fn a_state_sent_twice_is_a_violation() {
    let id = peer(1, 5);
    let (mut harness, _, link) = in_need_of(id);
    let (asked, _) = asked(&harness.answers(link));
    harness.deliver(link, &state(asked[0], &[]));
    harness.deliver(link, &state(asked[0], &[]));
    assert_eq!(harness.core.stats().violations, 1);
}

#[test]
fn a_cancelled_request_is_not_served() {
    let (mut harness, mut links) = (Harness::new(), Vec::new());
    for key in 0..20_000 {
        harness.admit((1, key), 60 * SECOND);
    }
    // As many as are served at once; none of them acknowledges a chunk.
    for place in 1..=4 {
        let link = harness.greet(peer(place, 5));
        harness.deliver(link, &Message::StateRequest { request: 1 });
        assert!(!harness.answers(link).contains(&Message::StateBusy { request: 1 }));
        links.push(link);
    }
    let late = harness.greet(peer(5, 5));
    harness.deliver(late, &Message::StateRequest { request: 1 });
    assert!(harness.answers(late).contains(&Message::StateBusy { request: 1 }));
    harness.deliver(links[0], &Message::StateStop);
    harness.deliver(late, &Message::StateRequest { request: 2 });
    assert!(!harness.answers(late).contains(&Message::StateBusy { request: 2 }));
}

#[test]
fn the_last_frames_of_a_generation_count_though_the_next_is_known() {
    let mut harness = Harness::new();
    let old = harness.greet(peer(1, 5));
    let link = harness.welcome(peer(1, 5));
    harness.deliver(old, &harness.batch(1, KEY, 5));
    // The new generation answers a dial before its own link opens.
    harness.core.closed(harness.now(), link);
    harness.tick(SECOND);
    harness.welcome(peer(1, 6));
    harness.deliver(old, &harness.batch(2, KEY, 7));
    assert_eq!(harness.tat(KEY), harness.now() + 7);
    assert_eq!(harness.core.stats().violations, 0);
    harness.greet(peer(1, 6));
    harness.deliver(old, &harness.batch(3, KEY, 9));
    assert_eq!(harness.tat(KEY), harness.now() + 7);
}

#[test]
fn a_gap_ends_with_the_generation_that_had_it() {
    let (mut harness, _, link) = in_need_of(peer(1, 5));
    assert_eq!(asked(&harness.answers(link)).0.len(), 1);
    // The new generation answers a dial before its own link opens.
    harness.core.closed(harness.now(), link);
    harness.tick(SECOND);
    let link = harness.welcome(peer(1, 6));
    assert_eq!(asked(&harness.answers(link)).0.len(), 0);
    let restarted = harness.greet(peer(1, 6));
    harness.deliver(restarted, &harness.batch(1, KEY, 5));
    harness.deliver(restarted, &harness.batch(2, KEY, 7));
    assert_eq!(asked(&harness.answers(link)).0.len(), 0);
    assert_eq!(harness.tat(KEY), harness.now() + 12);
    assert_eq!(harness.core.stats().violations, 0);
}

/// A position that is sent again may cross a gap: its answer is the gap again, or frames where the
/// log reaches back to it.
#[test]
fn a_gap_that_is_sent_again_or_withdrawn_is_no_violation() {
    let (mut harness, inbound, link) = in_need_of(peer(1, 5));
    harness.deliver(inbound, &Message::Gap);
    let (asked, _) = asked(&harness.answers(link));
    assert_eq!((asked.len(), harness.core.stats().gaps), (1, 1));
    harness.deliver(inbound, &harness.batch(1, KEY, 5));
    assert_eq!(harness.tat(KEY), 5);
    // No peer needs it any more, also where another gap comes before it does.
    assert!(harness.answers(link).contains(&Message::StateStop));
    harness.deliver(inbound, &harness.batch(2, KEY, 7));
    harness.deliver(inbound, &Message::Gap);
    harness.deliver(link, &state(asked[0], &[(peer(1, 5).origin(), 1)]));
    harness.deliver(link, &chunk(5));
    harness.deliver(inbound, &harness.batch(3, KEY, 9));
    assert_eq!((harness.tat(KEY), harness.core.stats().violations), (21, 0));
}

#[test]
fn frames_that_leave_some_out_after_a_gap_are_a_violation() {
    let (mut harness, inbound, _) = in_need_of(peer(1, 5));
    harness.deliver(inbound, &harness.batch(2, KEY, 5));
    assert_eq!((harness.tat(KEY), harness.core.stats().violations), (0, 1));
}

#[test]
fn after_its_state_a_peer_with_a_gap_is_sent_a_position() {
    let id = peer(1, 5);
    let mut harness = Harness::new();
    let inbound = harness.greet(id);
    let link = harness.welcome(id);
    harness.deliver(inbound, &harness.batch(1, KEY, 5));
    harness.deliver(inbound, &Message::Gap);
    let (asked, _) = asked(&harness.answers(link));
    harness.deliver(link, &state(asked[0], &[(id.origin(), 1)]));
    harness.deliver(link, &chunk(5));
    let position = Some(Position { through: 1, missed: None });
    assert!(harness.answers(inbound).contains(&Message::Resume { position, fresh: false }));
    harness.deliver(inbound, &harness.batch(2, KEY, 7));
    assert_eq!(harness.tat(KEY), 12);
}

/// A node that has applied batches of `other` while it waits for the state of `one`.
fn with_frames_of(other: NodeId, debts: &[i64]) -> (Harness, Origin, LinkId, LinkId, u64) {
    let one = peer(1, 5);
    let (mut harness, _, link) = in_need_of(one);
    let (asked, _) = asked(&harness.answers(link));
    let frames = harness.greet(other);
    for (batch, debt) in debts.iter().enumerate() {
        harness.deliver(frames, &harness.batch(batch as u64 + 1, KEY, *debt));
    }
    (harness, one.origin(), link, frames, asked[0])
}

#[test]
fn what_a_state_contains_of_a_third_node_is_not_applied_again() {
    let other = peer(2, 5);
    let (mut harness, one, link, frames, asked) = with_frames_of(other, &[5]);
    harness.deliver(link, &state(asked, &[(one, 1), (other.origin(), 2)]));
    harness.deliver(link, &chunk(15));
    // In flight on the link that is closed.
    harness.deliver(frames, &harness.batch(2, KEY, 7));
    harness.deliver(frames, &harness.part(3, KEY, 16));
    assert_eq!(harness.tat(KEY), 15);
    let again = harness.greet(other);
    let position = Some(Position { through: 2, missed: None });
    assert!(harness.answers(again).contains(&Message::Resume { position, fresh: false }));
    harness.deliver(again, &harness.batch(3, KEY, 9));
    assert_eq!(harness.tat(KEY), 24);
    assert_eq!(harness.core.stats().violations, 0);
}

#[test]
fn what_a_state_lacks_of_a_third_node_is_added() {
    let other = peer(2, 5);
    let (mut harness, one, link, frames, asked) = with_frames_of(other, &[5, 7]);
    harness.deliver(link, &state(asked, &[(one, 1), (other.origin(), 1)]));
    harness.deliver(link, &chunk(8));
    assert_eq!(harness.tat(KEY), 15);
    harness.deliver(frames, &harness.batch(3, KEY, 9));
    assert_eq!(harness.tat(KEY), 24);
    assert_eq!(harness.core.stats().violations, 0);
}

#[test]
fn what_comes_while_a_state_is_applied_is_added_and_no_state_is_given() {
    let other = peer(2, 5);
    let (mut harness, one, link, frames, asked) = with_frames_of(other, &[5]);
    let entry = |key| Level { limit: KEY.0, key, debt: 20 };
    // More than one step applies; the last ones first.
    let entries: Vec<Level> = (KEY.1..2_000).map(entry).collect();
    harness.deliver(link, &state(asked, &[(one, 1), (other.origin(), 1)]));
    harness.deliver(link, &Message::StateChunk { last: true, entries });
    harness.deliver(frames, &harness.batch(2, KEY, 7));
    assert_eq!(harness.tat(KEY), 12);
    harness.deliver(frames, &Message::StateRequest { request: 1 });
    assert!(harness.answers(frames).contains(&Message::StateBusy { request: 1 }));
    for _ in 0..4 {
        harness.tick(0);
    }
    assert_eq!(harness.core.stats().states_received, 1);
    assert_eq!(harness.tat(KEY), 27);
}

#[test]
fn a_state_does_not_move_the_position_of_a_new_link() {
    let id = peer(1, 5);
    let (mut harness, _, link) = in_need_of(id);
    let (asked, _) = asked(&harness.answers(link));
    // On a new link the peer is sent a position after which it can continue.
    let again = harness.greet(id);
    harness.deliver(link, &state(asked[0], &[(id.origin(), 1)]));
    harness.deliver(link, &chunk(5));
    harness.deliver(again, &harness.batch(1, KEY, 5));
    harness.deliver(again, &harness.batch(2, KEY, 7));
    assert_eq!(harness.tat(KEY), 12);
    assert_eq!(harness.core.stats().violations, 0);
}

#[test]
fn a_state_that_lags_behind_does_not_move_a_position_back() {
    let (one, other) = (peer(1, 5), peer(2, 5));
    let (mut harness, _, link) = in_need_of(one);
    let (asked, _) = asked(&harness.answers(link));
    let from_other = harness.greet(other);
    harness.deliver(from_other, &harness.batch(1, KEY, 5));
    harness.deliver(from_other, &harness.batch(2, KEY, 7));
    harness.core.closed(harness.now(), from_other);
    harness.deliver(link, &state(asked[0], &[(one.origin(), 1), (other.origin(), 1)]));
    harness.deliver(link, &chunk(3));
    let again = harness.greet(other);
    let position = Some(Position { through: 2, missed: None });
    assert!(harness.answers(again).contains(&Message::Resume { position, fresh: false }));
}

/// As many as are served at once, and none of them acknowledges a chunk.
#[test]
fn a_state_that_is_not_acknowledged_gives_its_place() {
    let mut harness = Harness::new();
    for key in 0..20_000 {
        harness.admit((1, key), 600 * SECOND);
    }
    let ask = |harness: &mut Harness, place, request| {
        let link = harness.greet(peer(place, 5));
        harness.deliver(link, &Message::StateRequest { request });
        (link, harness.answers(link).contains(&Message::StateBusy { request }))
    };
    let links: Vec<LinkId> = (1..=4).map(|place| ask(&mut harness, place, 1).0).collect();
    harness.pass(6 * SECOND);
    for link in &links[1..] {
        harness.deliver(*link, &Message::StateAck);
    }
    let (_, is_refused) = ask(&mut harness, 5, 7);
    assert!(is_refused, "a slow path is no reason");
    harness.pass(5 * SECOND);
    let (_, is_refused) = ask(&mut harness, 6, 7);
    assert!(!is_refused);
    let (_, is_refused) = ask(&mut harness, 7, 7);
    assert!(is_refused, "the others have acknowledged something");
}

/// Empty chunks are sent where few slots of a table hold a key.
#[test]
fn a_state_that_does_not_end_is_given_up() {
    let (mut harness, _, endless) = in_need_of(peer(1, 5));
    let request = asked(&harness.answers(endless)).0[0];
    let other = harness.greet(peer(2, 5));
    let link = harness.welcome(peer(2, 5));
    harness.deliver(other, &Message::Gap);
    harness.deliver(endless, &state(request, &[]));
    let mut longest = 0;
    let second = loop {
        if let [second] = asked(&harness.answers(link)).0[..] {
            break second;
        }
        harness.deliver(endless, &Message::StateChunk { last: false, entries: Vec::new() });
        harness.tick(SECOND);
        longest += 1;
        assert!(longest < 200, "{longest} s");
    };
    assert!(longest > 60, "{longest} s");
    // The next one may take twice as long.
    harness.deliver(link, &state(second, &[(peer(2, 5).origin(), 1)]));
    for _ in 0..200 {
        harness.deliver(link, &Message::StateChunk { last: false, entries: Vec::new() });
        harness.tick(SECOND);
    }
    harness.deliver(link, &chunk(SECOND));
    assert_eq!(harness.core.stats().states_received, 1);
}
