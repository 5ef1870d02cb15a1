//! What an operator is told.

use super::harness::Harness;
use super::world::addr;
use crate::member::MemberState;
use crate::protocol::wire::{MemberPacket, Message};
use crate::protocol::{Event, LinkId, Nanos, NodeId, Subject};

const SECOND: Nanos = 1_000_000_000;

fn peer() -> NodeId {
    NodeId::new(addr(1), 5)
}

/// The peer says that it is there.
fn gossip(harness: &mut Harness, link: LinkId, src: NodeId, src_incarnation: u16) {
    let dst = harness.core.me();
    let header = foca::Header { src, src_incarnation, dst, message: foca::Message::Gossip };
    let packet = MemberPacket { header, updates: Vec::new() }.encode().unwrap();
    harness.core.datagram(harness.now(), link, &packet);
}

fn told(harness: &mut Harness) -> Vec<Event> {
    std::iter::from_fn(|| harness.core.poll_event()).collect()
}

#[test]
fn the_states_of_a_member_are_told_once_each() {
    let mut harness = Harness::new();
    assert_eq!(told(&mut harness), [Event::Founded]);
    let link = harness.greet(peer());
    gossip(&mut harness, link, peer(), 0);
    harness.tick(SECOND / 2);
    let state = |was, is| Event::Member { id: peer(), was, is };
    assert_eq!(told(&mut harness), [state(None, MemberState::Alive)]);
    // It does not answer.
    harness.tick(3 * SECOND);
    let suspect = state(Some(MemberState::Alive), MemberState::Suspect);
    assert!(told(&mut harness).contains(&suspect));
    let for_so_long = harness.core.members()[1].state_for;
    assert!((0..3).contains(&for_so_long.as_secs()), "{for_so_long:?}");
    harness.tick(10 * SECOND);
    let down = state(Some(MemberState::Suspect), MemberState::Down);
    let events = told(&mut harness);
    assert_eq!(events.iter().filter(|event| **event == down).count(), 1, "{events:?}");
    let back = NodeId { rank: peer().rank + 1, ..peer() };
    gossip(&mut harness, link, back, 0);
    harness.tick(SECOND / 2);
    let returned = Event::Member { id: back, was: Some(MemberState::Down), is: MemberState::Alive };
    assert_eq!(told(&mut harness), [returned]);
    assert!(harness.core.members()[1].state_for.as_secs() < 1);
}

#[test]
fn links_and_their_ends_are_told() {
    let mut harness = Harness::new();
    let inbound = harness.greet(peer());
    let link = harness.welcome(peer());
    told(&mut harness);
    harness.core.closed(harness.now(), inbound);
    harness.core.closed(harness.now(), link);
    assert_eq!(told(&mut harness), [Event::LinkClosed { addr: addr(1) }]);
    harness.tick(2 * SECOND);
    assert!(told(&mut harness).contains(&Event::Alone));
    let link = harness.welcome(peer());
    let events = told(&mut harness);
    assert!(events.contains(&Event::LinkOpen { addr: addr(1) }), "{events:?}");
    assert!(events.contains(&Event::Together), "{events:?}");
    // A peer must not send what this node sends.
    harness.deliver(link, &Message::Leaving);
    let events = told(&mut harness);
    assert!(events.contains(&Event::Violation { addr: Some(addr(1)) }), "{events:?}");
}

#[test]
fn a_node_that_speaks_other_versions_is_named() {
    let mut harness = Harness::new();
    let link = harness.core.accepted(harness.now(), Subject::node(addr(1))).unwrap();
    let key = harness.core.hash_key();
    let hello = Message::Hello { version: 900, oldest: 800, id: peer(), key };
    harness.deliver(link, &hello);
    let version = Event::Version { addr: addr(1), oldest: 800, newest: 900 };
    assert!(told(&mut harness).contains(&version));
    assert_eq!(harness.core.stats().violations, 1);
}
