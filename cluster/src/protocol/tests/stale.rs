//! A node that was stopped or starved.

use super::harness::Harness;
use super::words::{QUICK, SHORT, SLOW};
use super::world::addr;
use crate::protocol::host::Level;
use crate::protocol::wire::{Agreement, Group, Message, Position, Shift};
use crate::protocol::{LinkId, Nanos, NodeId};

const KEY: (u64, u64) = (SHORT, 1);
const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

fn peer(place: usize) -> NodeId {
    NodeId::new(addr(place), 5)
}

/// A founder to which peers send frames, with the links from them; nothing was sent yet.
fn with_links_from(peers: usize) -> (Harness, Vec<LinkId>) {
    let mut harness = Harness::new();
    let links = (1..=peers).map(|place| harness.greet(peer(place))).collect();
    harness.tick(10 * SECOND);
    (harness, links)
}

/// Stops the node for a while.
fn stop(harness: &mut Harness, time: Nanos) {
    harness.pass(time);
    harness.core.tick(harness.now());
}

fn is_stale(harness: &Harness) -> bool {
    harness.core.current_until() == 0
}

/// A batch that was sealed some time ago.
fn batch(harness: &Harness, number: u64, ago: Nanos, debt: Nanos) -> Message {
    let groups = vec![Group { limit: KEY.0, changes: vec![(KEY.1, debt.cast_signed(), 0)] }];
    let at = harness.now() - ago;
    Message::Batch { number, at, groups, levels: Agreement::default() }
}

#[test]
fn a_node_that_was_stopped_waits_for_its_peers_anew() {
    let (mut harness, links) = with_links_from(2);
    assert!(harness.core.current_until() > harness.now());
    stop(&mut harness, 10 * SECOND);
    assert!(is_stale(&harness));
    // What waited in a buffer does not count, nor what is followed by more that is under way.
    harness.deliver(links[0], &batch(&harness, 1, SECOND, MS));
    harness.pass(300 * MS);
    harness.deliver(links[0], &batch(&harness, 2, 250 * MS, MS));
    harness.deliver(links[1], &batch(&harness, 1, 0, MS));
    assert!(is_stale(&harness));
    harness.deliver(links[0], &batch(&harness, 3, MS, MS));
    assert!(!is_stale(&harness) && harness.core.current_until() > harness.now());
    let stats = harness.core.stats();
    assert_eq!((stats.stale, stats.stale_not_caught_up), (1, 0));
    assert_eq!(stats.stale_for.as_millis(), 300);
}

#[test]
fn a_node_that_is_stepped_is_current() {
    let (mut harness, links) = with_links_from(1);
    harness.tick(10 * SECOND);
    stop(&mut harness, 200 * MS);
    assert_eq!(harness.core.stats().stale, 0);
    assert!(harness.core.current_until() < harness.now() + SECOND);
    // It receives nothing.
    harness.core.closed(harness.now(), links[0]);
    assert_eq!(harness.core.current_until(), Nanos::MAX);
    stop(&mut harness, 10 * SECOND);
    assert_eq!(harness.core.stats().stale, 0);
}

#[test]
fn a_node_waits_for_silent_peers_no_longer_than_the_bound() {
    let (mut harness, links) = with_links_from(1);
    stop(&mut harness, 10 * SECOND);
    // As after the idle timeout.
    harness.core.closed(harness.now(), links[0]);
    harness.tick(900 * MS);
    assert!(is_stale(&harness));
    harness.tick(200 * MS);
    assert!(!is_stale(&harness));
    assert_eq!(harness.core.stats().stale_not_caught_up, 1);
}

/// As others say that were cut off from it meanwhile, or this node's own timers when it goes on.
#[test]
fn a_peer_that_is_held_for_down_is_awaited_while_its_link_is_open() {
    let (mut harness, links) = with_links_from(2);
    stop(&mut harness, SECOND);
    harness.deliver(links[0], &batch(&harness, 1, 0, MS));
    harness.core.member_down(harness.now(), peer(2));
    assert!(is_stale(&harness));
    harness.core.closed(harness.now(), links[1]);
    harness.core.member_down(harness.now(), peer(2));
    assert!(!is_stale(&harness));
}

/// Its retransmissions have backed off; one that goes on is not disturbed.
#[test]
fn a_link_that_stays_silent_after_a_stop_is_closed_once() {
    let (mut harness, links) = with_links_from(2);
    let (talks, silent) = (links[0], links[1]);
    harness.deliver(silent, &batch(&harness, 1, 0, MS));
    stop(&mut harness, 3 * SECOND);
    for number in 1..=9 {
        // Old ones, as of a backlog.
        harness.deliver(talks, &batch(&harness, number, SECOND, MS));
        harness.tick(50 * MS);
    }
    assert_eq!(harness.core.stats().links_in, 2);
    harness.tick(60 * MS);
    assert_eq!(harness.core.stats().links_in, 1);
    harness.deliver(talks, &batch(&harness, 10, SECOND, MS));
    assert_eq!(harness.core.stats().violations, 0, "it is the silent one");
    // The new link has its time until the bound.
    let link = harness.greet(peer(2));
    harness.tick(300 * MS);
    assert!(is_stale(&harness) && harness.core.stats().links_in == 2);
    harness.deliver(link, &batch(&harness, 2, 0, MS));
    harness.deliver(talks, &batch(&harness, 11, 0, MS));
    assert!(!is_stale(&harness));
    assert_eq!(harness.core.stats().stale_not_caught_up, 0);
}

#[test]
fn a_peer_with_nothing_to_send_is_asked_and_answers() {
    let (mut harness, links) = with_links_from(1);
    harness.answers(links[0]);
    stop(&mut harness, SECOND);
    let asked = |answers: &[Message]| answers.iter().any(|m| matches!(m, Message::Resume { .. }));
    assert!(asked(&harness.answers(links[0])));
    harness.tick(60 * MS);
    assert!(asked(&harness.answers(links[0])), "again");

    let mut harness = Harness::new();
    harness.greet(peer(1));
    let link = harness.welcome(peer(1));
    let resume = Message::Resume { position: None, fresh: false };
    harness.deliver(link, &resume);
    harness.tick(SECOND);
    harness.answers(link);
    let position = Some(Position { through: 0, missed: None });
    harness.deliver(link, &Message::Resume { position, fresh: false });
    harness.tick(20 * MS);
    let answers = harness.answers(link);
    let sealed =
        |m: &Message| matches!(m, Message::Batch { number: 1, groups, .. } if groups.is_empty());
    assert!(answers.iter().any(sealed), "{answers:?}");
    // Others may ask as well: one batch in a while answers all of them.
    let asks = |harness: &mut Harness| {
        harness.deliver(link, &Message::Resume { position, fresh: false });
        harness.tick(15 * MS);
        let batches = |m: &Message| matches!(m, Message::Batch { .. });
        harness.answers(link).iter().filter(|message| batches(message)).count()
    };
    let answered: usize = (0..10).map(|_| asks(&mut harness)).sum();
    assert!((2..=4).contains(&answered), "{answered}");
}

/// Two nodes of which each consumes half of the limit fill the bucket together, if it was full.
#[test]
fn what_others_consumed_meanwhile_is_applied_in_order() {
    let (mut harness, links) = with_links_from(2);
    stop(&mut harness, 4 * SECOND);
    let began = harness.now() - 4 * SECOND;
    for (link, lead) in [(links[0], 0), (links[1], 100 * MS)] {
        for number in 1..=20 {
            let at = began + (number - 1) * 200 * MS + lead;
            let groups =
                vec![Group { limit: KEY.0, changes: vec![(KEY.1, (100 * MS).cast_signed(), 0)] }];
            let level = Level { limit: KEY.0, key: KEY.1, debt: 800 * MS };
            let levels = if number == 1 { vec![level] } else { Vec::new() };
            let levels = Agreement { levels, ..Agreement::default() };
            harness.deliver(link, &Message::Batch { number, at, groups, levels });
        }
        assert!(is_stale(&harness));
    }
    assert!(harness.tat(KEY) <= harness.now(), "not before a fresh batch of each is there");
    harness.deliver(links[0], &batch(&harness, 21, 0, 0));
    harness.deliver(links[1], &batch(&harness, 21, 0, 0));
    assert!(!is_stale(&harness));
    let owed = harness.tat(KEY).saturating_sub(harness.now());
    assert!((700 * MS..=900 * MS).contains(&owed), "{owed}");
}

/// One node reports that it gave back what another reports that it consumed before.
#[test]
fn what_was_given_back_meanwhile_follows_what_was_consumed() {
    let (mut harness, links) = with_links_from(2);
    stop(&mut harness, SECOND);
    for (link, ago, debt) in [(links[0], 300 * MS, -900), (links[1], 500 * MS, 900)] {
        let changes = vec![(KEY.1, debt * MS.cast_signed(), 0)];
        let groups = vec![Group { limit: KEY.0, changes }];
        let (at, levels) = (harness.now() - ago, Agreement::default());
        harness.deliver(link, &Message::Batch { number: 1, at, groups, levels });
    }
    for link in links {
        harness.deliver(link, &batch(&harness, 2, 0, 0));
    }
    assert!(!is_stale(&harness));
    assert!(harness.tat(KEY) <= harness.now());
}

/// What another node's word owed is as of a time, and what came later adds to it.
#[test]
fn what_was_consumed_after_a_level_comes_on_top_of_it() {
    let (mut harness, links) = with_links_from(2);
    stop(&mut harness, SECOND);
    let consumed = vec![(KEY.1, (100 * MS).cast_signed(), 0)];
    let level = Level { limit: KEY.0, key: KEY.1, debt: 900 * MS };
    let groups = vec![Group { limit: KEY.0, changes: consumed }];
    let levels = Agreement { levels: vec![level], ..Agreement::default() };
    for (link, ago, groups, levels) in [
        (links[0], 300 * MS, groups, Agreement::default()),
        (links[1], 500 * MS, Vec::new(), levels),
    ] {
        let at = harness.now() - ago;
        harness.deliver(link, &Message::Batch { number: 1, at, groups, levels });
    }
    for link in links {
        harness.deliver(link, &batch(&harness, 2, 0, 0));
    }
    assert!(!is_stale(&harness));
    assert_eq!(harness.tat(KEY), harness.now() + 500 * MS);
}

/// Another node moves this one's word to meet its own: what was consumed in the stop has drained.
#[test]
fn a_word_that_is_moved_after_a_stop_was_empty_until_then() {
    let (mut harness, links) = with_links_from(1);
    // One with a lower address.
    let moves = harness.greet(NodeId::new(([10, 0, 0, 1], 1).into(), 5));
    harness.admit(KEY, MS);
    harness.core.recorded(harness.now());
    harness.tick(20 * MS);
    stop(&mut harness, 4 * SECOND);
    let (to, by) = (harness.core.me().origin(), (100 * MS).cast_signed());
    let shifts = vec![Shift { to, limit: KEY.0, key: KEY.1, by }];
    let levels = Agreement { shifts, ..Agreement::default() };
    let at = harness.now();
    harness.deliver(moves, &Message::Batch { number: 1, at, groups: Vec::new(), levels });
    harness.deliver(links[0], &batch(&harness, 1, 2 * SECOND, 500 * MS));
    harness.deliver(links[0], &batch(&harness, 2, 0, 0));
    assert!(!is_stale(&harness));
    assert_eq!(harness.tat(KEY), harness.now() + 100 * MS);
}

/// Of what was consumed when it only says when the last of it was.
#[test]
fn sums_of_what_was_missed_are_not_replayed_as_recent() {
    const HOT: (u64, u64) = (QUICK, 1);
    let (mut harness, links) = with_links_from(2);
    stop(&mut harness, SECOND);
    let [debt, ago] = [600 * MS, 800 * MS].map(u64::cast_signed);
    for link in &links {
        let groups = vec![Group { limit: HOT.0, changes: vec![(HOT.1, debt, ago)] }];
        let at = harness.now();
        harness.deliver(*link, &Message::Missed { to: 9, at, upto: None, groups });
    }
    assert!(is_stale(&harness));
    for link in links {
        harness.deliver(link, &batch(&harness, 10, 0, 0));
    }
    assert!(!is_stale(&harness));
    assert!(harness.tat(HOT) <= harness.now());
}

/// The first retransmission after a stop comes after the bound, when callers that waited are
/// served.
#[test]
fn what_comes_after_the_bound_drains_where_the_word_was_empty() {
    let (mut harness, links) = with_links_from(1);
    harness.admit(KEY, MS);
    harness.core.recorded(harness.now());
    harness.tick(20 * MS);
    stop(&mut harness, SECOND);
    harness.deliver(links[0], &batch(&harness, 1, 300 * MS, 50 * MS));
    harness.tick(1_001 * MS);
    assert!(!is_stale(&harness));
    assert_eq!(harness.core.stats().stale_not_caught_up, 1);
    // The link that was silent has been closed.
    let link = harness.greet(peer(1));
    harness.admit(KEY, 200 * MS);
    harness.core.recorded(harness.now());
    harness.tick(20 * MS);
    let tat = harness.tat(KEY);
    harness.deliver(link, &batch(&harness, 2, 400 * MS, 50 * MS));
    assert_eq!(harness.core.stats().deltas_applied, 2);
    assert_eq!(harness.tat(KEY), tat);
}

/// A state contains what its origin has sent, whether that was applied here or not.
#[test]
fn what_waits_is_applied_before_a_state_that_contains_it() {
    let (mut harness, links) = with_links_from(1);
    let outbound = harness.welcome(peer(1));
    harness.answers(outbound);
    stop(&mut harness, SECOND);
    let debt = 60 * SECOND;
    let groups = vec![Group { limit: SLOW, changes: vec![(KEY.1, debt.cast_signed(), 0)] }];
    let (at, levels) = (harness.now() - SECOND / 2, Agreement::default());
    harness.deliver(links[0], &Message::Batch { number: 1, at, groups, levels });
    assert!(is_stale(&harness));
    harness.deliver(links[0], &Message::Gap);
    let asked = harness.answers(outbound).into_iter().find_map(|message| match message {
        Message::StateRequest { request, .. } => Some(request),
        _ => None,
    });
    let vector = vec![(peer(1).origin(), 1)];
    harness.deliver(outbound, &Message::State { request: asked.unwrap(), vector });
    let entries = vec![Level { limit: SLOW, key: KEY.1, debt }];
    harness.deliver(outbound, &Message::StateChunk { last: true, entries });
    harness.tick(2 * SECOND);
    assert!(!is_stale(&harness));
    let owed = harness.tat((SLOW, KEY.1)) - harness.now();
    assert!((debt - 3 * SECOND..=debt).contains(&owed), "{owed}");
}
