//! One node and a simulated peer, for what a correct peer never does.

use super::harness::{Harness, KEY as KEY_OF_ALL};
use super::network::MS;
use super::words::{QUICK, SHORT};
use super::world::addr;
use crate::member::MemberState;
use crate::protocol::bounds::{MAX_INBOUND, VERSION};
use crate::protocol::host::Level;
use crate::protocol::wire::{Agreement, Group, MemberPacket, Message, Position};
use crate::protocol::{Action, Change, LinkId, MAX_PEERS, Nanos, NodeId, Origin, Subject};

const KEY: (u64, u64) = (1, 1);
const SECOND: Nanos = 1_000 * MS;

fn peer() -> NodeId {
    NodeId::new(addr(1), 5)
}

/// A founder, and a link on which the peer has sent `Hello`.
fn greeted() -> (Harness, LinkId) {
    let mut harness = Harness::new();
    let link = harness.greet(peer());
    (harness, link)
}

/// The key owes less here than was given back there: another node has reset it too.
#[test]
fn what_was_consumed_after_a_reset_counts() {
    for owed in [0, 30 * MS, 100 * MS] {
        let (mut harness, link) = greeted();
        harness.tick(SECOND);
        harness.admit(KEY, owed);
        let reset = Change::new(-(100 * MS).cast_signed(), 0);
        let Change { debt, date } = reset.then(Change::new((20 * MS).cast_signed(), 0));
        let groups = vec![Group { limit: KEY.0, changes: vec![(KEY.1, debt, -date)] }];
        let (at, levels) = (harness.now(), Agreement::default());
        harness.deliver(link, &Message::Batch { number: 1, at, groups, levels });
        assert_eq!(harness.tat(KEY), at + 20 * MS, "{owed}");
    }
}

#[test]
fn a_repeated_frame_is_acknowledged_and_not_applied_again() {
    let (mut harness, link) = greeted();
    harness.deliver(link, &harness.batch(1, KEY, 5));
    harness.deliver(link, &harness.batch(2, KEY, 7));
    harness.deliver(link, &harness.batch(1, KEY, 5));
    harness.deliver(link, &harness.batch(2, KEY, 7));
    assert_eq!(harness.tat(KEY), 12);
    assert_eq!(harness.core.stats().frames_repeated, 2);
    assert_eq!(harness.answers(link).last(), Some(&Message::Ack { number: 2 }));
}

#[test]
fn after_a_reconnect_the_peer_is_sent_its_position() {
    let (mut harness, link) = greeted();
    harness.deliver(link, &harness.batch(1, KEY, 5));
    let again = harness.greet(peer());
    let position = Some(Position { through: 1, missed: None });
    let resume = Message::Resume { position, fresh: true };
    assert!(harness.answers(again).contains(&resume));
    // What the old link still delivers does not count.
    harness.deliver(link, &harness.batch(2, KEY, 7));
    assert_eq!(harness.tat(KEY), 5);
    harness.deliver(again, &harness.batch(2, KEY, 7));
    assert_eq!(harness.tat(KEY), 12);
}

#[test]
fn a_missing_frame_ends_the_link() {
    let (mut harness, link) = greeted();
    harness.deliver(link, &harness.batch(1, KEY, 5));
    harness.deliver(link, &harness.batch(3, KEY, 7));
    assert_eq!(harness.tat(KEY), 5);
    assert_eq!(harness.core.stats().violations, 1);
    harness.deliver(link, &harness.batch(2, KEY, 7));
    assert_eq!(harness.tat(KEY), 5);
}

#[test]
fn a_new_generation_is_numbered_anew() {
    let (mut harness, link) = greeted();
    harness.deliver(link, &harness.batch(1, KEY, 5));
    let restarted = harness.greet(NodeId::new(addr(1), 6));
    let nothing = Message::Resume { position: None, fresh: true };
    assert!(harness.answers(restarted).contains(&nothing));
    harness.deliver(restarted, &harness.batch(1, KEY, 7));
    assert_eq!(harness.tat(KEY), 12);
}

/// A node that takes over the state knows by that what it contains.
#[test]
fn a_state_says_how_far_the_last_generations_were_applied() {
    let mut harness = Harness::new();
    for generation in 5..9 {
        let link = harness.greet(NodeId::new(addr(1), generation));
        harness.deliver(link, &harness.batch(1, KEY, 5));
    }
    let asker = harness.greet(NodeId::new(addr(2), 5));
    harness.deliver(asker, &Message::StateRequest { request: 1 });
    let vector = harness.answers(asker).into_iter().find_map(|message| match message {
        Message::State { vector, .. } => Some(vector),
        _ => None,
    });
    let of = |(origin, through): &(Origin, u64)| {
        (origin.addr == addr(1)).then_some((origin.generation, *through))
    };
    let kept: Vec<_> = vector.unwrap().iter().filter_map(of).collect();
    assert_eq!(kept, [(6, 1), (7, 1), (8, 1)]);
}

#[test]
fn a_frame_before_hello_is_a_violation() {
    let mut harness = Harness::new();
    let link = harness.core.accepted(0, Subject::node(addr(1))).unwrap();
    harness.deliver(link, &harness.batch(1, KEY, 5));
    assert_eq!(harness.tat(KEY), 0);
    assert_eq!(harness.core.stats().violations, 1);
}

#[test]
fn what_comes_late_is_reduced_by_what_drained_since() {
    const SECOND: i64 = 1_000_000_000;
    const LATE: (u64, u64) = (SHORT, 1);
    let mut harness = Harness::new();
    harness.pass(100_000_000_000);
    let link = harness.greet(peer());
    let batch = |harness: &Harness, number, debt, ago| {
        let groups = vec![Group { limit: LATE.0, changes: vec![(LATE.1, debt, ago)] }];
        Message::Batch { number, at: harness.now(), groups, levels: Agreement::default() }
    };
    // Within the burst tolerance it is applied whole, also to a busy key.
    harness.deliver(link, &batch(&harness, 1, 6 * SECOND, SECOND));
    harness.deliver(link, &batch(&harness, 2, 2 * SECOND, SECOND));
    assert_eq!(harness.tat(LATE), 107_000_000_000);
    // Of 12 s that were consumed 10 s ago 2 s are left; of 8 s nothing is.
    harness.deliver(link, &batch(&harness, 3, 12 * SECOND, 10 * SECOND));
    harness.deliver(link, &batch(&harness, 4, 8 * SECOND, 20 * SECOND));
    assert_eq!(harness.tat(LATE), 109_000_000_000);
    // A refund that comes late lapses.
    harness.deliver(link, &batch(&harness, 5, -SECOND, 10 * SECOND));
    assert_eq!(harness.tat(LATE), 109_000_000_000);
    harness.deliver(link, &batch(&harness, 6, -SECOND, 0));
    assert_eq!(harness.tat(LATE), 108_000_000_000);
    assert_eq!(harness.core.stats().deltas_late, 3);
}

/// Two nodes each consumed half of the limit in a partition. Of each only the sum is sent, as if it
/// had been consumed without a pause at last: both together would not have drained since.
#[test]
fn sums_of_what_was_missed_are_not_taken_for_recent() {
    const HOT: (u64, u64) = (QUICK, 1);
    let mut harness = Harness::new();
    let links = [1, 2].map(|place| harness.greet(NodeId::new(addr(place), 5)));
    harness.admit(HOT, MS);
    harness.core.recorded(harness.now());
    harness.tick(900 * MS);
    let [debt, ago] = [600 * MS, 800 * MS].map(u64::cast_signed);
    for link in links {
        let groups = vec![Group { limit: HOT.0, changes: vec![(HOT.1, debt, ago)] }];
        let at = harness.now();
        harness.deliver(link, &Message::Missed { to: 9, at, upto: None, groups });
    }
    assert!(harness.tat(HOT) <= harness.now());
}

#[test]
fn what_is_late_is_not_held_back_for_ever() {
    let mut harness = Harness::new();
    harness.pass(100_000_000_000);
    let link = harness.greet(peer());
    let groups = vec![Group { limit: SHORT, changes: vec![(1, 12_000_000_000, 0)] }];
    let levels = Agreement::default();
    let at = harness.now() - 10_000_000_000;
    let batch = Message::Batch { number: 1, at, groups, levels };
    harness.deliver(link, &batch);
    assert_eq!(harness.tat((SHORT, 1)), 0, "the origin may send more of it");
    harness.tick(1_000_000_000);
    harness.deliver(link, &Message::Beat { now: harness.now(), delay: None, lag: 0, run_delay: 0 });
    assert_eq!(harness.tat((SHORT, 1)), 102_000_000_000);
}

/// Both halves of a move are the same, so the sum of the words stays.
#[test]
fn of_two_nodes_one_compares_and_sends_the_other_its_part() {
    const MS: u64 = 1_000_000;
    let key = (SHORT, 1);
    let (mut harness, inbound) = greeted();
    let link = harness.welcome(peer());
    harness.deliver(link, &Message::Resume { position: None, fresh: false });
    harness.admit(key, 400 * MS);
    harness.core.flush(harness.now());
    let (mut own, mut shifted) = (0, Vec::new());
    for number in 1..=3 {
        let before = harness.tat(key);
        // Without anything of its own the peer owes twice as much.
        let debt = 800 * MS - harness.now();
        let levels = vec![Level { limit: key.0, key: key.1, debt }];
        let cut = vec![(harness.core.me().origin(), 1)];
        let agreement = Agreement { cut, levels, ..Agreement::default() };
        let (at, groups) = (harness.now(), Vec::new());
        harness.deliver(inbound, &Message::Batch { number, at, groups, levels: agreement });
        harness.tick(20 * MS);
        own += harness.tat(key).cast_signed() - before.cast_signed();
        for message in harness.answers(link) {
            if let Message::Batch { levels, .. } = message {
                shifted.extend(levels.shifts.iter().map(|shift| (shift.to, shift.by)));
            }
        }
    }
    assert_eq!(own, 200_000_000, "half of the difference");
    assert_eq!(shifted, [(peer().origin(), -200_000_000)]);
}

#[test]
fn no_node_can_owe_more_than_many_bursts() {
    let (mut harness, link) = greeted();
    let key = (SHORT, 1);
    harness.deliver(link, &harness.batch(1, key, i64::MAX));
    assert_eq!(harness.tat(key), 16_000_000_000);
    assert_eq!(harness.core.stats().debts_refused, 1);
}

#[test]
fn members_beyond_those_that_may_be_dialled_are_counted() {
    let (mut harness, link) = greeted();
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
        harness.core.datagram(harness.now(), link, &packet);
        if packets < 5 {
            assert_eq!(harness.core.stats().peers_undialled, 0);
        }
    }
    assert_eq!(harness.core.members().len(), MAX_PEERS + 12);
    let actions = std::iter::from_fn(|| harness.core.poll());
    let dialled = actions.filter(|action| matches!(action, Action::Dial { .. })).count();
    assert_eq!((dialled, harness.core.stats().peers_undialled), (MAX_PEERS, 11));
}

/// Gossip of `from` about others, on its link.
fn gossip(harness: &mut Harness, (from, link): (NodeId, LinkId), about: &[NodeId]) {
    for some in about.chunks(20) {
        let (dst, message) = (harness.core.me(), foca::Message::Gossip);
        let header = foca::Header { src: from, src_incarnation: 0, dst, message };
        let updates = some.iter().copied().map(foca::Member::alive).collect();
        let packet = MemberPacket { header, updates }.encode().unwrap();
        harness.core.datagram(harness.now(), link, &packet);
    }
}

/// The nodes that are dialled.
fn dialled(harness: &mut Harness) -> Vec<(LinkId, std::net::SocketAddr)> {
    let actions = std::iter::from_fn(|| harness.core.poll());
    let dial = |action| match action {
        Action::Dial { link, addr } => Some((link, addr)),
        _ => None,
    };
    actions.filter_map(dial).collect()
}

#[test]
fn invented_members_take_no_place_of_a_node_that_is_there() {
    let mut harness = Harness::new();
    let invented: Vec<NodeId> = (1..MAX_PEERS + 40).map(|n| NodeId::new(addr(n), 5)).collect();
    let link = harness.greet(invented[0]);
    gossip(&mut harness, (invented[0], link), &invented);
    assert_eq!(dialled(&mut harness).len(), MAX_PEERS);
    // It opens a link, so it is dialled, though no dial has failed yet.
    let real = NodeId::new(addr(MAX_PEERS + 100), 5);
    let _ = harness.greet(real);
    assert!(dialled(&mut harness).iter().any(|(_, addr)| *addr == real.addr));
}

#[test]
fn members_take_turns_at_places_that_lead_nowhere() {
    let mut harness = Harness::new();
    let invented: Vec<NodeId> = (1..MAX_PEERS + 40).map(|n| NodeId::new(addr(n), 5)).collect();
    let link = harness.greet(invented[0]);
    gossip(&mut harness, (invented[0], link), &invented);
    let mut seen = std::collections::BTreeSet::new();
    let waiting = harness.core.stats().peers_undialled;
    for (link, addr) in dialled(&mut harness) {
        seen.insert(addr);
        harness.core.closed(harness.now(), link);
    }
    seen.extend(dialled(&mut harness).iter().map(|(_, addr)| *addr));
    assert_eq!((seen.len() - MAX_PEERS) as u64, waiting, "all of them had a turn");
}

#[test]
fn crashed_nodes_give_their_places_to_new_ones() {
    let mut harness = Harness::new();
    // Each life connects, and is gone.
    for n in 1..=MAX_PEERS {
        let id = NodeId::new(addr(n), 5);
        let inbound = harness.greet(id);
        let link = harness.welcome(id);
        harness.core.closed(harness.now(), link);
        harness.core.closed(harness.now(), inbound);
        harness.pass(1_000_000);
    }
    let id = NodeId::new(addr(MAX_PEERS + 1), 5);
    let _ = harness.greet(id);
    let link = harness.welcome(id);
    harness.admit((SHORT, 1), 5);
    harness.core.flush(harness.now());
    assert!(!harness.answers(link).is_empty());
    assert_eq!(harness.core.stats().peers_undialled, 0);
}

/// A link of a peer whose clock is 3 s ahead, and whose beat was sent `late` ago.
fn first_received(late: Nanos) -> (Harness, LinkId) {
    let mut harness = Harness::new();
    harness.pass(10 * SECOND);
    let link = harness.core.accepted(harness.now(), Subject::node(addr(1))).unwrap();
    let hello = Message::Hello { version: VERSION, oldest: VERSION, id: peer(), key: KEY_OF_ALL };
    harness.deliver(link, &hello);
    let now = harness.now() + 3 * SECOND - late;
    harness.deliver(link, &Message::Beat { now, delay: None, lag: 0, run_delay: 0 });
    (harness, link)
}

/// A batch of a peer whose clock is 3 s ahead, sealed some time ago, of a key that takes 100 ms.
fn sealed(harness: &Harness, number: u64, ago: Nanos) -> Message {
    let groups = vec![Group { limit: QUICK, changes: vec![(1, 20_000_000, 0)] }];
    let at = harness.now() + 3 * SECOND - ago;
    Message::Batch { number, at, groups, levels: Agreement::default() }
}

#[test]
fn what_waited_with_the_first_reading_of_a_clock_is_as_old_as_the_last_shows() {
    let (mut harness, link) = first_received(90 * MS);
    for (number, ago) in [(1, 80 * MS), (2, 50 * MS), (3, 10 * MS)] {
        harness.deliver(link, &sealed(&harness, number, ago));
    }
    assert_eq!(harness.core.stats().deltas_applied, 0);
    harness.tick(10 * MS);
    assert_eq!(harness.core.stats().deltas_applied, 3);
    // The first two drained long ago; the third began at 10 ms before the burst arrived.
    let left = harness.tat((QUICK, 1)) + 10 * MS - harness.now();
    assert!(left.abs_diff(20 * MS) <= MS, "{} us", left / 1_000);
    // From here on batches are taken as they come.
    harness.deliver(link, &sealed(&harness, 4, 0));
    assert_eq!(harness.core.stats().deltas_applied, 4);
}

#[test]
fn what_waits_for_a_clock_is_bounded_and_taken_one_a_step() {
    let (mut harness, link) = first_received(0);
    for number in 1..=256 {
        harness.deliver(link, &sealed(&harness, number, 0));
    }
    harness.pass(5 * MS);
    for taken in 1..=256 {
        harness.core.tick(harness.now());
        assert_eq!(harness.core.stats().deltas_applied, taken);
    }
    let (mut harness, link) = first_received(0);
    for number in 1..=300 {
        harness.deliver(link, &sealed(&harness, number, 0));
    }
    assert_eq!(harness.core.stats().violations, 1);
}

#[test]
fn a_peer_that_leaves_at_once_is_received_whole() {
    let (mut harness, link) = first_received(0);
    harness.deliver(link, &sealed(&harness, 1, 0));
    harness.deliver(link, &Message::Leaving);
    harness.tick(10 * MS);
    assert_eq!(harness.core.stats().deltas_applied, 1);

    // Its link may end before its clock is read.
    let (mut harness, link) = first_received(0);
    harness.deliver(link, &sealed(&harness, 1, 0));
    harness.deliver(link, &Message::Leaving);
    harness.core.closed(harness.now(), link);
    assert_eq!(harness.core.stats().deltas_applied, 1);
    assert_eq!(harness.core.members()[1].state, MemberState::Left);
}

/// A subject may open as many links as it likes.
#[test]
fn links_without_a_greeting_keep_no_node_out() {
    let (mut harness, greeted) = greeted();
    let open = |harness: &mut Harness, place| {
        harness.core.accepted(harness.now(), Subject::node(addr(place)))
    };
    let links: Vec<LinkId> = (1..MAX_INBOUND).map(|_| open(&mut harness, 2).unwrap()).collect();
    while harness.core.poll().is_some() {}
    let link = open(&mut harness, 3).unwrap();
    assert_eq!(harness.core.stats().links_in, MAX_INBOUND as u64);
    assert_eq!(harness.core.poll(), Some(Action::Close { link: links[0] }), "the oldest");
    let id = NodeId::new(addr(3), 5);
    harness
        .deliver(link, &Message::Hello { version: VERSION, oldest: VERSION, id, key: KEY_OF_ALL });
    harness.deliver(greeted, &harness.batch(1, KEY, 5));
    assert_eq!((harness.tat(KEY), harness.core.stats().violations), (5, 0));
}

#[test]
fn links_that_have_greeted_keep_their_places() {
    let mut harness = Harness::new();
    for place in 1..=MAX_INBOUND {
        harness.greet(NodeId::new(addr(place), 5));
    }
    let other = addr(MAX_INBOUND + 1);
    assert_eq!(harness.core.accepted(harness.now(), Subject::node(other)), None);
}
