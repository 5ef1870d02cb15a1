//! The state of one node, given and taken over in parts, while both go on admitting.

use std::num::NonZeroU64;

use super::harness::Harness;
use super::network::MS;
use super::words::QUICK;
use super::world::addr;
use crate::inline;
use crate::protocol::bounds::{MAX_ORIGINS, MIN_BYTE_CAP};
use crate::protocol::host::Level;
use crate::protocol::wire::Message;
use crate::protocol::{LinkId, Nanos, NodeId, Options};

const SECOND: Nanos = 1_000_000_000;
/// More than one step reads or applies.
const KEYS: u64 = 40_000;

fn peer(place: usize) -> NodeId {
    NodeId::new(addr(place), 5)
}

/// A node with many keys in debt, one of whose peers has requested its state.
fn serving() -> (Harness, LinkId) {
    let mut harness = Harness::new();
    for key in 0..KEYS {
        harness.admit((1, key), 60 * SECOND);
    }
    let link = harness.greet(peer(1));
    harness.deliver(link, &Message::StateRequest { request: 1 });
    (harness, link)
}

/// Acknowledges chunks until the last one; the entries of those in `sent` and after.
fn receive(harness: &mut Harness, link: LinkId, sent: Vec<Message>) -> Vec<Level> {
    let (mut entries, mut waiting) = (Vec::new(), sent);
    loop {
        let mut acks = 0;
        for message in std::mem::take(&mut waiting) {
            let Message::StateChunk { last, entries: some } = message else { continue };
            entries.extend(some);
            if last {
                return entries;
            }
            acks += 1;
        }
        assert!(acks > 0, "the transfer stands still at {} entries", entries.len());
        for _ in 0..acks {
            harness.deliver(link, &Message::StateAck);
        }
        waiting = harness.answers(link);
    }
}

/// Keys that are read for one chunk, at most.
const READ: u64 = 256 * 256;

/// Whether each chunk is the last one, and its entries.
fn chunks(sent: Vec<Message>) -> Vec<(bool, usize)> {
    let chunk = |message| match message {
        Message::StateChunk { last, entries } => Some((last, entries.len())),
        _ => None,
    };
    sent.into_iter().filter_map(chunk).collect()
}

/// A node with as many chunks of keys that have drained, and some keys in debt after them, whose
/// state has been requested.
fn serving_after_empty(options: Options, empty: u64, keys: u64) -> (Harness, LinkId) {
    let mut harness = Harness::with(options);
    for key in 0..empty * READ {
        harness.charge((1, key), 1);
    }
    for key in 0..keys {
        harness.charge((2, key), 60 * SECOND);
    }
    harness.pass(MS);
    let link = harness.greet(peer(1));
    harness.deliver(link, &Message::StateRequest { request: 1 });
    (harness, link)
}

/// As of thousands of limits whose tables are large and empty.
#[test]
fn parts_without_keys_cost_no_round_trip() {
    let (mut harness, link) = serving_after_empty(Options::default(), 9, 1);
    assert_eq!(chunks(harness.answers(link)), []);
    assert!(harness.core.deadline().is_some_and(|at| at <= harness.now() + 2 * MS));
    // The receiver learns that the transfer goes on, and need not acknowledge that.
    harness.pass(SECOND);
    harness.tick(0);
    assert_eq!(chunks(harness.answers(link)), [(false, 0)]);
    harness.tick(2 * MS);
    assert_eq!(chunks(harness.answers(link)), [(true, 1)]);
}

#[test]
fn a_capped_state_goes_on_after_parts_without_keys() {
    let options = Options { byte_cap: NonZeroU64::new(MIN_BYTE_CAP), ..Options::default() };
    let (mut harness, link) = serving_after_empty(options, 4, 8_192);
    let mut received = Vec::new();
    for _ in 0..100 {
        let (until, mut steps) = (harness.now() + SECOND / 10, 0);
        while let Some(at) = harness.core.deadline().filter(|at| *at <= until) {
            harness.pass(at.saturating_sub(harness.now()));
            harness.core.tick(harness.now());
            steps += 1;
            assert!(steps < 1_000, "it spins");
        }
        harness.pass(until - harness.now());
        let some = chunks(harness.answers(link));
        for _ in &some {
            harness.deliver(link, &Message::StateAck);
        }
        received.extend(some);
    }
    assert_eq!(received.iter().map(|(_, entries)| entries).sum::<usize>(), 8_192);
    assert!(received.last().is_some_and(|(last, _)| *last));
}

#[test]
fn a_state_is_given_though_more_keys_change_than_are_noted() {
    /// More than the 512 that are noted in tests.
    const CHANGED: u64 = 600;
    let (mut harness, link) = serving();
    let sent = harness.answers(link);
    // In two parts, which are taken one after the other.
    (KEYS - CHANGED..KEYS).for_each(|key| harness.admit((1, key), SECOND));
    harness.deliver(link, &Message::StateAck);
    (KEYS - 2 * CHANGED..KEYS - CHANGED).for_each(|key| harness.admit((1, key), SECOND));
    let entries = receive(&mut harness, link, sent);
    assert_eq!((entries.len() as u64, harness.core.stats().states_inexact), (KEYS, 1));
    let are_twice = entries.iter().filter(|entry| entry.debt > 60 * SECOND).count();
    assert_eq!(are_twice, 2 * 600 - 512);
}

#[test]
fn a_state_read_in_parts_is_as_of_its_vector() {
    let (mut harness, link) = serving();
    let sent = harness.answers(link);
    let read: usize = sent
        .iter()
        .map(|message| match message {
            Message::StateChunk { entries, .. } => entries.len(),
            _ => 0,
        })
        .sum();
    assert!((1..KEYS as usize).contains(&read), "{read} keys read at once");
    // Not read yet: one key changes here, one elsewhere, and one begins.
    let (here, there, new) = ((1, KEYS - 1), (1, KEYS - 2), (1, KEYS));
    let other = harness.greet(peer(2));
    harness.admit(here, 7 * SECOND);
    harness.deliver(other, &harness.batch(1, there, 9 * SECOND.cast_signed()));
    harness.admit(new, SECOND);
    let entries = receive(&mut harness, link, sent);
    assert_eq!(entries.len(), KEYS as usize);
    assert!(entries.iter().all(|entry| entry.debt == 60 * SECOND));
}

/// A state says nothing of quotas, and what changes meanwhile does.
#[test]
fn a_state_is_of_words_whatever_quota_came_with_a_check() {
    let (slow, quick) = (inline::id(SECOND, 10), inline::id(SECOND / 10, 10));
    let mut harness = Harness::new();
    for key in 0..KEYS {
        harness.admit((slow, key), 60 * SECOND);
    }
    let link = harness.greet(peer(1));
    harness.deliver(link, &Message::StateRequest { request: 1 });
    let sent = harness.answers(link);
    harness.admit((quick, KEYS - 1), 7 * SECOND);
    let entries = receive(&mut harness, link, sent);
    assert_eq!(entries.len(), KEYS as usize);
    assert!(entries.iter().all(|entry| (entry.limit, entry.debt) == (0, 60 * SECOND)));
}

#[test]
fn a_state_that_is_applied_keeps_what_was_admitted_under_a_quota() {
    let (mut harness, _) = applying_words_of(0);
    let id = (inline::id(SECOND, 10), 0);
    harness.admit(id, 7 * SECOND);
    harness.tick(0);
    assert_eq!(harness.tat(id), 67 * SECOND);
}

/// What this node consumed since the peer received something of it last is more than a bucket.
#[test]
fn what_has_drained_here_is_not_added_to_a_state() {
    const KEY: (u64, u64) = (QUICK, 1);
    let mut harness = Harness::new();
    let inbound = harness.greet(peer(1));
    let link = harness.welcome(peer(1));
    for _ in 0..20 {
        harness.pass(SECOND / 10);
        harness.admit(KEY, 10 * MS);
        harness.core.flush(harness.now());
    }
    harness.deliver(inbound, &Message::Gap);
    let request = requests(&harness.answers(link))[0];
    let entries = vec![Level { limit: KEY.0, key: KEY.1, debt: 5 * MS }];
    harness.deliver(link, &Message::State { request, vector: vec![(peer(1).origin(), 1)] });
    harness.deliver(link, &Message::StateChunk { last: true, entries });
    assert_eq!(harness.tat(KEY) - harness.now(), 15 * MS);
}

#[test]
fn a_state_that_is_served_no_longer_is_requested_again() {
    let mut harness = Harness::new();
    let inbound = harness.greet(peer(1));
    let link = harness.welcome(peer(1));
    harness.deliver(inbound, &Message::Gap);
    let request = requests(&harness.answers(link))[0];
    let entry = |key, debt| vec![Level { limit: 1, key, debt }];
    harness.deliver(link, &Message::State { request, vector: vec![(peer(1).origin(), 1)] });
    harness.deliver(link, &Message::StateChunk { last: false, entries: entry(1, SECOND) });
    harness.deliver(link, &Message::StateBusy { request });
    harness.tick(SECOND);
    let request = requests(&harness.answers(link))[0];
    harness.deliver(link, &Message::State { request, vector: vec![(peer(1).origin(), 2)] });
    harness.deliver(link, &Message::StateChunk { last: true, entries: entry(2, SECOND) });
    assert_eq!((harness.tat((1, 1)), harness.tat((1, 2))), (0, harness.now() + SECOND));
    let stats = harness.core.stats();
    assert_eq!((stats.states_received, stats.violations), (1, 0));
}

fn requests(sent: &[Message]) -> Vec<u64> {
    let request = |message: &Message| match message {
        Message::StateRequest { request, .. } => Some(*request),
        _ => None,
    };
    sent.iter().filter_map(request).collect()
}

/// A founder with a gap to a peer, from which all of a large state has arrived.
fn applying() -> (Harness, LinkId) {
    applying_words_of(1)
}

fn applying_words_of(limit: u64) -> (Harness, LinkId) {
    let mut harness = Harness::new();
    let inbound = harness.greet(peer(1));
    let link = harness.welcome(peer(1));
    harness.deliver(inbound, &Message::Gap);
    let request = requests(&harness.answers(link))[0];
    harness.deliver(link, &Message::State { request, vector: vec![(peer(1).origin(), 1)] });
    let keys: Vec<u64> = (0..KEYS).collect();
    for keys in keys.chunks(2_000) {
        let entries = keys.iter().map(|key| Level { limit, key: *key, debt: 60 * SECOND });
        let last = keys.contains(&(KEYS - 1));
        harness.deliver(link, &Message::StateChunk { last, entries: entries.collect() });
    }
    (harness, inbound)
}

fn applied(harness: &Harness) -> usize {
    (0..KEYS).filter(|key| harness.tat((1, *key)) > 0).count()
}

#[test]
fn a_state_is_applied_in_slices_with_what_is_admitted_meanwhile() {
    let (mut harness, inbound) = applying();
    let first = applied(&harness);
    assert!((1..KEYS as usize / 2).contains(&first), "{first} in one step");
    assert_eq!(harness.core.stats().states_received, 0);
    // One key that has been applied, and one that has not.
    let mut keys = (0..KEYS).map(|key| (1, key));
    let done = keys.clone().find(|key| harness.tat(*key) > 0).unwrap();
    let to_come = keys.find(|key| harness.tat(*key) == 0).unwrap();
    harness.admit(done, SECOND);
    harness.admit(to_come, SECOND);
    harness.tick(0);
    assert_eq!((harness.tat(done), harness.tat(to_come)), (61 * SECOND, 61 * SECOND));
    assert_eq!(applied(&harness), KEYS as usize);
    assert_eq!(harness.core.stats().states_received, 1);
    harness.deliver(inbound, &harness.batch(2, done, SECOND.cast_signed()));
    assert_eq!(harness.tat(done), 62 * SECOND);
}

#[test]
fn a_state_that_has_arrived_is_applied_though_its_link_closes() {
    let (mut harness, inbound) = applying();
    harness.core.closed(harness.now(), inbound);
    // No position on the new link before the state is in the words.
    let again = harness.greet(peer(1));
    let is_resume = |message: &Message| matches!(message, Message::Resume { .. });
    assert!(!harness.answers(again).iter().any(is_resume));
    harness.tick(0);
    let sent = harness.answers(again);
    assert_eq!(applied(&harness), KEYS as usize);
    let through = sent.iter().find_map(|message| match message {
        Message::Resume { position, .. } => position.map(|position| position.through),
        _ => None,
    });
    assert_eq!(through, Some(1));
}

/// Addresses change with each restart where nodes are containers: those that are gone fill it.
#[test]
fn a_full_version_vector_keeps_the_origins_that_are_members() {
    let mut harness = Harness::new();
    let inbound = harness.greet(peer(1));
    let link = harness.welcome(peer(1));
    let member = peer(2);
    let from_member = harness.greet(member);
    harness.gossip(from_member, member);
    harness.core.closed(harness.now(), from_member);
    harness.deliver(inbound, &Message::Gap);
    let request = requests(&harness.answers(link))[0];
    let gone = (1..MAX_ORIGINS).map(|place| (peer(10 + place).origin(), 3));
    let vector = [(member.origin(), 5), (peer(1).origin(), 1)].into_iter().chain(gone).collect();
    harness.deliver(link, &Message::State { request, vector });
    harness.deliver(link, &Message::StateChunk { last: true, entries: Vec::new() });
    harness.tick(0);
    assert_eq!(harness.core.stats().states_received, 1);
    let again = harness.greet(member);
    let through = harness.answers(again).iter().find_map(|message| match message {
        Message::Resume { position, .. } => position.map(|position| position.through),
        _ => None,
    });
    assert_eq!(through, Some(5));
    // A node that takes over the state of this one has to give up none of them.
    harness.deliver(again, &Message::StateRequest { request: 1 });
    let vector = harness.answers(again).into_iter().find_map(|message| match message {
        Message::State { vector, .. } => Some(vector),
        _ => None,
    });
    let vector = vector.unwrap();
    assert_eq!(vector.len(), MAX_ORIGINS);
    for origin in [member.origin(), peer(1).origin(), harness.core.me().origin()] {
        assert!(vector.iter().any(|(other, _)| *other == origin), "{origin:?}");
    }
}
