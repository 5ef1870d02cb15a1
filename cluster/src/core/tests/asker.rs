//! One core that asks hand-made peers for their state, and is told late or in another order.

use super::bench::Bench;
use super::world::addr;
use crate::core::host::Delta;
use crate::core::id::Origin;
use crate::core::wire::{Message, Position, encode};
use crate::core::{LinkId, Nanos, NodeId};

const KEY: (u64, u64) = (1, 1);
const SECOND: Nanos = 1_000_000_000;

fn peer(place: usize, generation: u64) -> NodeId {
    NodeId::new(addr(place), generation)
}

fn deltas(debt: u64) -> Vec<Delta> {
    vec![Delta { limit: KEY.0, key: KEY.1, debt }]
}

fn frame(seq: u64, debt: u64) -> Message {
    Message::Frame { seq, through: Some(seq), age: 0, body: encode(&deltas(debt)).unwrap() }
}

fn state(request: u64, vector: &[(Origin, u64)]) -> Message {
    let entry =
        |(origin, through): &(Origin, u64)| (*origin, Position { seq: 0, through: *through });
    Message::State { request, vector: vector.iter().map(entry).collect(), keys: 1 }
}

fn chunk(debt: u64) -> Message {
    Message::StateChunk { age: 0, entries: deltas(debt) }
}

/// A core that founded its cluster and needs the state of a peer: its link from that, and to it.
fn in_need_of(id: NodeId) -> (Bench, LinkId, LinkId) {
    let mut bench = Bench::new();
    let inbound = bench.greet(id);
    let outbound = bench.welcome(id);
    bench.tell(inbound, &Message::Gap);
    (bench, inbound, outbound)
}

/// The numbers under which the core has asked on the link, and how often it gave up.
fn asked(sent: &[Message]) -> (Vec<u64>, usize) {
    let request = |message: &Message| match message {
        Message::StateRequest { request, .. } => Some(*request),
        _ => None,
    };
    let stops = sent.iter().filter(|message| **message == Message::StateStop).count();
    (sent.iter().filter_map(request).collect(), stops)
}

#[test]
fn an_answer_that_was_given_up_is_no_fault_and_not_taken_for_the_next() {
    let id = peer(1, 5);
    let (mut bench, _, link) = in_need_of(id);
    let (first, _) = asked(&bench.answers(link));
    bench.tick(6 * SECOND);
    let (second, stops) = asked(&bench.answers(link));
    assert_eq!((first.len(), second.len(), stops), (1, 1, 1));
    bench.tell(link, &state(first[0], &[(id.origin(), 1)]));
    bench.tell(link, &chunk(5));
    assert_eq!(bench.tat(KEY), 0);
    bench.tell(link, &Message::StateBusy { request: first[0] });
    bench.tell(link, &state(second[0], &[(id.origin(), 2)]));
    let now = bench.now();
    bench.tell(link, &chunk(7 * SECOND));
    assert_eq!(bench.tat(KEY), now + 7 * SECOND);
    assert_eq!(bench.core.stats().violations, 0);
}

/// A path on which every answer takes six seconds.
#[test]
fn patience_grows_until_a_slow_answer_arrives() {
    let id = peer(1, 5);
    let (mut bench, inbound, link) = in_need_of(id);
    let (first, _) = asked(&bench.answers(link));
    bench.tick(6 * SECOND);
    bench.tell(link, &state(first[0], &[(id.origin(), 1)]));
    let (second, _) = asked(&bench.answers(link));
    bench.tick(6 * SECOND);
    assert_eq!(asked(&bench.answers(link)), (Vec::new(), 0));
    bench.tell(link, &state(second[0], &[(id.origin(), 1)]));
    bench.tell(link, &chunk(5 * SECOND));
    assert_eq!(bench.tat(KEY), bench.now() + 5 * SECOND);
    assert_eq!(bench.core.stats().states_received, 1);
    // It was long enough, so the next one begins as the first did.
    bench.tell(inbound, &Message::Gap);
    bench.tick(6 * SECOND);
    let (again, stops) = asked(&bench.answers(link));
    assert_eq!((again.len(), stops), (2, 1));
}

#[test]
fn who_does_not_answer_keeps_nobody_else_waiting() {
    let (mut bench, _, silent) = in_need_of(peer(1, 5));
    assert_eq!(asked(&bench.answers(silent)).0.len(), 1);
    let other = bench.greet(peer(2, 5));
    let link = bench.welcome(peer(2, 5));
    bench.tell(other, &Message::Gap);
    bench.tick(6 * SECOND);
    assert_eq!(asked(&bench.answers(link)).0.len(), 1);
    bench.tick(10 * SECOND);
    assert_eq!(asked(&bench.answers(silent)).0.len(), 1);
}

#[test]
fn a_state_told_twice_is_a_fault() {
    let id = peer(1, 5);
    let (mut bench, _, link) = in_need_of(id);
    let (asked, _) = asked(&bench.answers(link));
    bench.tell(link, &state(asked[0], &[]));
    bench.tell(link, &state(asked[0], &[]));
    assert_eq!(bench.core.stats().violations, 1);
}

#[test]
fn who_no_longer_waits_is_not_served() {
    let (mut bench, mut links) = (Bench::new(), Vec::new());
    for key in 0..20_000 {
        bench.admit((1, key), 60 * SECOND);
    }
    // As many as are served at once; none of them takes what it is sent.
    for place in 1..=4 {
        let link = bench.greet(peer(place, 5));
        bench.tell(link, &Message::StateRequest { request: 1, force: false });
        assert!(!bench.answers(link).contains(&Message::StateBusy { request: 1 }));
        links.push(link);
    }
    let late = bench.greet(peer(5, 5));
    bench.tell(late, &Message::StateRequest { request: 1, force: false });
    assert!(bench.answers(late).contains(&Message::StateBusy { request: 1 }));
    bench.tell(links[0], &Message::StateStop);
    bench.tell(late, &Message::StateRequest { request: 2, force: false });
    assert!(!bench.answers(late).contains(&Message::StateBusy { request: 2 }));
}

#[test]
fn the_last_frames_of_a_life_count_though_the_next_is_known() {
    let mut bench = Bench::new();
    let old = bench.greet(peer(1, 5));
    let link = bench.welcome(peer(1, 5));
    bench.tell(old, &frame(1, 5));
    // The new life answers a dial before its own is heard.
    bench.core.closed(bench.now(), link);
    bench.tick(SECOND);
    bench.welcome(peer(1, 6));
    bench.tell(old, &frame(2, 7));
    assert_eq!(bench.tat(KEY), bench.now() + 7);
    assert_eq!(bench.core.stats().violations, 0);
    bench.greet(peer(1, 6));
    assert_eq!(bench.core.stats().origins, 0);
}

#[test]
fn a_gap_ends_with_the_life_that_had_it() {
    let (mut bench, _, link) = in_need_of(peer(1, 5));
    assert_eq!(asked(&bench.answers(link)).0.len(), 1);
    // The new life answers a dial before its own is heard.
    bench.core.closed(bench.now(), link);
    bench.tick(SECOND);
    let link = bench.welcome(peer(1, 6));
    assert_eq!(asked(&bench.answers(link)).0.len(), 0);
    let reborn = bench.greet(peer(1, 6));
    bench.tell(reborn, &frame(1, 5));
    bench.tell(reborn, &frame(2, 7));
    assert_eq!(asked(&bench.answers(link)).0.len(), 0);
    assert_eq!(bench.tat(KEY), bench.now() + 12);
    assert_eq!(bench.core.stats().violations, 0);
}

#[test]
fn nothing_but_a_state_follows_a_gap() {
    for message in [Message::Gap, frame(1, 5)] {
        let (mut bench, inbound, _) = in_need_of(peer(1, 5));
        bench.tell(inbound, &message);
        assert_eq!(bench.core.stats().violations, 1, "{message:?}");
        assert_eq!(bench.tat(KEY), 0);
    }
}

#[test]
fn after_its_state_whoever_had_a_gap_is_told_where_to_continue() {
    let id = peer(1, 5);
    let mut bench = Bench::new();
    let inbound = bench.greet(id);
    let link = bench.welcome(id);
    bench.tell(inbound, &frame(1, 5));
    bench.tell(inbound, &Message::Gap);
    let (asked, _) = asked(&bench.answers(link));
    bench.tell(link, &state(asked[0], &[(id.origin(), 1)]));
    bench.tell(link, &chunk(5));
    let position = Some(Position { seq: 0, through: 1 });
    assert!(bench.answers(inbound).contains(&Message::Resume { position, fresh: false }));
    bench.tell(inbound, &frame(1, 7));
    assert_eq!(bench.tat(KEY), 12);
}

#[test]
fn a_state_that_is_ahead_does_not_move_who_tells_frames() {
    let (one, other) = (peer(1, 5), peer(2, 5));
    let (mut bench, _, link) = in_need_of(one);
    let (asked, _) = asked(&bench.answers(link));
    let from_other = bench.greet(other);
    bench.tell(from_other, &frame(1, 5));
    bench.tell(link, &state(asked[0], &[(one.origin(), 1), (other.origin(), 2)]));
    bench.tell(link, &chunk(3));
    bench.tell(from_other, &frame(2, 7));
    assert_eq!(bench.tat(KEY), 12);
    assert_eq!(bench.core.stats().violations, 0);
}

#[test]
fn a_state_does_not_move_who_tells_frames_again() {
    let id = peer(1, 5);
    let (mut bench, _, link) = in_need_of(id);
    let (asked, _) = asked(&bench.answers(link));
    // On a new link the peer is told where to continue, and can; that is on its way.
    let again = bench.greet(id);
    bench.tell(link, &state(asked[0], &[(id.origin(), 1)]));
    bench.tell(link, &chunk(5));
    bench.tell(again, &frame(1, 5));
    bench.tell(again, &frame(2, 7));
    assert_eq!(bench.tat(KEY), 12);
    assert_eq!(bench.core.stats().violations, 0);
}

#[test]
fn a_state_that_lags_behind_does_not_move_a_position_back() {
    let (one, other) = (peer(1, 5), peer(2, 5));
    let (mut bench, _, link) = in_need_of(one);
    let (asked, _) = asked(&bench.answers(link));
    let from_other = bench.greet(other);
    bench.tell(from_other, &frame(1, 5));
    bench.tell(from_other, &frame(2, 7));
    bench.core.closed(bench.now(), from_other);
    bench.tell(link, &state(asked[0], &[(one.origin(), 1), (other.origin(), 1)]));
    bench.tell(link, &chunk(3));
    let again = bench.greet(other);
    let position = Some(Position { seq: 2, through: 2 });
    assert!(bench.answers(again).contains(&Message::Resume { position, fresh: false }));
}
