//! What a node reports of its peers.

use std::time::Duration;

use super::harness::Harness;
use super::identity::say;
use super::world::addr;
use crate::protocol::bounds::VERSION;
use crate::protocol::stats::LinkState;
use crate::protocol::wire::{Message, Position};
use crate::protocol::{Nanos, NodeId, Options, PeerStats, Subject};

const KEY: (u64, u64) = (1, 1);
const SECOND: Nanos = 1_000_000_000;

fn peer() -> NodeId {
    NodeId::new(addr(1), 5)
}

fn only(harness: &Harness) -> PeerStats {
    let peers = harness.core.peers(harness.now());
    assert_eq!(peers.len(), 1);
    peers[0].clone()
}

fn admit(harness: &mut Harness, debt: Nanos) {
    harness.admit(KEY, debt);
    harness.core.flush(harness.now());
}

#[test]
fn what_a_peer_has_not_acknowledged_is_reported_with_its_age() {
    let mut harness = Harness::with(Options { log_age: 2 * SECOND, ..Options::default() });
    harness.greet(peer());
    let link = harness.welcome(peer());
    assert_eq!(only(&harness).link, LinkState::Open);
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    assert_eq!((only(&harness).link, only(&harness).unacked_batches), (LinkState::Flowing, 0));
    for debt in [5, 7, 9] {
        harness.tick(SECOND);
        admit(&mut harness, debt * SECOND);
    }
    let stats = only(&harness);
    assert_eq!((stats.unacked_batches, stats.unacked_debt.as_secs()), (3, 21));
    assert_eq!((stats.unacked_for.as_secs(), stats.frames_sent), (2, 3));
    harness.deliver(link, &Message::Ack { number: 1 });
    let stats = only(&harness);
    assert_eq!((stats.unacked_batches, stats.unacked_debt.as_secs()), (2, 16));
    assert_eq!(stats.unacked_for.as_secs(), 1);
    // The log does not keep them any more.
    harness.tick(3 * SECOND);
    admit(&mut harness, 2 * SECOND);
    let stats = only(&harness);
    assert_eq!((stats.unacked_batches, stats.unacked_debt.as_secs()), (3, 18));
    assert_eq!(stats.unacked_for.as_secs(), 4);
    assert!(stats.bytes_sent > 0 && stats.bytes_received > 0);
    // A new link continues where the peer stands, with what it had been sent.
    harness.core.closed(harness.now(), link);
    assert_eq!(only(&harness).link, LinkState::Waiting);
    harness.tick(SECOND);
    let link = harness.welcome(peer());
    let position = Some(Position { through: 3, missed: None });
    harness.deliver(link, &Message::Resume { position, fresh: false });
    let stats = only(&harness);
    assert_eq!((stats.unacked_batches, stats.unacked_debt.as_secs()), (1, 2));
    assert_eq!(stats.frames_resent, 1);
}

#[test]
fn a_peer_is_as_stale_as_its_last_word_by_its_clock() {
    let mut harness = Harness::new();
    let link = harness.greet(peer());
    assert_eq!(only(&harness).staleness, Some(Duration::ZERO));
    harness.pass(3 * SECOND);
    assert_eq!(only(&harness).staleness, Some(Duration::from_secs(3)));
    // It was sent two seconds ago.
    harness.deliver(link, &Message::Beat { now: SECOND, delay: None, lag: 0, run_delay: 0 });
    assert_eq!(only(&harness).staleness, Some(Duration::from_secs(2)));
    harness.deliver(link, &harness.batch(1, KEY, 5));
    assert_eq!(only(&harness).frames_received, 1);
}

/// Its wall clock went back, so the life before has the larger generation.
#[test]
fn a_life_that_has_ended_counts_for_no_age_and_no_lag() {
    let before = NodeId { generation: 9, ..peer() };
    let now = NodeId { rank: before.rank + 1, ..peer() };
    let mut harness = Harness::new();
    let link = harness.greet(before);
    say(&mut harness, link, before, Vec::new());
    let usual = harness.core.lag();
    let beat = Message::Beat { now: 0, delay: None, lag: SECOND, run_delay: 0 };
    harness.deliver(link, &beat);
    assert!(harness.core.lag() > usual);
    harness.core.closed(harness.now(), link);
    harness.pass(3 * SECOND);
    let link = harness.greet(now);
    say(&mut harness, link, now, Vec::new());
    assert_eq!(only(&harness).staleness, Some(Duration::ZERO));
    assert_eq!(harness.core.lag(), usual);
}

#[test]
fn a_node_without_a_link_to_the_others_decides_alone() {
    let mut harness = Harness::new();
    harness.tick(SECOND);
    assert!(!harness.core.stats().is_alone, "it knows of no other node");
    let inbound = harness.greet(peer());
    let link = harness.welcome(peer());
    harness.core.closed(harness.now(), link);
    assert!(!harness.core.stats().is_alone, "it has sent its clock");
    harness.core.closed(harness.now(), inbound);
    assert!(harness.core.stats().is_alone);
    // A node that refuses the certificate closes the link after the handshake.
    let refused = harness.core.stats().dials_failed;
    harness.tick(SECOND);
    let link = harness.dial_of(addr(1));
    harness.core.connected(harness.now(), link, Subject::node(addr(1)));
    assert!(harness.core.stats().is_alone, "it is not welcomed");
    harness.core.closed(harness.now(), link);
    assert_eq!(harness.core.stats().dials_failed, refused + 1);
    harness.tick(SECOND);
    let link = harness.welcome(peer());
    let stats = harness.core.stats();
    assert!(!stats.is_alone && stats.alone_for.as_secs() == 2, "{stats:?}");
    harness.deliver(link, &Message::Leaving);
}

/// As where names are not resolved: a cluster may be there that it does not find.
#[test]
fn a_node_whose_seeds_are_not_found_decides_alone() {
    let options = Options { looked_up: true, ..Options::default() };
    let mut harness = Harness::with(options);
    assert!(!harness.core.stats().is_alone, "it has not joined");
    harness.tick(6 * SECOND);
    assert!(harness.core.has_joined() && harness.core.stats().is_alone);
    harness.core.seeds(harness.now(), &[], true);
    harness.tick(SECOND);
    assert!(!harness.core.stats().is_alone, "they name no other node");
    harness.core.seeds(harness.now(), &[], false);
    let link = harness.greet(peer());
    harness.tick(SECOND);
    assert!(!harness.core.stats().is_alone, "it has a link");
    harness.core.closed(harness.now(), link);
    assert!(harness.core.stats().is_alone);
}

/// Batches carry this node's clock, and nothing of what it has of the other's, also when the link
/// is no longer young.
#[test]
fn a_node_that_sends_batches_sends_beats_as_well() {
    let mut harness = Harness::new();
    harness.greet(peer());
    let link = harness.welcome(peer());
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    let mut beats = 0;
    for number in 1..=200 {
        harness.tick(SECOND / 20);
        harness.admit(KEY, SECOND);
        harness.core.flush(harness.now());
        let answers = harness.answers(link);
        let is_beat = |message: &&Message| matches!(message, Message::Beat { .. });
        beats += answers.iter().filter(|message| number > 100 && is_beat(message)).count();
        harness.deliver(link, &Message::Ack { number });
    }
    assert!((2..=3).contains(&beats), "{beats} in 5 s");
}

/// The first beat on a link can say nothing of the peer's clock. Those after it do, soon, and do
/// not go on at that rate.
#[test]
fn a_young_link_carries_beats_soon_and_ever_more_seldom() {
    let mut harness = Harness::new();
    harness.tick(SECOND);
    let inbound = harness.core.accepted(harness.now(), Subject::node(peer().addr)).unwrap();
    let (id, key) = (peer(), super::harness::KEY);
    harness.deliver(inbound, &Message::Hello { version: VERSION, oldest: VERSION, id, key });
    let link = harness.welcome(peer());
    harness.tick(SECOND / 2);
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    let beat = Message::Beat { now: harness.now(), delay: None, lag: 0, run_delay: 0 };
    harness.deliver(inbound, &beat);
    let mut beats = Vec::new();
    let begun = harness.now();
    for _ in 0..10_000 {
        let passed = (harness.now() - begun) / (SECOND / 1_000);
        for answer in harness.answers(link) {
            if let Message::Beat { delay, .. } = answer {
                beats.push((passed, delay.is_some()));
            }
        }
        harness.tick(SECOND / 1_000);
    }
    let at = |ms: u64| (ms, ms > 0);
    assert_eq!(&beats[..6], [at(0), at(10), at(30), at(70), at(150), at(310)], "{beats:?}");
    assert!(beats.iter().filter(|(at, _)| *at >= 4_000).count() <= 3, "{beats:?}");
}
