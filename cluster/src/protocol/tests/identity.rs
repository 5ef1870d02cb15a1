//! A member's certificate says its identity, and cannot say another one's.

use super::harness::{self, Harness};
use super::words::SHORT;
use super::world::addr;
use crate::member::MemberState;
use crate::protocol::bounds::VERSION;
use crate::protocol::host::Level;
use crate::protocol::wire::{MemberPacket, Message};
use crate::protocol::{LinkId, NodeId, Subject};

const KEY: (u64, u64) = (1, 1);

fn node(place: usize) -> NodeId {
    NodeId::new(addr(place), 5)
}

fn hello(id: NodeId) -> Message {
    Message::Hello { version: VERSION, oldest: VERSION, id, key: harness::KEY }
}

/// A packet that says it is of `src`, with what it says of others.
fn packet(harness: &Harness, src: NodeId, updates: Vec<foca::Member<NodeId>>) -> Vec<u8> {
    let (dst, message) = (harness.core.me(), foca::Message::Gossip);
    let header = foca::Header { src, src_incarnation: 0, dst, message };
    MemberPacket { header, updates }.encode().unwrap()
}

/// A membership packet from `src` has come on the link.
pub(super) fn say(
    harness: &mut Harness,
    link: LinkId,
    src: NodeId,
    updates: Vec<foca::Member<NodeId>>,
) {
    let packet = packet(harness, src, updates);
    harness.core.datagram(harness.now(), link, &packet);
}

fn state(harness: &Harness, id: NodeId) -> Option<(String, MemberState)> {
    let members = harness.core.members();
    let found = members.into_iter().find(|member| member.addr == id.addr);
    found.map(|member| (member.id, member.state))
}

fn violations(harness: &Harness) -> u64 {
    harness.core.stats().violations
}

#[test]
fn a_node_greets_as_what_its_certificate_says() {
    let mut harness = Harness::new();
    let link = harness.core.accepted(0, Subject::node(addr(1))).unwrap();
    harness.deliver(link, &hello(node(2)));
    assert_eq!((violations(&harness), harness.core.stats().links_in), (1, 0));
    // What it goes on to say does not count anywhere.
    harness.deliver(link, &Message::Beat { now: 0, delay: None, lag: 0, run_delay: 0 });
    harness.deliver(link, &harness.batch(1, KEY, 5));
    assert_eq!((harness.tat(KEY), state(&harness, node(2))), (0, None));

    let any_port = Subject::new([(addr(3).ip(), None)]).unwrap();
    let link = harness.core.accepted(0, any_port).unwrap();
    harness.deliver(link, &hello(node(3)));
    assert_eq!(harness.core.stats().links_in, 1);
}

#[test]
fn a_node_answers_as_what_its_certificate_says() {
    let mut harness = Harness::new();
    let _ = harness.greet(node(1));
    let link = harness.dial_of(node(1).addr);
    harness.core.connected(0, link, Subject::node(addr(2)));
    let (id, key, joined) = (node(1), harness::KEY, true);
    let welcome = Message::Welcome { version: VERSION, id, rank_floor: 0, key, joined };
    harness.deliver(link, &welcome);
    assert_eq!((violations(&harness), harness.core.stats().links_out), (1, 0));
}

#[test]
fn nothing_counts_before_the_greeting() {
    let mut harness = Harness::new();
    let _ = harness.greet(node(1));
    let link = harness.dial_of(node(1).addr);
    harness.core.connected(0, link, Subject::node(addr(1)));
    harness.deliver(link, &Message::Ack { number: 1 });
    assert_eq!((violations(&harness), harness.core.stats().links_out), (1, 0));

    // A datagram may overtake it.
    let mut harness = Harness::new();
    let link = harness.core.accepted(0, Subject::node(addr(1))).unwrap();
    say(&mut harness, link, node(1), Vec::new());
    assert_eq!((violations(&harness), state(&harness, node(1))), (0, None));
}

#[test]
fn a_packet_is_of_the_node_at_the_end_of_its_link() {
    for src in [node(2), NodeId { generation: 6, ..node(1) }] {
        let mut harness = Harness::new();
        let link = harness.greet(node(1));
        say(&mut harness, link, src, Vec::new());
        assert_eq!((violations(&harness), harness.core.stats().links_in), (1, 0), "{src}");
        assert_eq!(state(&harness, src), None, "{src}");
    }
}

#[test]
fn hearsay_does_not_change_the_identity_of_a_live_node() {
    let mut harness = Harness::new();
    let (real, liar) = (node(1), node(2));
    let (of_real, of_liar) = (harness.greet(real), harness.greet(liar));
    say(&mut harness, of_real, real, Vec::new());
    for round in 0..50_u64 {
        // A rank from which it would not return, and a later life.
        let claims = [
            NodeId { rank: real.rank + (round << 40) + 2, ..real },
            NodeId { rank: real.rank.wrapping_add(1 << 62), ..real },
            NodeId { generation: 9 + round, rank: 9 + round, ..real },
        ];
        say(&mut harness, of_liar, liar, claims.map(foca::Member::alive).to_vec());
        say(&mut harness, of_real, real, Vec::new());
        let expected = Some((real.to_string(), MemberState::Alive));
        assert_eq!(state(&harness, real), expected, "round {round}");
    }
    assert_eq!((violations(&harness), harness.core.stats().member_claims_refused), (0, 150));
}

#[test]
fn a_node_that_is_said_to_be_down_returns() {
    let mut harness = Harness::new();
    let (mut real, liar) = (node(1), node(2));
    let (of_real, of_liar) = (harness.greet(real), harness.greet(liar));
    for round in 0..20 {
        say(&mut harness, of_liar, liar, vec![foca::Member::down(real)]);
        assert_eq!(state(&harness, real).unwrap().1, MemberState::Down, "round {round}");
        // It learns of it, takes the next rank, and says so.
        real.rank += 1;
        say(&mut harness, of_real, real, Vec::new());
        assert_eq!(state(&harness, real).unwrap().1, MemberState::Alive, "round {round}");
        // Meanwhile it has counted.
        let number = round + 1;
        harness.deliver(of_real, &harness.batch(number, KEY, 5));
        assert_eq!(harness.tat(KEY), harness.now() + 5 * number);
    }
}

/// While it had no link, another node claimed its rank.
#[test]
fn a_node_learns_the_rank_that_others_invented() {
    for rank in [6, 1 << 62, (1 << 63) + 4, u64::MAX] {
        let mut harness = Harness::new();
        let (real, liar) = (node(1), node(2));
        let of_liar = harness.greet(liar);
        let claimed = NodeId { rank, ..real };
        say(&mut harness, of_liar, liar, vec![foca::Member::alive(claimed)]);
        let link = harness.greet(real);
        let floor = harness.answers(link).iter().find_map(|message| match message {
            Message::Welcome { rank_floor, .. } => Some(*rank_floor),
            _ => None,
        });
        let behind = claimed.outranks(real.rank);
        assert_eq!(floor, Some(if behind { rank } else { 0 }));
        let next = if behind { rank.wrapping_add(1).max(1) } else { real.rank };
        say(&mut harness, link, NodeId { rank: next, ..real }, Vec::new());
        let members = harness.core.members();
        let listed = members.iter().find(|member| member.addr == real.addr).unwrap();
        assert_eq!(listed.state, MemberState::Alive);
        // It stays so, whatever is claimed.
        say(
            &mut harness,
            of_liar,
            liar,
            vec![foca::Member::alive(NodeId { rank: rank.wrapping_add(1 << 61), ..real })],
        );
        assert_eq!(harness.core.stats().member_claims_refused, 1, "{rank}");
    }
}

#[test]
fn a_state_owes_no_more_than_a_node_can() {
    let mut harness = Harness::new();
    let id = node(1);
    let inbound = harness.greet(id);
    let link = harness.welcome(id);
    harness.deliver(inbound, &Message::Gap);
    let request = harness.answers(link).iter().find_map(|message| match message {
        Message::StateRequest { request, .. } => Some(*request),
        _ => None,
    });
    let request = request.unwrap();
    harness.deliver(link, &Message::State { request, vector: vec![(id.origin(), 1)] });
    let entries = vec![Level { limit: SHORT, key: 1, debt: u64::MAX }];
    harness.deliver(link, &Message::StateChunk { last: true, entries });
    let most = crate::protocol::Host::most_debt(harness.core.host_mut(), SHORT);
    assert_eq!(harness.tat((SHORT, 1)), harness.now() + most);
    assert_eq!(harness.core.stats().debts_refused, 1);
}
