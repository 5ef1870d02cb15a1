//! A node that leaves waits for the peers that are alive, and for no others.

use super::harness::Harness;
use super::world::addr;
use crate::protocol::wire::{Message, Position};
use crate::protocol::{Nanos, NodeId, Options};

const KEY: (u64, u64) = (1, 1);
const SECOND: Nanos = 1_000_000_000;

fn peer() -> NodeId {
    NodeId::new(addr(1), 5)
}

fn admit(harness: &mut Harness) {
    harness.admit(KEY, 60 * SECOND);
    harness.core.flush(harness.now());
}

/// A founder that knows the peer as a member, by a datagram on a link that is over, and has begun
/// to dial it.
fn dialling() -> Harness {
    let mut harness = Harness::new();
    let link = harness.greet(peer());
    harness.gossip(link, peer());
    harness.core.closed(harness.now(), link);
    harness
}

#[test]
fn a_member_that_is_still_being_dialled_is_waited_for() {
    let mut harness = dialling();
    assert!(!harness.core.is_acknowledged(), "without a link it would miss `Leaving`");
    admit(&mut harness);
    assert!(!harness.core.is_acknowledged(), "being dialled");
    let link = harness.welcome(peer());
    assert!(!harness.core.is_acknowledged(), "has not sent its position");
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    assert!(!harness.core.is_acknowledged(), "the frame is in flight");
    harness.deliver(link, &Message::Ack { number: 1 });
    assert!(harness.core.is_acknowledged());
    assert_eq!(harness.core.stats().violations, 0);
}

#[test]
fn a_member_that_needs_the_state_first_is_waited_for() {
    let mut harness = dialling();
    let link = harness.welcome(peer());
    assert!(harness.core.is_acknowledged(), "there is nothing to acknowledge");
    admit(&mut harness);
    // It has frames of a queue that is gone, so this node announces a gap.
    let position = Some(Position { through: 9, missed: None });
    harness.deliver(link, &Message::Resume { position, fresh: false });
    assert!(harness.answers(link).contains(&Message::Gap));
    assert!(!harness.core.is_acknowledged());
}

#[test]
fn a_member_that_is_down_is_not_waited_for() {
    let mut harness = dialling();
    admit(&mut harness);
    let dialled = harness.dial_of(peer().addr);
    harness.core.closed(harness.now(), dialled);
    assert!(!harness.core.is_acknowledged(), "alive, and dialled again soon");
    harness.tick(20 * SECOND);
    assert!(harness.core.is_acknowledged());
}

#[test]
fn a_seed_is_waited_for_until_the_first_dial_fails() {
    let mut harness = Harness::with(Options { join: vec![addr(1)], ..Options::default() });
    assert!(harness.core.is_acknowledged(), "nothing was admitted");
    admit(&mut harness);
    assert!(!harness.core.is_acknowledged());
    let dialled = harness.dial_of(peer().addr);
    harness.core.closed(harness.now(), dialled);
    assert!(harness.core.is_acknowledged());
}

/// Its peers go on, so it has words to agree on, and answers, until it is gone.
#[test]
fn what_a_node_sends_while_it_leaves_is_not_waited_for() {
    let mut harness = Harness::new();
    harness.greet(peer());
    let link = harness.welcome(peer());
    let position = Some(Position { through: 0, missed: None });
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    admit(&mut harness);
    assert!(!harness.core.is_acknowledged());
    // It asks for a batch, before the one before is acknowledged.
    harness.deliver(link, &Message::Resume { position, fresh: false });
    harness.tick(SECOND);
    let numbers = harness.answers(link).into_iter().filter_map(|message| match message {
        Message::Batch { number, .. } => Some(number),
        _ => None,
    });
    assert_eq!(numbers.max(), Some(2));
    harness.deliver(link, &Message::Ack { number: 1 });
    assert!(harness.core.is_acknowledged());
    assert_eq!(harness.core.stats().violations, 0);
}

/// All nodes of a cluster are stopped at once: each has said that it leaves, and will not be back.
#[test]
fn a_seed_that_has_left_is_not_waited_for() {
    let mut harness = Harness::with(Options { join: vec![addr(1)], ..Options::default() });
    let inbound = harness.greet(peer());
    let link = harness.welcome(peer());
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    admit(&mut harness);
    assert!(!harness.core.is_acknowledged(), "the frame is in flight");
    harness.deliver(inbound, &Message::Leaving);
    assert!(harness.core.is_acknowledged());
    assert_eq!(harness.core.stats().violations, 0);
}
