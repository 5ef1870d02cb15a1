//! A node that has taken over a state catches up with all others before it decides.

use super::harness::{Harness, KEY as HASH_KEY};
use super::network::MS;
use super::words::SHORT;
use super::world::addr;
use crate::protocol::bounds::VERSION;
use crate::protocol::host::Level;
use crate::protocol::subject::Subject;
use crate::protocol::wire::{Agreement, Group, Message};
use crate::protocol::{JoinKind, LinkId, Nanos, NodeId, Options};

const SECOND: Nanos = 1_000 * MS;
const KEY: (u64, u64) = (SHORT, 1);
/// How long the state is under way; what its words owe is as of its end.
const AGE: Nanos = 900 * MS;

fn peer(place: usize) -> NodeId {
    NodeId::new(addr(place), 5)
}

/// The dial of a link to a peer is answered.
fn welcome(harness: &mut Harness, link: LinkId, id: NodeId, joined: bool) {
    harness.core.connected(harness.now(), link, Subject::node(id.addr));
    let version = VERSION;
    harness.deliver(link, &Message::Welcome { version, id, rank_floor: 0, key: HASH_KEY, joined });
}

/// A node that has requested the state of one of two peers, with the link to it; the answer has
/// begun.
fn asking() -> (Harness, LinkId) {
    asking_with(0)
}

/// The same; the state contains the first batches of its server, up to this number.
fn asking_with(through: u64) -> (Harness, LinkId) {
    let join = vec![addr(1), addr(2)];
    let mut harness = Harness::with(Options { join, ack_within: 0, ..Options::default() });
    harness.tick(2 * SECOND);
    let outbound = harness.dial_of(addr(1));
    welcome(&mut harness, outbound, peer(1), true);
    let requested = harness.answers(outbound).into_iter().find_map(|message| match message {
        Message::StateRequest { request, .. } => Some(request),
        _ => None,
    });
    let vector = vec![(peer(1).origin(), through), (peer(2).origin(), 0)];
    harness.deliver(outbound, &Message::State { request: requested.unwrap(), vector });
    (harness, outbound)
}

fn assert_founds_alone_in(harness: &mut Harness, time: Nanos) {
    harness.tick(time - 100 * MS);
    assert_eq!(harness.core.join_kind(), None);
    harness.tick(200 * MS);
    assert_eq!(harness.core.join_kind(), Some(JoinKind::FoundedAlone));
}

/// Its link has timed out, which it finds in its first step after the stop, or later.
#[test]
fn a_node_that_is_stopped_while_a_state_arrives_founds_no_sooner_than_after_a_wait() {
    for is_first in [false, true] {
        let (mut harness, outbound) = asking();
        harness.pass(6 * SECOND);
        if !is_first {
            harness.core.tick(harness.now());
        }
        harness.core.closed(harness.now(), outbound);
        assert_eq!(harness.core.join_kind(), None);
        assert_founds_alone_in(&mut harness, 5 * SECOND);
    }
}

/// The state arrives for longer than a node waits that no other one answers.
fn assert_gets_some_for_long(harness: &mut Harness, outbound: LinkId) {
    for _ in 0..4 {
        harness.tick(2 * SECOND);
        harness.deliver(outbound, &Message::StateChunk { last: false, entries: Vec::new() });
    }
    assert_eq!(harness.core.stats().violations, 0);
}

#[test]
fn a_node_whose_server_is_gone_founds_after_a_wait() {
    let (mut harness, outbound) = asking();
    assert_gets_some_for_long(&mut harness, outbound);
    harness.core.closed(harness.now(), outbound);
    assert_eq!(harness.core.join_kind(), None);
    assert_founds_alone_in(&mut harness, 5 * SECOND);
}

/// All seeds have answered, and none has a state; but there was one, and another node may have it.
#[test]
fn a_node_whose_server_restarts_founds_after_a_wait() {
    let (mut harness, outbound) = asking();
    let _ = harness.greet(peer(2));
    let second = harness.dial_of(addr(2));
    welcome(&mut harness, second, peer(2), false);
    harness.core.closed(harness.now(), outbound);
    harness.tick(300 * MS);
    let again = harness.dial_of(addr(1));
    welcome(&mut harness, again, NodeId::new(addr(1), 9), false);
    assert_eq!(harness.core.join_kind(), None);
    assert_founds_alone_in(&mut harness, 5 * SECOND - 300 * MS);
}

/// The rest of the state.
fn take_over(harness: &mut Harness, outbound: LinkId, debt: Nanos) {
    let entries = vec![Level { limit: KEY.0, key: KEY.1, debt }];
    harness.deliver(outbound, &Message::StateChunk { last: true, entries });
    assert_eq!(harness.core.join_kind(), Some(JoinKind::Joined));
}

/// A node that has just taken over the state of one of two peers, read [`AGE`] before, with the
/// links from them. Of the key it owes `debt`.
fn joined(debt: Nanos) -> (Harness, Vec<LinkId>) {
    let (mut harness, outbound) = asking();
    harness.tick(AGE);
    let links = (1..=2).map(|place| harness.greet(peer(place))).collect();
    take_over(&mut harness, outbound, debt);
    (harness, links)
}

fn decides(harness: &Harness) -> bool {
    harness.core.current_until() > harness.now()
}

/// What a peer consumed some time ago.
fn batch(harness: &Harness, number: u64, ago: Nanos, debt: Nanos) -> Message {
    let groups = vec![Group { limit: KEY.0, changes: vec![(KEY.1, debt.cast_signed(), 0)] }];
    let at = harness.now() - ago;
    Message::Batch { number, at, groups, levels: Agreement::default() }
}

#[test]
fn a_node_that_has_joined_decides_when_it_has_caught_up_with_all_others() {
    let (mut harness, links) = joined(0);
    assert!(!decides(&harness));
    harness.deliver(links[0], &batch(&harness, 1, 0, MS));
    // Another one opens its link meanwhile.
    let third = harness.greet(peer(3));
    harness.deliver(links[1], &batch(&harness, 1, 0, MS));
    assert!(!decides(&harness));
    harness.deliver(third, &batch(&harness, 1, 0, MS));
    assert!(decides(&harness));
}

/// Its server has not dialled it yet, and no other node is known.
#[test]
fn a_node_that_has_joined_waits_for_its_server_and_peers_it_meets_meanwhile() {
    let (mut harness, outbound) = asking();
    take_over(&mut harness, outbound, 0);
    assert!(!decides(&harness));
    let server = harness.greet(peer(1));
    let second = harness.greet(peer(2));
    harness.deliver(server, &batch(&harness, 1, 0, MS));
    assert!(!decides(&harness));
    // It opens its link anew, and is not awaited any more.
    let _ = harness.greet(peer(1));
    harness.deliver(second, &batch(&harness, 1, 0, MS));
    assert!(decides(&harness));
}

#[test]
fn a_node_that_joins_too_or_leaves_is_not_waited_for() {
    for leaves in [false, true] {
        let (mut harness, outbound) = asking();
        let links = [1, 2].map(|place| harness.greet(peer(place)));
        let dialled = harness.dial_of(addr(2));
        take_over(&mut harness, outbound, 0);
        harness.deliver(links[0], &batch(&harness, 1, 0, MS));
        assert!(!decides(&harness));
        if leaves {
            harness.deliver(links[1], &Message::Leaving);
        } else {
            welcome(&mut harness, dialled, peer(2), false);
        }
        assert!(decides(&harness));
    }
}

/// From then on it has been stopped, which does not keep it from having joined.
#[test]
fn a_node_that_is_stopped_as_it_joins_is_stale() {
    let (mut harness, _) = joined(0);
    assert!(harness.core.is_joining());
    harness.pass(600 * MS);
    harness.core.tick(harness.now());
    assert!(!decides(&harness) && !harness.core.is_joining());
    assert_eq!(harness.core.stats().stale, 1);
}

#[test]
fn a_node_that_has_joined_waits_no_longer_than_the_bound() {
    let (mut harness, links) = joined(0);
    harness.deliver(links[0], &batch(&harness, 1, 0, MS));
    harness.tick(900 * MS);
    assert!(!decides(&harness));
    harness.tick(200 * MS);
    assert!(decides(&harness));
    let stats = harness.core.stats();
    assert_eq!((stats.stale, stats.stale_not_caught_up), (0, 0), "it was not stopped");
    assert_eq!(stats.stale_for.as_nanos(), 0);
    // From then on it treats nodes that come later as always.
    let _ = harness.greet(peer(3));
    assert!(decides(&harness));
}

#[test]
fn a_peer_that_has_nothing_to_send_is_asked() {
    let (mut harness, links) = joined(0);
    let asked =
        |sent: &[Message]| sent.iter().filter(|m| matches!(m, Message::Resume { .. })).count();
    assert_eq!(asked(&harness.answers(links[1])), 2, "from where to go on, and for something");
    harness.deliver(links[0], &batch(&harness, 1, 0, MS));
    harness.tick(60 * MS);
    assert!(asked(&harness.answers(links[1])) > 0);
}

/// Of two nodes each consumed less than half of what drains; the state was read before.
#[test]
fn what_was_consumed_since_the_state_was_read_has_drained_in_its_order() {
    for (debt, owed) in [(0, 2 * 40 * MS), (950 * MS, 950 * MS + 2 * 9 * 40 * MS)] {
        let (mut harness, links) = joined(debt);
        for link in links {
            for number in 1..=9 {
                let ago = AGE - 100 * MS * (number - 1) - 100 * MS;
                harness.deliver(link, &batch(&harness, number, ago, 40 * MS));
            }
        }
        assert!(decides(&harness));
        assert_eq!(harness.tat(KEY) - harness.now(), owed, "{debt}");
    }
}

/// It was under way to the node that served, which had not applied it.
#[test]
fn what_was_consumed_before_the_state_was_read_is_charged() {
    let (mut harness, links) = joined(950 * MS);
    harness.deliver(links[1], &batch(&harness, 1, AGE + 50 * MS, 40 * MS));
    for (link, number) in links.into_iter().zip([1, 2]) {
        harness.deliver(link, &batch(&harness, number, 0, 0));
    }
    assert!(decides(&harness));
    assert_eq!(harness.tat(KEY) - harness.now(), 990 * MS);
}

/// It may owe what was given back since. Also where the node is stopped as it catches up.
#[test]
fn a_level_from_before_the_state_counts_for_nothing() {
    let known = |cut, is_stopped| {
        let (mut harness, outbound) = asking_with(5);
        let links = [1, 2].map(|place| harness.greet(peer(place)));
        take_over(&mut harness, outbound, 0);
        let levels = vec![Level { limit: KEY.0, key: KEY.1, debt: 900 * MS }];
        let cut = vec![(peer(1).origin(), cut)];
        let levels = Agreement { cut, levels, ..Agreement::default() };
        let message = Message::Batch { number: 1, at: harness.now(), groups: Vec::new(), levels };
        harness.deliver(links[1], &message);
        if is_stopped {
            harness.pass(600 * MS);
            harness.core.tick(harness.now());
        }
        for (link, number) in links.into_iter().zip([6, 2]) {
            harness.deliver(link, &batch(&harness, number, 0, 0));
        }
        assert!(decides(&harness));
        harness.tat(KEY) > harness.now()
    };
    for is_stopped in [false, true] {
        assert_eq!([4, 5].map(|cut| known(cut, is_stopped)), [false, true], "{is_stopped}");
    }
}
