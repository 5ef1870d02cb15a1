//! Nodes that speak this version of the format, and a build that is one version ahead.

use super::harness::{Harness, KEY};
use super::world::{World, addr};
use crate::protocol::bounds::{NEXT_VERSION, OLDEST_VERSION, VERSION};
use crate::protocol::wire::{Message, decode_as, encode_as};
use crate::protocol::{Nanos, NodeId, Options};

const SECOND: Nanos = 1_000_000_000;
const LIMIT: u64 = 1;

fn ahead() -> Options {
    Options { newest_version: NEXT_VERSION, ..Options::default() }
}

#[test]
fn a_cluster_is_upgraded_node_by_node() {
    for seed in 0..8 {
        let (old, new) =
            if seed % 2 == 0 { (VERSION, NEXT_VERSION) } else { (OLDEST_VERSION, VERSION) };
        let options = Options { newest_version: old, ..Options::default() };
        let mut world = World::new(seed, 0, options, (0.05, 0.05, 20_000_000));
        let lists: [&[usize]; 4] = [&[], &[0], &[0], &[0]];
        for (place, list) in lists.iter().enumerate() {
            world.start(place, list);
        }
        world.run(5 * SECOND);
        let mut sent = 0;
        // Each node is replaced by the next build, and the last but one by the old one again.
        for (round, (place, newest)) in
            [(1, new), (2, new), (0, new), (2, old)].into_iter().enumerate()
        {
            world.crash(place);
            world.options.newest_version = newest;
            world.start(place, &[3, (place + 1) % 3]);
            world.run(world.now() + 15 * SECOND);
            for place in 0..4 {
                world.admit(place, LIMIT, round as u64, 1_000 * SECOND);
                sent += 1;
            }
            world.run(world.now() + 5 * SECOND);
            for place in 0..4 {
                let core = &world.node(place).core;
                assert!(core.has_joined(), "seed {seed}, round {round}, node {place}");
                assert_eq!(core.stats().violations, 0, "seed {seed}, round {round}, node {place}");
                let debt = world.tat(place, LIMIT, round as u64).saturating_sub(world.now());
                assert!(debt.abs_diff(3_995 * SECOND) < SECOND, "seed {seed}: {debt}");
            }
        }
        assert_eq!(sent, 16);
    }
}

/// Of its version nothing is known any more, so what it still delivers may not even be decoded.
#[test]
fn what_a_closed_link_still_delivers_is_no_violation() {
    let mut harness = Harness::new();
    let peer = NodeId::new(addr(1), 5);
    let inbound = harness.greet(peer);
    let outbound = harness.welcome(peer);
    for link in [inbound, outbound] {
        harness.core.closed(harness.now(), link);
        harness.deliver(link, &Message::Beat { now: 1, delay: None, lag: 0, run_delay: 7 });
        harness.core.message(harness.now(), link, 0, &[0xff; 9]);
    }
    assert_eq!(harness.core.stats().violations, 0);
    // On an open one it is.
    let inbound = harness.greet(peer);
    harness.core.message(harness.now(), inbound, 0, &[0xff; 9]);
    assert_eq!(harness.core.stats().violations, 1);
}

#[test]
fn the_newest_version_that_both_speak_is_spoken() {
    let both = OLDEST_VERSION..=NEXT_VERSION;
    for (own, theirs, expected) in [
        (OLDEST_VERSION, VERSION, OLDEST_VERSION),
        (VERSION, OLDEST_VERSION, OLDEST_VERSION),
        (VERSION, VERSION, VERSION),
        (NEXT_VERSION, VERSION, VERSION),
        (VERSION, NEXT_VERSION + 7, VERSION),
        (NEXT_VERSION, NEXT_VERSION + 7, NEXT_VERSION),
    ] {
        assert!(both.contains(&expected));
        let mut harness = Harness::with(Options { newest_version: own, ..Options::default() });
        let id = NodeId::new(addr(1), 5);
        let link = harness.core.accepted(0, crate::protocol::Subject::node(id.addr)).unwrap();
        let hello = Message::Hello { version: theirs, oldest: OLDEST_VERSION, id, key: KEY };
        harness.deliver(link, &hello);
        let sent = harness.sent(link);
        let welcome = decode_as(OLDEST_VERSION, &sent[0]).unwrap();
        assert!(matches!(welcome, Message::Welcome { version, .. } if version == expected));
        let resume = decode_as(expected, &sent[1]).unwrap();
        assert!(matches!(resume, Message::Resume { .. }), "in the version that was agreed");
    }
}

#[test]
fn a_node_that_is_too_new_is_refused() {
    let mut harness = Harness::with(ahead());
    let id = NodeId::new(addr(1), 5);
    let link = harness.core.accepted(0, crate::protocol::Subject::node(id.addr)).unwrap();
    let (version, oldest) = (NEXT_VERSION + 2, NEXT_VERSION + 1);
    harness.deliver(link, &Message::Hello { version, oldest, id, key: KEY });
    assert_eq!((harness.core.stats().violations, harness.core.stats().links_in), (1, 0));
}

#[test]
fn a_message_of_the_version_before_is_one_that_is_cut() {
    let ack = Message::Ack { number: 300 };
    let beat = |run_delay| Message::Beat { now: 70_000, delay: Some(-3), lag: 250, run_delay };
    for (version, message, known) in
        [(NEXT_VERSION, ack.clone(), ack.clone()), (VERSION, beat(1_000), beat(0))]
    {
        let (bytes, before) = encode_as(version, &message).unwrap();
        assert_eq!(decode_as(version, &bytes).unwrap(), message);
        assert_eq!(decode_as(version - 1, &bytes[..before]).unwrap(), known);
        assert_eq!(encode_as(version - 1, &message).unwrap().0, bytes[..before]);
        assert!(decode_as(version - 1, &bytes).is_err());
        assert!(decode_as(version, &bytes[..before]).is_err());
        // The beginning of a longer number.
        assert!(decode_as(version - 1, &[&bytes[..before], &[0xfb, 7]].concat()).is_err());
    }
    assert_eq!(encode_as(VERSION, &ack).unwrap(), encode_as(OLDEST_VERSION, &ack).unwrap());
}

#[test]
fn a_beat_of_the_oldest_version_ends_behind_its_lag_however_its_number_is_written() {
    let beat = Message::Beat { now: 1, delay: None, lag: 2, run_delay: 0 };
    for number in [&[4][..], &[0xfb, 4, 0], &[0xfc, 4, 0, 0, 0]] {
        let bytes = [number, &[1, 0, 2]].concat();
        assert_eq!(decode_as(OLDEST_VERSION, &bytes).unwrap(), beat);
        assert!(decode_as(OLDEST_VERSION, &[&bytes[..], &[46]].concat()).is_err());
    }
}
