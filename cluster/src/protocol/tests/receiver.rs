//! One node and a simulated peer, for what a correct peer never does.

use super::harness::Harness;
use super::world::addr;
use crate::protocol::host::Delta;
use crate::protocol::wire::{MemberPacket, Message, Position, encode};
use crate::protocol::{Action, LinkId, MAX_PEERS, NodeId};

const KEY: (u64, u64) = (1, 1);

fn peer() -> NodeId {
    NodeId::new(addr(1), 5)
}

fn frame(seq: u64, debt: u64) -> Message {
    let body = encode(&vec![Delta { limit: KEY.0, key: KEY.1, debt }]).unwrap();
    Message::Frame { seq, through: Some(seq), age: 0, body }
}

/// A founder, and a link on which the peer has sent `Hello`.
fn greeted() -> (Harness, LinkId) {
    let mut harness = Harness::new();
    let link = harness.greet(peer());
    (harness, link)
}

#[test]
fn a_repeated_frame_is_acknowledged_and_not_applied_again() {
    let (mut harness, link) = greeted();
    harness.deliver(link, &frame(1, 5));
    harness.deliver(link, &frame(2, 7));
    harness.deliver(link, &frame(1, 5));
    harness.deliver(link, &frame(2, 7));
    assert_eq!(harness.tat(KEY), 12);
    assert_eq!(harness.core.stats().frames_repeated, 2);
    assert_eq!(harness.answers(link).last(), Some(&Message::Ack { seq: 2 }));
}

#[test]
fn after_a_reconnect_the_peer_is_sent_its_position() {
    let (mut harness, link) = greeted();
    harness.deliver(link, &frame(1, 5));
    let again = harness.greet(peer());
    let position = Some(Position { seq: 1, through: 1 });
    let resume = Message::Resume { position, fresh: true };
    assert!(harness.answers(again).contains(&resume));
    // What the old link still delivers does not count.
    harness.deliver(link, &frame(2, 7));
    assert_eq!(harness.tat(KEY), 5);
    harness.deliver(again, &frame(2, 7));
    assert_eq!(harness.tat(KEY), 12);
}

#[test]
fn a_missing_frame_ends_the_link() {
    let (mut harness, link) = greeted();
    harness.deliver(link, &frame(1, 5));
    harness.deliver(link, &frame(3, 7));
    assert_eq!(harness.tat(KEY), 5);
    assert_eq!(harness.core.stats().violations, 1);
    harness.deliver(link, &frame(2, 7));
    assert_eq!(harness.tat(KEY), 5);
}

#[test]
fn a_new_generation_is_numbered_anew() {
    let (mut harness, link) = greeted();
    harness.deliver(link, &frame(1, 5));
    let restarted = harness.greet(NodeId::new(addr(1), 6));
    let nothing = Message::Resume { position: None, fresh: true };
    assert!(harness.answers(restarted).contains(&nothing));
    harness.deliver(restarted, &frame(1, 7));
    assert_eq!(harness.tat(KEY), 12);
    assert_eq!(harness.core.stats().origins, 1);
}

#[test]
fn a_frame_before_hello_is_a_violation() {
    let mut harness = Harness::new();
    let link = harness.core.accepted(0).unwrap();
    harness.deliver(link, &frame(1, 5));
    assert_eq!(harness.tat(KEY), 0);
    assert_eq!(harness.core.stats().violations, 1);
}

#[test]
fn a_late_frame_is_reduced_by_what_drained_since() {
    const SECOND: u64 = 1_000_000_000;
    let (mut harness, link) = greeted();
    harness.pass(100 * SECOND);
    let late = |message| match message {
        Message::Frame { seq, through, body, .. } => {
            Message::Frame { seq, through, age: 10 * SECOND, body }
        }
        other => other,
    };
    // On an idle key the word ends where it would have: 20 s of debt, 10 s ago.
    harness.deliver(link, &late(frame(1, 20 * SECOND)));
    assert_eq!(harness.tat(KEY), 110 * SECOND);
    // On a busy key 9 of 12 s are forgotten: all but the grace.
    harness.deliver(link, &late(frame(2, 12 * SECOND)));
    assert_eq!(harness.tat(KEY), 113 * SECOND);
    harness.deliver(link, &late(frame(3, 8 * SECOND)));
    assert_eq!(harness.tat(KEY), 113 * SECOND);
}

#[test]
fn members_beyond_those_that_may_be_dialled_are_counted() {
    let mut harness = Harness::new();
    let members: Vec<NodeId> = (1..MAX_PEERS + 12).map(|n| NodeId::new(addr(n), 5)).collect();
    for (packets, some) in members.chunks(20).enumerate() {
        let header = foca::Header {
            src: peer(),
            src_incarnation: 0,
            dst: harness.core.me(),
            message: foca::Message::Gossip,
        };
        let updates = some.iter().copied().map(foca::Member::alive).collect();
        let packet = MemberPacket { header, updates }.encode().unwrap();
        harness.core.datagram(harness.now(), &packet);
        if packets < 5 {
            assert_eq!(harness.core.stats().peers_undialled, 0);
        }
    }
    assert_eq!(harness.core.members().len(), MAX_PEERS + 12);
    let actions = std::iter::from_fn(|| harness.core.poll());
    let dialled = actions.filter(|action| matches!(action, Action::Dial { .. })).count();
    assert_eq!((dialled, harness.core.stats().peers_undialled), (MAX_PEERS, 11));
}
