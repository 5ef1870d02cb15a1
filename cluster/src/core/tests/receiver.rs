//! One core and a peer made by hand, for what a well-behaved peer never does.

use super::bench::Bench;
use super::world::addr;
use crate::core::host::Delta;
use crate::core::wire::{MemberPacket, Message, Position, encode};
use crate::core::{Action, LinkId, MAX_PEERS, NodeId};

const KEY: (u64, u64) = (1, 1);

fn peer() -> NodeId {
    NodeId::new(addr(1), 5)
}

fn frame(seq: u64, debt: u64) -> Message {
    let body = encode(&vec![Delta { limit: KEY.0, key: KEY.1, debt }]).unwrap();
    Message::Frame { seq, through: Some(seq), age: 0, body }
}

/// A core that founded its cluster, and a link on which the peer has said hello.
fn greeted() -> (Bench, LinkId) {
    let mut bench = Bench::new();
    let link = bench.greet(peer());
    (bench, link)
}

#[test]
fn a_repeated_frame_is_acknowledged_and_not_applied_again() {
    let (mut bench, link) = greeted();
    bench.tell(link, &frame(1, 5));
    bench.tell(link, &frame(2, 7));
    bench.tell(link, &frame(1, 5));
    bench.tell(link, &frame(2, 7));
    assert_eq!(bench.tat(KEY), 12);
    assert_eq!(bench.core.stats().frames_repeated, 2);
    assert_eq!(bench.answers(link).last(), Some(&Message::Ack { seq: 2 }));
}

#[test]
fn after_a_reconnect_the_peer_is_told_where_to_continue() {
    let (mut bench, link) = greeted();
    bench.tell(link, &frame(1, 5));
    let again = bench.greet(peer());
    let position = Some(Position { seq: 1, through: 1 });
    let resume = Message::Resume { position, fresh: true };
    assert!(bench.answers(again).contains(&resume));
    // What the old link still delivers does not count.
    bench.tell(link, &frame(2, 7));
    assert_eq!(bench.tat(KEY), 5);
    bench.tell(again, &frame(2, 7));
    assert_eq!(bench.tat(KEY), 12);
}

#[test]
fn a_missing_frame_ends_the_link() {
    let (mut bench, link) = greeted();
    bench.tell(link, &frame(1, 5));
    bench.tell(link, &frame(3, 7));
    assert_eq!(bench.tat(KEY), 5);
    assert_eq!(bench.core.stats().violations, 1);
    bench.tell(link, &frame(2, 7));
    assert_eq!(bench.tat(KEY), 5);
}

#[test]
fn a_new_life_is_numbered_anew() {
    let (mut bench, link) = greeted();
    bench.tell(link, &frame(1, 5));
    let reborn = bench.greet(NodeId::new(addr(1), 6));
    let nothing = Message::Resume { position: None, fresh: true };
    assert!(bench.answers(reborn).contains(&nothing));
    bench.tell(reborn, &frame(1, 7));
    assert_eq!(bench.tat(KEY), 12);
    assert_eq!(bench.core.stats().origins, 1);
}

#[test]
fn nobody_is_heard_before_saying_hello() {
    let mut bench = Bench::new();
    let link = bench.core.accepted(0).unwrap();
    bench.tell(link, &frame(1, 5));
    assert_eq!(bench.tat(KEY), 0);
    assert_eq!(bench.core.stats().violations, 1);
}

#[test]
fn a_late_frame_is_reduced_by_what_drained_since() {
    const SECOND: u64 = 1_000_000_000;
    let (mut bench, link) = greeted();
    bench.pass(100 * SECOND);
    let late = |message| match message {
        Message::Frame { seq, through, body, .. } => {
            Message::Frame { seq, through, age: 10 * SECOND, body }
        }
        other => other,
    };
    // On an idle key the word ends where it would have: 20 s of debt, 10 s ago.
    bench.tell(link, &late(frame(1, 20 * SECOND)));
    assert_eq!(bench.tat(KEY), 110 * SECOND);
    // On a busy key 9 of 12 s are forgotten: all but the grace.
    bench.tell(link, &late(frame(2, 12 * SECOND)));
    assert_eq!(bench.tat(KEY), 113 * SECOND);
    bench.tell(link, &late(frame(3, 8 * SECOND)));
    assert_eq!(bench.tat(KEY), 113 * SECOND);
}

#[test]
fn members_beyond_those_that_may_be_dialled_are_counted() {
    let mut bench = Bench::new();
    let members: Vec<NodeId> = (1..MAX_PEERS + 12).map(|n| NodeId::new(addr(n), 5)).collect();
    for (told, some) in members.chunks(20).enumerate() {
        let header = foca::Header {
            src: peer(),
            src_incarnation: 0,
            dst: bench.core.me(),
            message: foca::Message::Gossip,
        };
        let updates = some.iter().copied().map(foca::Member::alive).collect();
        let packet = MemberPacket { header, updates }.encode().unwrap();
        bench.core.datagram(bench.now(), &packet);
        if told < 5 {
            assert_eq!(bench.core.stats().peers_undialled, 0);
        }
    }
    assert_eq!(bench.core.members().len(), MAX_PEERS + 12);
    let actions = std::iter::from_fn(|| bench.core.poll());
    let dialled = actions.filter(|action| matches!(action, Action::Dial { .. })).count();
    assert_eq!((dialled, bench.core.stats().peers_undialled), (MAX_PEERS, 11));
}
