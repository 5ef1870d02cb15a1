//! A thread that stalls for good before any of its accesses: others decide as if it had been
//! admitted, or as if not.

use core::time::Duration;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::base::decision::Decision;
use crate::base::sync::watched;

use super::log::Log;
#[cfg(feature = "std")]
use super::sharded::UnitShards;
use super::sub_window::SubWindows;

/// Unwinds a thread that is stopped.
struct Stopped;

/// Runs `act` up to its access `number`; returns whether it ended before.
fn stop_before(number: usize, act: impl FnOnce()) -> bool {
    let left = Cell::new(number);
    let hook = move || match left.get().checked_sub(1) {
        Some(less) => left.set(less),
        None => resume_unwind(Box::new(Stopped)),
    };
    catch_unwind(AssertUnwindSafe(|| watched::watch(hook, act))).is_ok()
}

/// Stops a thread before each of its accesses, each time in a new `world`.
fn stop_everywhere<W>(world: impl Fn() -> W, act: impl Fn(&W), after: impl Fn(&W, usize)) {
    const MOST: usize = 1_000;
    for number in 0..MOST {
        let world = world();
        let ended = stop_before(number, || act(&world));
        after(&world, number);
        if ended {
            assert!(number > 0, "nothing was stopped");
            return;
        }
    }
    panic!("the thread does not end");
}

fn admitted(check: impl Fn() -> Decision) -> u64 {
    (0..10).map(|_| u64::from(check().is_allowed())).sum()
}

/// Two sub-windows of 5, the first one with 2 units of 3.
fn sub_windows() -> SubWindows {
    let window = SubWindows::new(3, Duration::from_nanos(10), 2).unwrap();
    assert!(window.take(2, 2, 1).is_ok());
    window
}

#[test]
fn a_turn_is_finished_by_others() {
    let take = |window: &SubWindows, now| admitted(|| window.check(1, now));
    stop_everywhere(
        sub_windows,
        |window| {
            let _ = window.check(1, 6);
        },
        |window, number| {
            assert!(take(window, 6) <= 1, "{number}");
            assert_eq!(window.peek(6).remaining(), 0, "{number}");
            // The first sub-window expires at 15, and only its two units expire with it.
            assert_eq!(take(window, 14), 0, "{number}");
            assert_eq!(take(window, 15), 2, "{number}");
            assert_eq!(take(window, 20), 1, "{number}");
        },
    );
}

#[test]
fn a_reset_is_finished_by_others() {
    stop_everywhere(
        sub_windows,
        |window| {
            let _ = window.check(1, 6);
            window.ring.reset(6);
            let _ = window.check(3, 6);
        },
        |window, number| {
            assert!(admitted(|| window.check(1, 6)) <= 3, "{number}");
            assert_eq!(window.peek(6).remaining(), 0, "{number}");
            let at_15 = admitted(|| window.check(1, 15));
            let at_20 = admitted(|| window.check(1, 20));
            assert_eq!(at_15 + at_20, 3, "{number}");
        },
    );
}

/// In the sub-window of the units, and after the next one has begun.
#[test]
fn a_give_back_is_made_or_not() {
    for next in [None, Some(6)] {
        let world = || {
            let window = sub_windows();
            if let Some(now) = next {
                assert!(window.take(1, 1, now).is_ok());
            }
            window
        };
        let used = 2 + u64::from(next.is_some());
        stop_everywhere(
            world,
            |window| window.ring.give_back(1, 2),
            |window, number| {
                let now = next.unwrap_or(4);
                let left = window.peek(now).remaining();
                assert!(left == 3 - used || left == 5 - used, "{number}: {left}");
                assert_eq!(admitted(|| window.check(1, now)), left, "{number}");
                assert_eq!(admitted(|| window.check(1, 20)), 3, "{number}");
            },
        );
    }
}

/// For a check, and for units that are restored.
#[test]
fn a_claim_in_the_log_is_finished_by_others() {
    let world = || {
        let log = Log::new(3, 10).unwrap();
        assert!(log.check_at(1, 1).is_allowed());
        log
    };
    let check = |log: &Log| {
        let _ = log.check_at(2, 5);
    };
    let restore = |log: &Log| log.append(2, 5);
    for claim in [check as fn(&Log), restore] {
        stop_everywhere(world, claim, |log, number| {
            let others = admitted(|| log.check_at(1, 6));
            assert!(others == 2 || others == 0, "{number}");
            assert_eq!(admitted(|| log.check_at(1, 10)), 0, "{number}");
            assert_eq!(admitted(|| log.check_at(1, 11)), 1, "{number}");
            assert_eq!(admitted(|| log.check_at(1, 14)), 0, "{number}");
            assert_eq!(admitted(|| log.check_at(1, 16)), 2, "{number}");
        });
    }
}

/// Before the claim there are enough expired units that others use binary search for the first that
/// counts.
#[test]
fn a_claim_that_is_not_written_counts_in_full() {
    let world = || {
        let log = Log::new(16, 10).unwrap();
        assert!(log.check_at(10, 1).is_allowed());
        log
    };
    stop_everywhere(
        world,
        |log| {
            let _ = log.check_at(4, 5);
        },
        |log, number| {
            let left = log.check_at(0, 6).remaining();
            assert!(left == 6 || left == 2, "{number}");
            assert!(log.check_at(left + 10, 11).is_allowed(), "{number}");
            assert!(!log.check_at(1, 14).is_allowed(), "{number}");
        },
    );
}

/// The helper has an earlier reading than the thread whose claim it finishes.
#[test]
fn a_late_helper_writes_no_earlier_time() {
    let world = || Log::new(2, 10).unwrap();
    stop_everywhere(
        world,
        |log| {
            let _ = log.check_at(2, 100);
        },
        |log, number| {
            let claimed = log.check_at(2, 95).is_allowed();
            let first = if claimed { 105 } else { 110 };
            // The latest time may have been raised before the claim failed.
            assert!(!log.check_at(1, first - 1).is_allowed(), "{number}");
            assert_eq!(admitted(|| log.check_at(1, 110)), 2, "{number}");
        },
    );
}

#[cfg(feature = "std")]
#[test]
fn a_block_is_lost_at_worst() {
    let world = || {
        let source = SubWindows::new(5, Duration::from_nanos(10), 2).unwrap();
        UnitShards::new(source, 2, 2).unwrap()
    };
    stop_everywhere(
        world,
        |shards| {
            let _ = shards.check(0, 1, 1, || ());
        },
        |shards, number| {
            let others = admitted(|| shards.check(1, 1, 1, || ()));
            assert!((3..=5).contains(&others), "{number}: {others}");
            assert_eq!(admitted(|| shards.check(0, 1, 15, || ())), 5, "{number}");
        },
    );
}

#[cfg(feature = "std")]
#[test]
fn units_are_found_in_whichever_shard_they_lie() {
    let source = SubWindows::new(5, Duration::from_nanos(10), 2).unwrap();
    let shards = UnitShards::new(source, 2, 3).unwrap();
    assert!(shards.check(0, 1, 1, || ()).is_allowed());
    assert_eq!(admitted(|| shards.check(1, 1, 1, || ())), 4);
}
