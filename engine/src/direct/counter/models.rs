//! loom models of the counters: every interleaving, except where a model states a bound.
//!
//! In a model the spawned thread only loads and its parent writes: loom runs the parent first, and
//! otherwise misses orders in which the loads precede all writes of others.

mod returns;

use core::time::Duration;
use std::sync::atomic::AtomicU64 as Tally;

use loom::sync::Arc;
use loom::thread;

use crate::explore::explore;

use super::log::Log;
use super::sharded::UnitShards;
use super::sub_window::SubWindows;

/// Preemptions per run with three threads.
const TRIO: usize = 2;
/// Preemptions per run of two threads that advance a window or reset it.
const PAIR: usize = 3;

fn spawn<W: 'static, T: 'static>(
    world: &Arc<W>,
    act: impl FnOnce(&W) -> T + 'static,
) -> thread::JoinHandle<T> {
    let world = Arc::clone(world);
    thread::spawn(move || act(&world))
}

/// One sub-window of 10 and the one before it: at most three cells are read.
fn window(limit: u64) -> SubWindows {
    SubWindows::new(limit, Duration::from_nanos(10), 1).unwrap()
}

fn take(window: &SubWindows, cost: u64, now: u64) -> u64 {
    window.take(cost, cost, now).map_or(0, |taken| taken.units)
}

/// The last unit, also while the window advances: one thread gets it, and none is denied because of
/// another that is denied too.
#[test]
fn the_last_unit_of_a_turning_window_is_taken_once() {
    explore(None, || {
        let world = Arc::new(window(3));
        assert_eq!(take(&world, 2, 1), 2);
        let other = spawn(&world, |window| take(window, 1, 11));
        let admitted = take(&world, 1, 11) + other.join().unwrap();
        assert_eq!(admitted, 1);
        assert_eq!(take(&world, 3, 20), 0);
        assert_eq!(take(&world, 2, 20) + take(&world, 1, 30), 3);
    });
}

/// A thread charges the old sub-window while another advances the window: the charge is in the
/// cell, or counts in the next sub-window. It expires with the sub-window that was returned to it.
#[test]
fn a_charge_meets_the_turn_of_its_sub_window() {
    explore(None, || {
        let world = Arc::new(window(3));
        assert_eq!(take(&world, 1, 1), 1);
        let late = spawn(&world, |window| window.take(1, 1, 9).map(|taken| taken.usage.index));
        assert_eq!(take(&world, 1, 11), 1);
        let counts_in = late.join().unwrap().unwrap();
        assert_eq!(world.peek(11).remaining(), 0);
        assert_eq!(world.peek(20).remaining(), 3 - counts_in);
        assert_eq!(world.peek(30).remaining(), 3);
    });
}

/// A peek reads two past sub-windows while advances reuse their cells: it returns what counted at
/// some moment.
#[test]
fn a_look_meets_turns_that_take_its_cells() {
    for (now, left) in [(35, [8, 7, 6]), (55, [9, 8, 7])] {
        explore(Some(PAIR), move || {
            let world = Arc::new(SubWindows::new(9, Duration::from_nanos(20), 2).unwrap());
            assert_eq!(take(&world, 5, 1) + take(&world, 1, 21), 6);
            let other = spawn(&world, move |window| window.peek(now).remaining());
            assert_eq!(take(&world, 1, 31) + take(&world, 1, 41), 2);
            let seen = other.join().unwrap();
            assert!(left.contains(&seen), "{seen} left at {now}");
            assert_eq!(world.peek(now).remaining(), left[2]);
        });
    }
}

/// Two advances in sequence, of which the second reuses a cell of the first one's window.
#[test]
fn a_cell_is_used_again_while_a_late_thread_turns() {
    explore(Some(PAIR), || {
        let world = Arc::new(window(2));
        assert_eq!(take(&world, 1, 1), 1);
        let late = spawn(&world, |window| take(window, 1, 11));
        let admitted = [take(&world, 1, 21), take(&world, 1, 31)];
        let late = late.join().unwrap();
        // Only a late thread that finds 31 in the head, and two units there, is denied.
        assert!(admitted[0] == 1 && admitted[1] + late >= 1);
        // At 31 the units of 21 and 31 count.
        assert!(2 - world.peek(31).remaining() >= admitted[0] + admitted[1]);
        assert_eq!(world.peek(50).remaining(), 2);
    });
}

#[test]
fn three_threads_take_two_units_at_a_turn() {
    explore(Some(TRIO), || {
        let world = Arc::new(window(3));
        assert_eq!(take(&world, 1, 1), 1);
        let others = [9, 11].map(|now| spawn(&world, move |window| take(window, 1, now)));
        let mut admitted = take(&world, 1, 11);
        for other in others {
            admitted += other.join().unwrap();
        }
        assert_eq!(admitted, 2);
        assert_eq!(world.peek(30).remaining(), 3);
    });
}

/// A reset during an advance: the count that the advance records does not come back.
#[test]
fn a_reset_meets_a_turn() {
    explore(Some(PAIR), || {
        let world = Arc::new(window(3));
        assert_eq!(take(&world, 2, 1), 2);
        let other = spawn(&world, |window| take(window, 1, 11));
        world.ring.reset(11);
        let before = take(&world, 2, 11);
        let other = other.join().unwrap();
        assert_eq!((before, other), (2, 1));
        let left = world.peek(11).remaining();
        assert!(left <= 1);
        // What was charged at 11 counts until 30.
        assert_eq!(world.peek(20).remaining(), left);
        assert_eq!(take(&world, 3 - left, 29), 0);
        assert_eq!(world.peek(30).remaining(), 3);
    });
}

/// Two shards take blocks while the window advances: they spend no more than the limit, and what is
/// left of a block is void once its sub-window is over.
#[test]
fn blocks_meet_the_turn_of_the_window() {
    explore(Some(PAIR), || {
        let world = Arc::new(UnitShards::new(window(4), 2, 2).unwrap());
        let spend = |shards: &UnitShards, shard, now| {
            u64::from(shards.check(shard, 1, now, || ()).is_allowed())
        };
        assert_eq!(spend(&world, 0, 1), 1);
        let other = spawn(&world, move |shards| spend(shards, 0, 11) + spend(shards, 1, 11));
        let late = spend(&world, 0, 9);
        let mut admitted = spend(&world, 0, 11) + other.join().unwrap();
        let all = |now| -> u64 { [0, 1, 0, 1].map(|shard| spend(&world, shard, now)).iter().sum() };
        admitted += all(11);
        // All readings are within one window, and one block may have lost a unit.
        assert!((2..=3).contains(&(late + admitted)), "{late} + {admitted}");
        admitted += all(20);
        // So are those from 11 to 20, when the first sub-window has expired.
        assert!(admitted <= 4, "{admitted}");
    });
}

/// Two threads take a block each at one shard: none of their units is lost.
#[test]
fn concurrent_blocks_are_spent_in_full() {
    explore(None, || {
        let world = Arc::new(UnitShards::new(window(4), 1, 2).unwrap());
        let spend = |shards: &UnitShards| u64::from(shards.check(0, 1, 1, || ()).is_allowed());
        let other = spawn(&world, spend);
        let admitted = spend(&world) + other.join().unwrap();
        assert_eq!(admitted + (0..3).map(|_| spend(&world)).sum::<u64>(), 4);
    });
}

/// Two threads at one shard with one unit in it, and none in the source.
#[test]
fn a_unit_of_a_block_is_spent_once() {
    explore(None, || {
        let world = Arc::new(UnitShards::new(window(2), 1, 2).unwrap());
        let spend = |shards: &UnitShards| u64::from(shards.check(0, 1, 1, || ()).is_allowed());
        assert_eq!(spend(&world), 1);
        let other = spawn(&world, spend);
        assert_eq!(spend(&world) + other.join().unwrap(), 1);
    });
}

/// Two threads at one shard with units for both: the loser of the exchange gets a callback, so that
/// it can move on.
#[test]
fn a_thread_notices_another_at_its_shard() {
    let met = std::sync::Arc::new(Tally::new(0));
    let seen = std::sync::Arc::clone(&met);
    explore(None, move || {
        let world = Arc::new(UnitShards::new(window(3), 1, 3).unwrap());
        assert!(world.check(0, 1, 1, || ()).is_allowed());
        let spend = |met: std::sync::Arc<Tally>| {
            move |shards: &UnitShards| {
                let crowded = || {
                    met.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                };
                shards.check(0, 1, 1, crowded).is_allowed()
            }
        };
        let other = spawn(&world, spend(std::sync::Arc::clone(&met)));
        assert!(spend(std::sync::Arc::clone(&met))(&world));
        assert!(other.join().unwrap());
    });
    assert!(seen.load(std::sync::atomic::Ordering::Relaxed) > 0);
}

fn log(limit: u64) -> Log {
    Log::new(limit, 10).unwrap()
}

fn admit(log: &Log, cost: u64, now: u64) -> u64 {
    if log.check_at(cost, now).is_allowed() { cost } else { 0 }
}

/// Two threads with different readings at a full log in which one unit expires: one thread gets it,
/// at a time no earlier than its own reading.
#[test]
fn an_expired_unit_of_the_log_is_taken_once() {
    explore(None, || {
        let world = Arc::new(log(2));
        assert_eq!((admit(&world, 1, 1), admit(&world, 1, 5)), (1, 1));
        let other = spawn(&world, |log| admit(log, 1, 11));
        let mine = admit(&world, 1, 12);
        assert_eq!(mine + other.join().unwrap(), 1);
        assert_eq!(admit(&world, 2, 20), 0);
        assert_eq!(admit(&world, 1, 20), 1);
        assert_eq!(admit(&world, 1, 20), 0);
        assert_eq!(admit(&world, 1, 22), 1);
    });
}

/// Preemptions per run with a thread that is late by two laps.
const LATE: usize = 4;

/// A thread with an early reading reads entries that are of later laps by then: any two readings
/// that a log of one unit admits are a window apart.
#[test]
fn a_log_of_one_keeps_readings_a_window_apart() {
    explore(Some(LATE), || {
        let world = Arc::new(log(1));
        let other = spawn(&world, |log| [admit(log, 1, 20), admit(log, 1, 30)]);
        let mine = admit(&world, 1, 18);
        let other = other.join().unwrap();
        let after = admit(&world, 1, 35);
        apart(&[(other[0], 20), (other[1], 30), (mine, 18), (after, 35)], 10);
    });
}

/// Preemptions per run with a thread that runs against three laps.
const LAPS: usize = 2;

/// A thread runs before, during or after three laps of a log of one unit: a head is seen with the
/// entries below it, and a step begun at an earlier head changes none of them.
#[test]
fn a_head_is_seen_with_the_entries_below_it() {
    explore(Some(LAPS), || {
        let world = Arc::new(log(1));
        let other = spawn(&world, |log| [20, 30, 40].map(|now| (admit(log, 1, now), now)));
        let mine = (admit(&world, 1, 45), 45);
        let [first, second, third] = other.join().unwrap();
        apart(&[first, second, third, mine], 10);
        assert_eq!(admit(&world, 1, 60), 1);
    });
}

/// A denial during a lap of the log returns the times of one moment: with a limit of one unit, the
/// cost fits when nothing counts any more.
#[test]
fn a_denial_gives_the_times_of_one_moment() {
    explore(Some(PAIR), || {
        let world = Arc::new(log(1));
        assert_eq!(admit(&world, 1, 1), 1);
        let other = spawn(&world, |log| log.check_at(1, 5));
        assert_eq!(admit(&world, 1, 11) + admit(&world, 1, 21), 2);
        let denied = other.join().unwrap();
        assert!(!denied.is_allowed());
        assert_eq!(denied.retry_after(), Some(denied.reset_after()));
    });
}

#[test]
fn three_threads_fill_a_log_all_or_nothing() {
    explore(Some(TRIO), || {
        let world = Arc::new(log(3));
        let others = [2, 3].map(|cost| spawn(&world, move |log| admit(log, cost, 5)));
        let mut admitted = admit(&world, 1, 4);
        for other in others {
            admitted += other.join().unwrap();
        }
        assert_eq!(admitted, 3);
        assert_eq!(admit(&world, 1, 13), 0);
        assert_eq!(admit(&world, 3, 15), 3);
    });
}

/// Units are restored though none has expired: a concurrent check is admitted before them or not at
/// all, and they count from its time if that is later.
#[test]
fn restored_units_of_the_log_meet_a_check() {
    explore(None, || {
        let world = Arc::new(log(2));
        assert_eq!(admit(&world, 1, 1), 1);
        let other = spawn(&world, |log| admit(log, 1, 6));
        world.append(2, 5);
        let until = 15 + other.join().unwrap();
        assert_eq!(admit(&world, 1, until - 1), 0);
        assert_eq!(admit(&world, 2, 16), 2);
    });
}

/// A log is reset while it is charged and another thread helps.
#[test]
fn a_reset_of_the_log_meets_a_claim() {
    explore(Some(PAIR), || {
        let world = Arc::new(log(2));
        assert_eq!(admit(&world, 2, 1), 2);
        let other = spawn(&world, |log| admit(log, 1, 5));
        world.reset();
        let mine = admit(&world, 1, 5);
        let other = other.join().unwrap();
        assert_eq!(mine, 1);
        assert_eq!(admit(&world, 2, 5) + admit(&world, 1, 5), 1 - other);
        assert_eq!(admit(&world, 1, 14), 0);
    });
}

/// Asserts that admitted readings are a window apart.
fn apart(times: &[(u64, u64)], window: u64) {
    let mut admitted: Vec<_> =
        times.iter().filter(|(units, _)| *units > 0).map(|(_, now)| *now).collect();
    admitted.sort_unstable();
    for pair in admitted.windows(2) {
        assert!(pair[1] - pair[0] >= window, "{times:?}");
    }
}
