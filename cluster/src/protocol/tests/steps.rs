//! Much work is done in many steps.

use super::harness::Harness;
use super::world::addr;
use crate::protocol::wire::{Message, Position};
use crate::protocol::{LinkId, Nanos, NodeId, Options};

/// Keys that are recorded at once: some seconds of load that has not been taken.
const KEYS: u64 = 10_000;
/// What one step seals, at most.
const A_STEP: usize = 1_024;
/// What a message has, at most.
const A_BATCH: usize = 512;
const SECOND: Nanos = 1_000_000_000;

/// A founder whose peer is sent frames, with much that is recorded.
fn loaded() -> (Harness, LinkId) {
    let mut harness = Harness::new();
    let peer = NodeId::new(addr(1), 5);
    harness.greet(peer);
    let link = harness.welcome(peer);
    let position = Some(Position { through: 0, missed: None });
    harness.deliver(link, &Message::Resume { position, fresh: false });
    harness.answers(link);
    for key in 0..KEYS {
        harness.admit((1, key), 60 * SECOND);
    }
    harness.core.recorded(harness.now());
    harness.pass(SECOND / 100);
    (harness, link)
}

/// The numbers of deltas of the batches that were sent since the last call.
fn batches(harness: &mut Harness, link: LinkId) -> Vec<usize> {
    let batch = |message| match message {
        Message::Batch { groups, .. } => Some(groups.iter().map(|group| group.changes.len()).sum()),
        _ => None,
    };
    harness.answers(link).into_iter().filter_map(batch).collect()
}

#[test]
fn a_step_seals_a_bounded_part_of_what_was_recorded() {
    let (mut harness, link) = loaded();
    let (mut total, mut number) = (0, 0);
    for step in 1.. {
        harness.core.tick(harness.now());
        let sent = batches(&mut harness, link);
        let some = sent.iter().sum::<usize>();
        assert!(some <= A_STEP && sent.iter().all(|deltas| *deltas <= A_BATCH), "{sent:?}");
        total += some;
        number += sent.len() as u64;
        harness.deliver(link, &Message::Ack { number });
        if total == KEYS as usize {
            assert_eq!(step, (KEYS as usize).div_ceil(A_STEP));
            assert!(harness.core.is_acknowledged());
            break;
        }
        assert!(harness.core.deadline().is_some_and(|at| at <= harness.now()), "more is due");
        assert!(!harness.core.is_acknowledged(), "not all of it is sealed");
    }
}

#[test]
fn a_flush_seals_all_that_was_recorded() {
    let (mut harness, link) = loaded();
    harness.core.tick(harness.now());
    let first = batches(&mut harness, link).iter().sum::<usize>();
    assert_eq!(first, A_STEP);
    harness.admit((1, KEYS), SECOND);
    harness.core.flush(harness.now());
    let rest = batches(&mut harness, link).iter().sum::<usize>();
    assert_eq!(first + rest, KEYS as usize + 1);
}

/// Nodes that flush in step would take turns in the same order for minutes.
#[test]
fn flushes_come_early_by_chance() {
    let mut harness = Harness::new();
    let mut flushes = Vec::new();
    for _ in 0..200 {
        harness.admit((1, 1), 1);
        harness.core.recorded(harness.now());
        let before = harness.core.stats().deltas_recorded;
        while harness.core.stats().deltas_recorded == before {
            let due = harness.core.deadline().expect("a flush is due");
            harness.pass(due.saturating_sub(harness.now()));
            harness.core.tick(harness.now());
        }
        flushes.push(harness.now());
    }
    let distances = flushes.windows(2).map(|two| two[1] - two[0]);
    let (least, most) = (distances.clone().min().unwrap(), distances.max().unwrap());
    let interval = SECOND / 100;
    assert!(least >= interval - interval / 4 && most <= interval, "{least} {most}");
    assert!(most - least > interval / 5, "{least} {most}");
}

/// What a flush may not have seen waits for the next record, or 50 ms.
#[test]
fn what_was_recorded_during_a_flush_is_taken_with_the_next_record_or_soon_after() {
    const MS: Nanos = SECOND / 1_000;
    let mut harness = Harness::new();
    harness.core.recorded_late(harness.now());
    assert_eq!(harness.core.flush_at(), Some(50 * MS));
    harness.pass(15 * MS);
    harness.core.recorded(harness.now());
    assert_eq!(harness.core.flush_at(), Some(15 * MS), "the next flush may be at once");
    harness.core.recorded_late(harness.now());
    assert_eq!(harness.core.flush_at(), Some(15 * MS));

    let flush_interval = 200 * MS;
    let mut harness = Harness::with(Options { flush_interval, ..Options::default() });
    harness.core.recorded(harness.now());
    harness.core.tick(harness.now());
    harness.core.recorded_late(harness.now());
    let due = harness.core.flush_at().unwrap();
    assert!((150 * MS..=200 * MS).contains(&due), "no flush is earlier than the interval: {due}");
}
