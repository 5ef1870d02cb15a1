//! Bytes are capped: what exceeds the cap is sent later, and nothing of it is lost.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use super::harness::Harness;
use super::network::MS;
use super::words::QUICK;
use super::world::addr;
use crate::protocol::wire::{self, Message};
use crate::protocol::{LinkId, Nanos, NodeId, Options, Stats};

const SECOND: Nanos = 1_000_000_000;
/// Bytes a second.
const CAP: u64 = 20_000;
/// A limit that never drains within a test: all of its keys are urgent.
const LIMIT: u64 = 1;
const UNIT: i64 = 3_600_000_000_000;

/// Peers to which frames flow, and the links to them and from them.
struct Capped {
    harness: Harness,
    out: Vec<LinkId>,
    from: Vec<LinkId>,
    /// What the peers have been sent of each key.
    sent: Vec<BTreeMap<(u64, u64), i64>>,
    /// The keys of each frame to the first peer.
    frames: Vec<Vec<(u64, u64)>>,
    bytes: u64,
    others: usize,
}

impl Capped {
    fn new(cap: Option<u64>, peers: usize) -> Self {
        let byte_cap = cap.and_then(NonZeroU64::new);
        let mut harness = Harness::with(Options { byte_cap, ..Options::default() });
        let (mut out, mut from) = (Vec::new(), Vec::new());
        for place in 1..=peers {
            let peer = NodeId::new(addr(place), 5);
            from.push(harness.greet(peer));
            let link = harness.welcome(peer);
            harness.deliver(link, &Message::Resume { position: None, fresh: false });
            out.push(link);
        }
        let sent = vec![BTreeMap::new(); peers];
        let mut capped = Self { harness, out, from, sent, frames: Vec::new(), bytes: 0, others: 0 };
        capped.read();
        (capped.bytes, capped.others) = (0, 0);
        capped
    }

    fn admit(&mut self, limit: u64, key: u64, debt: i64) {
        self.harness.admit((limit, key), debt.cast_unsigned());
        self.harness.core.recorded(self.harness.now());
    }

    /// Reads what was sent, and acknowledges it.
    fn read(&mut self) {
        let mut sent = Vec::new();
        while let Some(action) = self.harness.core.poll() {
            if let crate::protocol::Action::Message { link, bytes, .. } = action {
                sent.push((link, bytes));
            }
        }
        for (link, bytes) in sent {
            let peer = self.out.iter().position(|out| *out == link);
            match (peer, wire::decode(&bytes).unwrap()) {
                (Some(peer), Message::Batch { number, groups, .. }) => {
                    self.bytes += bytes.len() as u64;
                    self.receive(peer, &groups);
                    self.harness.deliver(link, &Message::Ack { number });
                }
                (_, Message::State { .. } | Message::StateChunk { .. }) => {
                    self.bytes += bytes.len() as u64;
                }
                _ => self.others += 1,
            }
        }
    }

    fn receive(&mut self, peer: usize, groups: &[wire::Group]) {
        let keys = |group: &wire::Group| {
            let limit = group.limit;
            group.changes.iter().map(move |(key, debt, _)| ((limit, *key), *debt)).collect()
        };
        let keys: Vec<_> = groups.iter().flat_map(keys as fn(&wire::Group) -> Vec<_>).collect();
        for (id, debt) in &keys {
            *self.sent[peer].entry(*id).or_default() += debt;
        }
        if peer == 0 {
            self.frames.push(keys.into_iter().map(|(id, _)| id).collect());
        }
    }

    fn pass(&mut self, time: Nanos) {
        let until = self.harness.now() + time;
        while self.harness.now() < until {
            self.harness.tick(MS.min(until - self.harness.now()));
            self.read();
        }
    }

    fn stats(&self) -> Stats {
        self.harness.core.stats()
    }
}

#[test]
fn a_node_sends_no_more_than_its_cap_and_all_in_the_end() {
    let mut capped = Capped::new(Some(CAP), 3);
    let mut admitted = BTreeMap::new();
    let mut uncapped = Capped::new(None, 3);
    for round in 0..300 {
        for key in 0..25 {
            let key = (round * 7 + key) % 100;
            capped.admit(LIMIT, key, UNIT);
            uncapped.admit(LIMIT, key, UNIT);
            *admitted.entry((LIMIT, key)).or_insert(0) += UNIT;
        }
        capped.pass(10 * MS);
        uncapped.pass(10 * MS);
    }
    let most = CAP * 3 + CAP / 10 + 512 * 28;
    assert!(uncapped.bytes > 3 * most, "it takes more: {}", uncapped.bytes);
    assert!(capped.bytes <= most, "{}", capped.bytes);
    assert!(capped.bytes > CAP * 2, "it uses what it has: {}", capped.bytes);
    let stats = capped.stats();
    assert!(stats.capped_keys > 0 && stats.deltas_capped > 0, "{stats:?}");
    assert!((1..4).contains(&stats.capped_for.as_secs()), "{:?}", stats.capped_for);
    capped.pass(3 * SECOND);
    assert_eq!(capped.sent, vec![admitted; 3]);
    let stats = capped.stats();
    assert_eq!((stats.capped_keys, stats.deltas_covered, stats.deltas_dropped), (0, 0, 0));
    assert_eq!(uncapped.stats().deltas_capped, 0);
}

#[test]
fn keys_near_their_limit_go_first_and_those_of_before_among_them() {
    let mut capped = Capped::new(Some(CAP), 1);
    // More than there is room for at once.
    (0..500).for_each(|key| capped.admit(LIMIT, 1_000 + key, UNIT));
    capped.pass(10 * MS);
    capped.admit(QUICK, 1, signed(MS / 4));
    capped.pass(20 * MS);
    capped.admit(QUICK, 2, signed(90 * MS));
    (0..100).for_each(|key| capped.admit(LIMIT, key, UNIT));
    capped.pass(2 * SECOND);
    let at = |id| capped.frames.iter().position(|keys| keys.contains(&id)).unwrap_or(usize::MAX);
    let older: Vec<_> = (0..500).map(|key| at((LIMIT, 1_000 + key))).collect();
    let newer: Vec<_> = (0..100).map(|key| at((LIMIT, key))).collect();
    assert!(older.iter().max() <= newer.iter().min(), "{older:?} {newer:?}");
    assert!(older[0] < older[499], "not all at once: {older:?}");
    let (near, far) = (at((QUICK, 2)), at((QUICK, 1)));
    assert!(older.iter().all(|older| *older <= near), "{near}");
    assert!(near < capped.frames.len() && far > near, "{near} {far}");
}

/// Else a limit that all nodes use would be admitted once more by what each of them keeps.
#[test]
fn what_waits_for_room_is_not_covered_by_what_refills() {
    let mut capped = Capped::new(Some(CAP), 1);
    (0..500).for_each(|key| capped.admit(LIMIT, key, UNIT));
    capped.pass(10 * MS);
    capped.admit(QUICK, 1, signed(90 * MS));
    capped.pass(2 * SECOND);
    assert_eq!(capped.sent[0].get(&(QUICK, 1)), Some(&signed(90 * MS)));
}

#[test]
fn a_peer_that_is_behind_is_caught_up_within_the_cap_and_delays_no_other() {
    let mut capped = Capped::new(Some(CAP), 1);
    let peer = NodeId::new(addr(2), 5);
    capped.from.push(capped.harness.greet(peer));
    let link = capped.harness.welcome(peer);
    capped.out.push(link);
    capped.sent.push(BTreeMap::new());
    for batch in 0..50 {
        (0..100).for_each(|key| capped.admit(LIMIT, 100 * batch + key, UNIT));
        capped.pass(250 * MS);
    }
    capped.bytes = 0;
    capped.harness.deliver(link, &Message::Resume { position: None, fresh: false });
    capped.pass(SECOND);
    let most = CAP + CAP / 10 + 512 * 28;
    assert!((CAP / 2..most).contains(&capped.bytes), "{}", capped.bytes);
    capped.admit(LIMIT, 9_999, UNIT);
    capped.pass(SECOND);
    assert!(capped.sent[0].contains_key(&(LIMIT, 9_999)) && capped.sent[1].len() < 5_000);
    capped.pass(10 * SECOND);
    assert_eq!(capped.sent.iter().map(BTreeMap::len).collect::<Vec<_>>(), [5_001, 5_001]);
}

#[test]
fn acknowledgements_and_clocks_do_not_wait() {
    let mut capped = Capped::new(Some(CAP), 1);
    for number in 1..=100 {
        (0..200).for_each(|key| capped.admit(LIMIT, key, UNIT));
        let batch = capped.harness.batch(number, (LIMIT, 9), 1);
        capped.harness.deliver(capped.from[0], &batch);
        capped.pass(50 * MS);
    }
    let stats = capped.stats();
    assert!(stats.capped_for > std::time::Duration::from_secs(4), "{:?}", stats.capped_for);
    assert!(stats.acks_sent >= 99, "{}", stats.acks_sent);
    assert!(capped.others >= 99, "acknowledgements, beats: {}", capped.others);
}

#[test]
fn a_state_is_given_while_frames_take_all_they_can() {
    let mut capped = Capped::new(Some(CAP), 2);
    (0..3_000).for_each(|key| capped.admit(LIMIT, key, UNIT));
    capped.harness.core.flush(capped.harness.now());
    capped.read();
    let mut states = Vec::new();
    capped.harness.deliver(capped.from[1], &Message::StateRequest { request: 1 });
    for _ in 0..3_000 {
        (0..50).for_each(|key| capped.admit(LIMIT, key, UNIT));
        capped.harness.tick(10 * MS);
        let link = capped.from[1];
        for bytes in capped.harness.sent(link) {
            if let Message::StateChunk { last, entries } = wire::decode(&bytes).unwrap() {
                states.push((last, entries.len()));
                capped.harness.deliver(link, &Message::StateAck);
            }
        }
        if states.last().is_some_and(|(last, _)| *last) {
            break;
        }
        // Each frame is a batch, from the first on.
        let peers = capped.harness.core.peers(capped.harness.now());
        for (link, peer) in capped.out.clone().into_iter().zip(peers) {
            capped.harness.deliver(link, &Message::Ack { number: peer.frames_sent });
        }
    }
    assert_eq!(states.iter().map(|(_, keys)| keys).sum::<usize>(), 3_000, "{states:?}");
    assert!(states.last().is_some_and(|(last, _)| *last));
    // The last part waits for what the first ones took of a quarter of the cap.
    assert!(capped.harness.now() > 5 * SECOND, "{}", capped.harness.now());
}

#[test]
fn what_a_node_sends_last_does_not_wait() {
    let mut capped = Capped::new(Some(CAP), 3);
    (0..2_000).for_each(|key| capped.admit(LIMIT, key, UNIT));
    capped.pass(50 * MS);
    assert!(capped.stats().capped_keys > 0 && !capped.harness.core.is_acknowledged());
    capped.harness.core.flush(capped.harness.now());
    capped.read();
    assert!(capped.sent.iter().all(|sent| sent.len() == 2_000));
    assert!(capped.harness.core.is_acknowledged());
}

/// Its link was closed before this node leaves, and is there again while it waits.
#[test]
fn what_a_node_sends_last_does_not_wait_for_a_peer_that_is_dialled_anew() {
    let mut capped = Capped::new(Some(CAP), 2);
    capped.harness.core.closed(capped.harness.now(), capped.out[1]);
    (0..2_000).for_each(|key| capped.admit(LIMIT, key, UNIT));
    capped.harness.core.flush(capped.harness.now());
    capped.read();
    assert!(!capped.harness.core.is_acknowledged(), "one of two is dialled anew");
    capped.harness.tick(SECOND);
    capped.out[1] = capped.harness.welcome(NodeId::new(addr(2), 5));
    capped.harness.deliver(capped.out[1], &Message::Resume { position: None, fresh: false });
    capped.read();
    assert!(capped.sent.iter().all(|sent| sent.len() == 2_000));
    assert!(capped.harness.core.is_acknowledged());
}

fn signed(time: Nanos) -> i64 {
    time.cast_signed()
}
