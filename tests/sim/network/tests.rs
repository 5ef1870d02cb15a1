use rand::SeedableRng;
use tidegate_cluster::protocol::{Action, Core};

use super::*;
use crate::host::Limits;
use crate::node::{Start, addr};
use crate::time::{LocalClock, MS};

/// Links' identifiers are a core's: those of two dials.
fn ends() -> [End; 2] {
    let options =
        tidegate_cluster::protocol::Options { join: vec![addr(1), addr(2)], ..Default::default() };
    let start = Start { place: 0, life: 1, generation: 1, clock: LocalClock::default(), options };
    let id = tidegate_cluster::protocol::NodeId::new(addr(0), start.generation);
    let mut core = Core::new(id, start.options, Limits::new(&[]), 0);
    let dialled = std::iter::from_fn(|| core.poll()).filter_map(|action| match action {
        Action::Dial { link, .. } => Some(link),
        _ => None,
    });
    let links: Vec<_> = dialled.collect();
    [End { place: 0, life: 1, link: links[0] }, End { place: 1, life: 2, link: links[1] }]
}

fn rough() -> Conditions {
    Conditions {
        delay: MS,
        jitter: 3 * MS,
        spread: 0,
        loss: 0.3,
        doubled: 0.3,
        mend: (10 * MS, 100 * MS),
    }
}

/// A network of two nodes and an open link between them.
fn linked(seed: u64, ends: [End; 2]) -> (Network, Nanos) {
    let mut net = Network::new(ChaCha8Rng::seed_from_u64(seed), rough());
    net.started(0, 1);
    net.started(1, 2);
    net.dial(0, ends[0], 1);
    while let Some(now) = net.next_at() {
        match net.advance(now).map(|delivery| delivery.input) {
            Some(Input::Knock { dial }) => net.answer(now, dial, 2),
            Some(Input::Accept { number, .. }) => {
                net.accepted(now, number, Some(ends[1].link));
                return (net, now);
            }
            _ => {}
        }
    }
    panic!("seed {seed}: no handshake in three attempts")
}

/// The node is stopped between the handshake and its acceptance.
#[test]
fn what_arrives_before_a_link_is_accepted_is_read_after_it() {
    let ends = ends();
    let mut net = Network::new(ChaCha8Rng::seed_from_u64(1), Conditions { loss: 0.0, ..rough() });
    net.started(0, 1);
    net.started(1, 2);
    net.dial(0, ends[0], 1);
    let mut accept = None;
    while let Some(now) = net.next_at().filter(|at| *at <= 5 * SECOND) {
        match net.advance(now).map(|delivery| delivery.input) {
            Some(Input::Knock { dial }) => net.answer(now, dial, 2),
            Some(Input::Dialled { link, .. }) => {
                for number in 0..3 {
                    net.message(now, End { link, ..ends[0] }, Channel::Main, vec![number].into());
                }
            }
            Some(Input::Accept { number, .. }) => accept = Some(number),
            Some(Input::Message { .. }) => panic!("on a link without a name"),
            _ => {}
        }
        if now >= SECOND {
            break;
        }
    }
    net.accepted(2 * SECOND, accept.unwrap(), Some(ends[1].link));
    assert_eq!(arrivals(&mut net, 2 * SECOND).0, [0, 1, 2]);
}

/// The first bytes of messages and of datagrams, as they arrive until `until`, and closings.
fn arrivals(net: &mut Network, until: Nanos) -> (Vec<u8>, Vec<u8>, usize) {
    let (mut messages, mut datagrams, mut closed) = (Vec::new(), Vec::new(), 0);
    while let Some(now) = net.next_at().filter(|at| *at <= until) {
        match net.advance(now).map(|delivery| delivery.input) {
            Some(Input::Message { bytes, .. }) => messages.push(bytes[0]),
            Some(Input::Datagram { bytes, .. }) => datagrams.push(bytes[0]),
            Some(Input::Closed { .. }) => closed += 1,
            _ => {}
        }
    }
    (messages, datagrams, closed)
}

/// The first seed whose handshake gets through.
const SEED: u64 = 5;

#[test]
fn streams_keep_all_in_order_and_datagrams_do_not() {
    let ends = ends();
    let (mut net, now) = linked(SEED, ends);
    for number in 0..100_u8 {
        net.message(now, ends[0], Channel::Main, Bytes::copy_from_slice(&[number]));
        net.datagram(now, ends[0], &Bytes::copy_from_slice(&[number]));
    }
    let (messages, datagrams, closed) = arrivals(&mut net, now + 4 * SECOND);
    assert_eq!(messages, (0..100).collect::<Vec<_>>());
    let mut once = datagrams.clone();
    once.sort_unstable();
    assert!(!datagrams.is_sorted(), "reordered");
    once.dedup();
    assert!(once.len() < datagrams.len() && once.len() < 100, "doubled, and lost");
    assert_eq!(closed, 0);
}

#[test]
fn a_short_cut_of_one_direction_delays_it_and_a_long_one_closes_both_ends() {
    for (cut, expected) in [(3 * SECOND, (3, 0)), (7 * SECOND, (0, 2))] {
        let ends = ends();
        let (mut net, now) = linked(SEED, ends);
        net.cut(now, 0, 1);
        for number in 0..3_u8 {
            net.message(now, ends[0], Channel::Main, Bytes::copy_from_slice(&[number]));
            net.message(now, ends[1], Channel::Main, Bytes::copy_from_slice(&[10 + number]));
        }
        let (messages, _, before) = arrivals(&mut net, now + cut);
        assert_eq!(messages, [10, 11, 12], "the other direction goes on");
        net.mend(now + cut, 0, 1);
        let (messages, _, after) = arrivals(&mut net, now + cut + 10 * SECOND);
        assert_eq!((messages.len(), before + after), expected);
    }
}

#[test]
fn a_dead_peer_is_silent_for_the_idle_timeout() {
    let ends = ends();
    let (mut net, now) = linked(SEED, ends);
    net.ended(now, 1);
    assert_eq!(arrivals(&mut net, now + IDLE_TIMEOUT - MS).2, 0);
    assert_eq!(arrivals(&mut net, now + IDLE_TIMEOUT).2, 1);
}
