//! The queue against an exact oracle, with real threads, and on a manual clock.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::snapshot::{RestoreError, Snapshot, SnapshotKind};
use tidegate_engine::wait::Wait;
use tidegate_engine::{Clock, DirectLimiter, FixedWindow, ManualClock, Queue, Quota, QuotaError};

use crate::waiting::line::{
    Operation, Step, agrees_with_the_oracle, any_quota, starts_keep_the_quota, steps, whole_quota,
};
use crate::waiting::{ManualTimer, Task};

const SECOND: Duration = Duration::from_secs(1);

fn queue(quota: Quota) -> (Queue<ManualClock>, ManualTimer) {
    let timer = ManualTimer::new();
    (Queue::with_clock(quota, timer.clock.clone()).unwrap(), timer)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn starts_agree_with_the_oracle(quota in whole_quota(), steps in steps()) {
        let (queue, timer) = queue(quota);
        let enqueue = |cost, wait| queue.enqueue(cost, wait);
        agrees_with_the_oracle(&quota, &timer.clock, steps, enqueue)?;
    }

    #[test]
    fn starts_keep_the_quota_also_when_places_are_given_up(quota in any_quota(), steps in steps()) {
        let (queue, timer) = queue(quota);
        starts_keep_the_quota(&quota, &timer.clock, steps, |cost, wait| queue.enqueue(cost, wait))?;
    }

    /// Through bytes, onto another clock, after any downtime: every wait and every denial is that
    /// of a queue that never stopped, whose starts are the oracle's.
    #[test]
    fn a_restored_line_moves_as_if_it_had_never_stopped(
        quota in whole_quota(),
        (before, after) in (steps(), steps()),
        other in prop_oneof![Just(0), 0_u64..1 << 50],
        down in prop_oneof![Just(0_u64), 0_u64..5_000_000_000],
    ) {
        let (queue, timer) = queue(quota);
        for step in before {
            let _ = join(&queue, &timer.clock, quota, step);
        }
        let bytes = queue.snapshot().to_bytes();
        let (restored, restored_timer) = self::queue(quota);
        restored_timer.clock.set(Timestamp::from_nanos(other));
        let down = Duration::from_nanos(down);
        let counts = restored.restore(Snapshot::from_bytes(&bytes).unwrap(), down).unwrap();
        timer.advance(down);
        prop_assert_eq!(counts.raised, u64::from(!queue.peek().reset_after().is_zero()));
        prop_assert_eq!(restored.peek(), queue.peek());
        for step in after {
            let expected = join(&queue, &timer.clock, quota, step);
            prop_assert_eq!(join(&restored, &restored_timer.clock, quota, step), expected);
        }
    }

    /// With any quota, to within one unit of time, and under another quota: the line is as long as
    /// before.
    #[test]
    fn a_restored_line_is_as_long_as_it_was(
        (quota, other) in (any_quota(), any_quota()),
        steps in steps(),
        down in 0_u64..5_000_000_000,
    ) {
        let (queue, timer) = queue(quota);
        for step in steps {
            let _ = join(&queue, &timer.clock, quota, step);
        }
        let down = Duration::from_nanos(down);
        let expected = queue.peek().reset_after().saturating_sub(down);
        for quota in [quota, other] {
            let (restored, _) = self::queue(quota);
            let _ = restored.restore(queue.snapshot(), down).unwrap();
            let found = restored.peek().reset_after();
            let error = found.abs_diff(expected);
            prop_assert!(error <= Duration::from_nanos(2), "{found:?} {expected:?}");
        }
    }
}

/// The result of a call that keeps its place: its wait, or the denial.
fn join(
    queue: &Queue<ManualClock>,
    clock: &ManualClock,
    quota: Quota,
    (thirds, nanos, operation): Step,
) -> Result<Duration, Option<Duration>> {
    let interval = (quota.period().as_nanos() / u128::from(quota.count())) as u64;
    clock.advance(Duration::from_nanos(thirds * interval / 3 + nanos));
    let Operation::Join(cost, intervals, nanos) = operation else { return Err(None) };
    let patience = Duration::from_nanos(intervals * interval + nanos);
    let turn = queue.enqueue(cost, patience).map_err(|denied| denied.retry_after())?;
    let wait = turn.delay();
    let _ = turn.keep();
    Ok(wait)
}

#[test]
fn restoring_makes_a_line_longer_or_leaves_it() {
    let quota = Quota::per_second(1).burst(1);
    let (longer, _) = queue(quota);
    for _ in 0..4 {
        let _ = longer.enqueue(1, 60 * SECOND).unwrap().keep();
    }
    let (queue, _) = queue(quota);
    let _ = queue.enqueue(1, SECOND).unwrap().keep();
    let before = queue.enqueue(1, 60 * SECOND).unwrap();
    let start = before.start();
    let restored = [(); 2].map(|()| queue.restore(longer.snapshot(), SECOND).unwrap());
    assert_eq!(restored.map(|restored| (restored.raised, restored.unchanged)), [(1, 0), (0, 1)]);
    assert_eq!((queue.peek().reset_after(), before.start()), (3 * SECOND, start));
    assert!(!before.cancel(), "the restored line is behind it");
    let after = queue.enqueue(1, 60 * SECOND).unwrap();
    assert_eq!(after.delay(), 3 * SECOND);
    assert!(after.cancel());
    assert_eq!(queue.peek().reset_after(), 3 * SECOND);
    assert_eq!(longer.restore(queue.snapshot(), Duration::ZERO).unwrap().unchanged, 1);
    assert_eq!(longer.peek().reset_after(), 4 * SECOND);
}

/// A line is debt, which a limiter under a quota saves too, and no other rule does.
#[test]
fn a_queue_takes_debts_only() {
    let quota = Quota::per_second(1).burst(4);
    let (queue, timer) = queue(quota);
    let single = DirectLimiter::builder(quota).clock(timer.clock.clone()).build().unwrap();
    assert!(single.check_n(3).is_allowed());
    assert_eq!(queue.restore(single.snapshot(), SECOND).unwrap().raised, 1);
    assert_eq!(queue.peek().reset_after(), 2 * SECOND);
    assert_eq!(queue.snapshot().kind(), SnapshotKind::Debts);
    let windows = FixedWindow::per_minute(9);
    let windows = DirectLimiter::builder(windows).clock(timer.clock.clone()).build().unwrap();
    let refused = Err(RestoreError::OtherKind(windows.snapshot().kind()));
    assert_eq!(queue.restore(windows.snapshot(), SECOND), refused);
    assert_eq!(queue.peek().reset_after(), 2 * SECOND);
}

#[test]
fn calls_leave_at_the_rate_in_the_order_in_which_they_came() {
    let (queue, timer) = queue(Quota::per_second(10).burst(1));
    let first = queue.enqueue(1, SECOND).unwrap();
    assert_eq!((first.delay(), queue.waiters()), (Duration::ZERO, 0));
    let mut tasks: Vec<_> =
        (0..5).map(|_| Task::begun(queue.acquire_on(&timer, 1, SECOND))).collect();
    assert_eq!(queue.waiters(), 5);
    for place in 0..5 {
        timer.advance(Duration::from_millis(99));
        assert!(tasks.iter().all(|task| !task.is_woken()), "too early at {place}");
        timer.advance(Duration::from_millis(1));
        let woken: Vec<_> = tasks.iter().map(Task::is_woken).collect();
        assert_eq!(woken.iter().filter(|woken| **woken).count(), 1);
        assert!(woken[0], "out of order");
        assert!(tasks.remove(0).poll().unwrap().is_allowed());
    }
    assert_eq!(queue.waiters(), 0);
}

#[test]
fn trap_waiters_freeze_on_cancel() {
    let (queue, _) = queue(Quota::per_second(1).burst(1));
    let wait = || queue.enqueue(1, 60 * SECOND).unwrap();
    let turns = [wait(), wait(), wait()];
    let [first, second, third] = turns;
    assert!(second.cancel());
    assert_eq!(third.delay(), SECOND, "another waiter was before it");
    assert!(third.cancel());
    assert_eq!(wait().delay(), SECOND);
    let _ = first.keep();
}

#[test]
fn places_given_up_from_the_end_are_all_taken_back() {
    let (queue, timer) = queue(Quota::per_second(1).burst(2));
    let mut turns: Vec<_> = (0..10).map(|_| queue.enqueue(2, 60 * SECOND).unwrap()).collect();
    while let Some(turn) = turns.pop() {
        assert!(turn.cancel());
    }
    assert_eq!(queue.peek().reset_after(), Duration::ZERO);
    timer.advance(SECOND);
    assert_eq!(queue.peek().remaining(), 2);
}

#[test]
fn a_place_that_was_kept_or_has_drained_is_not_taken_back() {
    let (queue, timer) = queue(Quota::per_second(1).burst(1));
    let turn = queue.enqueue(1, SECOND).unwrap();
    timer.advance(5 * SECOND);
    assert!(!turn.cancel());
    let _ = queue.enqueue(1, SECOND).unwrap().keep();
    assert_eq!(queue.peek().reset_after(), SECOND);
}

#[test]
fn a_wait_that_is_too_long_is_denied_at_once_with_a_time_to_retry() {
    let (queue, timer) = queue(Quota::per_second(1).burst(2));
    let start = timer.clock.now();
    let _ = queue.enqueue(2, Duration::ZERO).unwrap().keep();
    let denied = queue.enqueue(2, Duration::from_millis(500)).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(1_500)));
    assert_eq!((denied.limit(), denied.remaining(), denied.reset_after()), (2, 0, 2 * SECOND));
    let deadline = Wait::until(start.saturating_add(Duration::from_millis(1_999)));
    assert!(queue.enqueue(2, deadline).is_err());
    timer.advance(Duration::from_millis(1_500));
    let turn = queue.enqueue(2, Duration::from_millis(500)).unwrap();
    assert_eq!(turn.start(), start.saturating_add(2 * SECOND));
    assert!(queue.enqueue(1, Wait::until(Timestamp::ORIGIN)).is_err());
    let _ = turn.keep();
}

#[test]
fn as_many_wait_as_may_and_no_more() {
    let timer = ManualTimer::new();
    let queue = Queue::with_clock(Quota::per_second(1).burst(1), timer.clock.clone()).unwrap();
    let queue = queue.max_waiters(2);
    let _ = queue.enqueue(1, 60 * SECOND).unwrap().keep();
    let first = queue.enqueue(1, 60 * SECOND).unwrap();
    let second = queue.enqueue(1, 60 * SECOND).unwrap();
    assert_eq!(queue.waiters(), 2);
    let denied = queue.enqueue(1, 60 * SECOND).unwrap_err();
    assert_eq!(denied.retry_after(), Some(3 * SECOND));
    drop(first);
    let third = queue.enqueue(1, 60 * SECOND).unwrap();
    assert_eq!((second.delay(), third.delay()), (SECOND, 2 * SECOND));
    let _ = (second.keep(), third.keep());
    assert_eq!(queue.waiters(), 0);
    timer.advance(60 * SECOND);
    let at_once = queue.max_waiters(0);
    assert!(at_once.enqueue(1, SECOND).is_ok_and(|turn| turn.keep().is_allowed()));
    assert!(at_once.enqueue(1, SECOND).is_err());
}

#[test]
fn a_cost_of_nothing_is_a_look_and_one_above_the_burst_never_fits() {
    let (queue, _) = queue(Quota::per_second(1).burst(2));
    assert_eq!(queue.enqueue(0, SECOND).unwrap().decision().remaining(), 2);
    assert_eq!(queue.enqueue(3, Duration::MAX).unwrap_err().retry_after(), None);
    assert_eq!(queue.enqueue(u64::MAX, Duration::MAX).unwrap_err().retry_after(), None);
    let _ = queue.enqueue(2, Duration::ZERO).unwrap().keep();
    assert!(queue.enqueue(0, Duration::ZERO).is_ok());
    let _ = queue.enqueue(2, Duration::MAX).unwrap().keep();
    assert_eq!(queue.enqueue(0, SECOND).unwrap_err(), queue.peek());
    assert_eq!(queue.peek().retry_after(), Some(2 * SECOND));
}

/// A check shares one line with the calls that wait.
#[test]
fn a_check_takes_what_can_start_at_once_and_passes_no_waiter() {
    let (queue, timer) = queue(Quota::per_second(1).burst(2));
    assert_eq!(queue.check().remaining(), 1);
    let waits = queue.enqueue(2, 60 * SECOND).unwrap();
    assert_eq!(queue.check().retry_after(), Some(2 * SECOND));
    timer.advance(SECOND);
    assert!(!queue.check().is_allowed(), "a check overtook the waiter");
    assert!(waits.keep().is_allowed());
    timer.advance(SECOND);
    assert!(queue.check().is_allowed() && !queue.check().is_allowed());
    assert_eq!((queue.check_n(3).retry_after(), queue.waiters()), (None, 0));
}

#[test]
fn a_queue_begins_with_its_initial_units() {
    for units in [0, 1, 2, 3, u64::MAX] {
        let (queue, timer) = queue(Quota::per_second(1).burst(2));
        timer.advance(SECOND);
        let queue = queue.initial(units);
        assert_eq!(queue.peek().remaining(), units.min(2));
    }
    // What was used before is not given back.
    let (used, _) = queue(Quota::per_second(1).burst(2));
    let _ = used.enqueue(2, Duration::ZERO).unwrap().keep();
    assert_eq!(used.initial(1).peek().remaining(), 0);
    let (unlimited, _) = queue(Quota::unlimited());
    assert!(unlimited.initial(0).check_n(u64::MAX).is_allowed());
    let (blocked, _) = queue(Quota::blocked());
    assert!(!blocked.initial(1).check().is_allowed());
}

#[test]
fn trap_rate_0_burst_0_period_0() {
    let (queue, _) = queue(Quota::per_second(0));
    assert_eq!(queue.enqueue(1, Duration::MAX).unwrap_err().retry_after(), None);
    let wrong = Queue::new(Quota::per_second(1).burst(0));
    assert_eq!(wrong.err(), Some(QuotaError::ZeroBurst));
}

#[test]
fn an_unlimited_quota_lets_everybody_start_at_once() {
    let (queue, timer) = queue(Quota::unlimited());
    for cost in [1, u64::MAX] {
        let turn = queue.enqueue(cost, Duration::ZERO).unwrap();
        assert_eq!((turn.start(), turn.delay()), (timer.clock.now(), Duration::ZERO));
        assert!(turn.keep().is_allowed());
    }
    assert_eq!(queue.waiters(), 0);
}

#[test]
fn the_end_of_time_refuses_and_mints_nothing() {
    let (queue, timer) = queue(Quota::per_hour(1).burst(10_000));
    timer.clock.set(Timestamp::from_nanos(u64::MAX));
    let mut granted = 0;
    while let Ok(turn) = queue.enqueue(10_000, Duration::MAX) {
        let _ = turn.keep();
        granted += 1;
        assert!(granted < 1_000, "time stands still, yet there is room");
    }
    assert!(queue.enqueue(10_000, Duration::MAX).unwrap_err().retry_after().is_some());
}

/// Threads on a running clock: no waiter starts before its time, and starts keep the quota.
#[test]
fn starts_of_many_threads_are_an_interval_apart() {
    const THREADS: usize = 8;
    const CALLS: usize = 200;
    let interval = Duration::from_micros(10);
    let queue = Queue::new(Quota::new(1, interval)).unwrap();
    let calls = || {
        (0..CALLS)
            .map(|_| {
                let turn = queue.enqueue(1, 60 * SECOND).unwrap();
                let start = turn.start();
                assert!(turn.block().is_allowed());
                assert!(queue.clock().now() >= start, "started too early");
                start
            })
            .collect::<Vec<_>>()
    };
    let mut starts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(calls)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    starts.sort_unstable();
    assert_eq!(starts.len(), THREADS * CALLS);
    for pair in starts.windows(2) {
        assert!(pair[1].since(pair[0]) >= interval, "{pair:?}");
    }
    assert_eq!(queue.waiters(), 0);
}
