//! What is reported to an operator.

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

fn reported(harness: &mut Harness) -> Vec<Event> {
    std::iter::from_fn(|| harness.core.poll_event()).collect()
}

#[test]
fn the_states_of_a_member_are_reported_once_each() {
    let mut harness = Harness::new();
    assert_eq!(reported(&mut harness), [Event::Founded]);
    let link = harness.greet(peer());
    gossip(&mut harness, link, peer(), 0);
    harness.tick(SECOND / 2);
    let state = |was, is| Event::Member { id: peer(), was, is };
    assert_eq!(reported(&mut harness), [state(None, MemberState::Alive)]);
    // It does not answer.
    harness.tick(3 * SECOND);
    let suspect = state(Some(MemberState::Alive), MemberState::Suspect);
    assert!(reported(&mut harness).contains(&suspect));
    let for_so_long = harness.core.members()[1].state_for;
    assert!((0..3).contains(&for_so_long.as_secs()), "{for_so_long:?}");
    harness.tick(10 * SECOND);
    let down = state(Some(MemberState::Suspect), MemberState::Down);
    let events = reported(&mut harness);
    assert_eq!(events.iter().filter(|event| **event == down).count(), 1, "{events:?}");
    let back = NodeId { rank: peer().rank + 1, ..peer() };
    gossip(&mut harness, link, back, 0);
    harness.tick(SECOND / 2);
    let returned = Event::Member { id: back, was: Some(MemberState::Down), is: MemberState::Alive };
    assert_eq!(reported(&mut harness), [returned]);
    assert!(harness.core.members()[1].state_for.as_secs() < 1);
}

/// What a node that leaves says of itself comes after what others say of it, or the other way
/// round; nothing else may come after that.
#[test]
fn a_member_that_leaves_is_not_reported_as_down() {
    for is_known_first in [false, true] {
        let mut harness = Harness::new();
        let link = harness.greet(peer());
        gossip(&mut harness, link, peer(), 0);
        harness.tick(SECOND / 2);
        reported(&mut harness);
        if is_known_first {
            let header = foca::Header {
                src: peer(),
                src_incarnation: 0,
                dst: harness.core.me(),
                message: foca::Message::Gossip,
            };
            let updates = vec![foca::Member::down(peer())];
            let packet = MemberPacket { header, updates }.encode().unwrap();
            harness.core.datagram(harness.now(), link, &packet);
            harness.tick(SECOND / 10);
        }
        harness.deliver(link, &Message::Leaving);
        harness.tick(SECOND / 4);
        let left =
            Event::Member { id: peer(), was: Some(MemberState::Alive), is: MemberState::Left };
        let events = reported(&mut harness);
        let members: Vec<_> =
            events.iter().filter(|event| matches!(event, Event::Member { .. })).collect();
        assert_eq!(members, [&left], "{is_known_first}: {events:?}");
    }
}

/// A node that is alone has nothing else to wake for.
#[test]
fn what_follows_an_observation_at_once_is_observed_soon() {
    let mut harness = Harness::new();
    let link = harness.greet(peer());
    gossip(&mut harness, link, peer(), 0);
    harness.tick(SECOND / 2);
    gossip(&mut harness, link, peer(), 0);
    reported(&mut harness);
    harness.deliver(link, &Message::Leaving);
    assert_eq!(reported(&mut harness), []);
    let soon = harness.now() + SECOND / 20;
    assert!(harness.core.deadline().is_some_and(|at| at <= soon));
    harness.tick(SECOND / 20);
    let left = Event::Member { id: peer(), was: Some(MemberState::Alive), is: MemberState::Left };
    assert!(reported(&mut harness).contains(&left));
}

/// Others keep it from being held for down, and forward nothing.
#[test]
fn a_member_that_is_alive_without_a_link_is_reported() {
    let mut harness = Harness::new();
    let inbound = harness.greet(peer());
    let of = |events: Vec<Event>| -> Vec<Event> {
        let is_meant =
            |event: &Event| matches!(event, Event::Unlinked { .. } | Event::Linked { .. });
        events.into_iter().filter(is_meant).collect()
    };
    let mut refuted = 0;
    let mut pass = |harness: &mut Harness, seconds: u16| {
        for _ in 0..seconds {
            refuted += 1;
            gossip(harness, inbound, peer(), refuted);
            harness.tick(SECOND);
        }
        of(reported(harness))
    };
    assert_eq!(pass(&mut harness, 9), []);
    assert_eq!(harness.core.stats().unlinked, 0);
    let events = pass(&mut harness, 50);
    let [Event::Unlinked { addr: of, sends: false, receives: true, passed, all: 1 }] = events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((of, passed.as_secs(), harness.core.stats().unlinked), (addr(1), 10, 1));
    assert_eq!(pass(&mut harness, 20).len(), 1, "again after a minute");
    let link = harness.welcome(peer());
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    assert_eq!(pass(&mut harness, 2), [Event::Linked { addr: addr(1) }]);
    assert_eq!(harness.core.stats().unlinked, 0);
}

#[test]
fn an_earlier_run_at_an_address_is_reported() {
    let mut harness = Harness::new();
    let link = harness.greet(peer());
    gossip(&mut harness, link, peer(), 0);
    harness.tick(SECOND / 2);
    reported(&mut harness);
    let earlier = NodeId { generation: 3, rank: peer().rank + 1, ..peer() };
    let link = harness.greet(earlier);
    gossip(&mut harness, link, earlier, 0);
    harness.tick(SECOND / 2);
    let contended = Event::Contended { id: earlier, before: peer() };
    assert!(reported(&mut harness).contains(&contended));
}

#[test]
fn links_and_their_ends_are_reported() {
    let mut harness = Harness::new();
    let inbound = harness.greet(peer());
    let link = harness.welcome(peer());
    reported(&mut harness);
    harness.core.closed(harness.now(), inbound);
    harness.core.closed(harness.now(), link);
    assert_eq!(reported(&mut harness), [Event::LinkClosed { addr: addr(1) }]);
    harness.tick(2 * SECOND);
    assert!(reported(&mut harness).contains(&Event::Alone));
    let link = harness.welcome(peer());
    let events = reported(&mut harness);
    assert!(events.contains(&Event::LinkOpen { addr: addr(1) }), "{events:?}");
    assert!(events.contains(&Event::NoLongerAlone), "{events:?}");
    // A peer must not send what this node sends.
    harness.deliver(link, &Message::Leaving);
    let events = reported(&mut harness);
    assert!(events.contains(&Event::Violation { addr: Some(addr(1)) }), "{events:?}");
}

#[test]
fn a_node_that_leaves_alone_is_not_together() {
    let mut harness = Harness::new();
    let inbound = harness.greet(peer());
    let link = harness.welcome(peer());
    harness.core.closed(harness.now(), inbound);
    harness.core.closed(harness.now(), link);
    harness.tick(2 * SECOND);
    assert!(reported(&mut harness).contains(&Event::Alone));
    harness.core.leave(harness.now());
    harness.tick(SECOND);
    assert!(!reported(&mut harness).contains(&Event::NoLongerAlone));
}

#[test]
fn a_node_that_speaks_other_versions_is_named() {
    let mut harness = Harness::new();
    let link = harness.core.accepted(harness.now(), Subject::node(addr(1))).unwrap();
    let key = harness.core.hash_key();
    let hello = Message::Hello { version: 900, oldest: 800, id: peer(), key };
    harness.deliver(link, &hello);
    let version = Event::VersionMismatch { addr: addr(1), oldest: 800, newest: 900 };
    assert!(reported(&mut harness).contains(&version));
    assert_eq!(harness.core.stats().violations, 1);
}
