//! Sets that wait until all of their limits admit.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_engine::counter::SubWindowCounter;
use tidegate_engine::observer::ObservedKey;
use tidegate_engine::set::{Ask, SetDecision};
use tidegate_engine::wait::Wait;
use tidegate_engine::{
    Clock, Decision, DirectLimiter, FixedWindow, LimitSet, Limiter, ManualClock, Observer, Quota,
};

use crate::waiting::{ManualTimer, Task};

type Manual = Limiter<Quota, ManualClock>;

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

pub fn limiter(quota: Quota, timer: &ManualTimer) -> Manual {
    Limiter::builder(quota).capacity(100).clock(timer.clock.clone()).build().unwrap()
}

/// Advances in steps until the task ends, at most for a minute; what it ended with, and after how
/// long.
pub fn run<T>(timer: &ManualTimer, step: Duration, task: &mut Task<'_, T>) -> (T, Duration) {
    let begin = timer.clock.now();
    while timer.clock.now().since(begin) < 60 * SECOND {
        if let Some(output) = task.poll_if_woken() {
            return (output, timer.clock.now().since(begin));
        }
        timer.advance(step);
    }
    panic!("it does not end");
}

#[test]
fn a_set_that_fits_starts_at_once() {
    let timer = ManualTimer::new();
    let (host, account) =
        (limiter(Quota::per_second(10), &timer), limiter(Quota::per_minute(100), &timer));
    let mut task = Task::new(
        LimitSet::new([host.ask("host", 4), account.ask("account", 3)]).acquire_on(&timer, SECOND),
    );
    let decision = task.poll().unwrap();
    assert_eq!(decision.decisions().map(|it| it.remaining()).collect::<Vec<_>>(), [6, 97]);
    assert_eq!(timer.begun(), 0);
}

#[test]
fn a_set_starts_when_the_slowest_of_its_limits_admits() {
    let timer = ManualTimer::new();
    let (fast, slow) = (
        limiter(Quota::per_second(10).burst(1), &timer),
        limiter(Quota::per_second(1).burst(1), &timer),
    );
    let both = || [fast.ask("host", 1), slow.ask("account", 1)];
    assert!(LimitSet::new(both()).check().is_allowed());
    let mut task = Task::begun(LimitSet::new(both()).acquire_on(&timer, 2 * SECOND));
    // What the fast one has until then is for others.
    timer.advance(SECOND / 2);
    assert!(task.poll_if_woken().is_none_or(|_| false));
    assert!(fast.check("host").is_allowed());
    assert_eq!((fast.waiters(), slow.waiters()), (0, 1));
    let (decision, passed) = run(&timer, MILLISECOND, &mut task);
    assert!(decision.is_allowed() && decision.blocked().is_none());
    assert_eq!(passed, SECOND / 2);
    assert_eq!((fast.waiters(), slow.waiters()), (0, 0));
    assert!(!fast.check("host").is_allowed() && !slow.check("account").is_allowed());
}

/// Refused at once where the start would be too late, in whatever order; nothing stays charged.
#[test]
fn a_set_that_would_start_too_late_is_denied_at_once() {
    for reversed in [false, true] {
        let timer = ManualTimer::new();
        let limits = [
            limiter(Quota::per_second(10).burst(1), &timer),
            limiter(Quota::per_second(1).burst(1), &timer),
            limiter(Quota::per_hour(1_000).burst(1), &timer),
        ];
        let names = ["host", "account", "in all"];
        let set = |cost: u64| {
            let mut asks: Vec<_> = limits
                .iter()
                .zip(names)
                .map(|(limit, name)| limit.ask("k", cost).named(name))
                .collect();
            if reversed {
                asks.reverse();
            }
            LimitSet::new(asks)
        };
        assert!(set(1).check().is_allowed());
        let denied = Task::new(set(1).acquire_on(&timer, 3 * SECOND)).poll().unwrap();
        assert_eq!(denied.blocked().unwrap().name(), "in all");
        assert_eq!(denied.retry_after(), Some(SECOND * 6 / 10));
        let allowed: Vec<_> = denied.decisions().map(|it| it.is_allowed()).collect();
        assert_eq!(allowed.iter().filter(|allowed| !**allowed).count(), 1);
        let resets = limits.each_ref().map(|limit| limit.peek("k").reset_after());
        assert_eq!(resets, [SECOND / 10, SECOND, SECOND * 36 / 10]);
        // The time that is missing is enough.
        timer.advance(SECOND * 6 / 10);
        assert!(Task::new(set(1).acquire_on(&timer, 3 * SECOND)).poll().is_none());
        let never = Task::new(set(2).acquire_on(&timer, 3 * SECOND)).poll().unwrap();
        assert_eq!(never.retry_after(), None);
        assert!(limits.iter().all(|limit| limit.waiters() == 0));
    }
}

/// A line that gets too long while another one is waited for.
#[test]
fn a_set_that_cannot_start_in_time_any_more_gives_all_back() {
    let timer = ManualTimer::new();
    let first = limiter(Quota::per_second(1).burst(1), &timer);
    let second = limiter(Quota::per_second(10).burst(10), &timer);
    assert!(first.check("k").is_allowed());
    let asks = [first.ask("k", 1).named("first"), second.ask("k", 5).named("second")];
    let mut task = Task::begun(LimitSet::new(asks).acquire_on(&timer, SECOND + SECOND / 2));
    let _ = second.charge("k", 30);
    let (denied, passed) = run(&timer, MILLISECOND, &mut task);
    assert!(!denied.is_allowed() && passed <= SECOND);
    assert_eq!(denied.blocked().unwrap().name(), "second");
    timer.advance(SECOND.saturating_sub(passed));
    assert!(first.check("k").is_allowed());
    assert_eq!((first.waiters(), second.waiters()), (0, 0));
    assert_eq!(second.peek("k").reset_after(), 2 * SECOND);
}

/// Places of equal sets are in one order in all lines, in whatever order they name the limits.
#[test]
fn equal_sets_start_in_the_order_of_their_calls() {
    for (burst, cost) in [(1, 1), (3, 1), (3, 2)] {
        let timer = ManualTimer::new();
        let limits = [10, 10, 4].map(|rate| limiter(Quota::per_second(rate).burst(burst), &timer));
        let mut tasks: Vec<_> = (0..12)
            .map(|call| {
                let mut asks: Vec<_> = limits.iter().map(|limit| limit.ask("k", cost)).collect();
                asks.rotate_left(call % 3);
                Some(Task::new(LimitSet::new(asks).acquire_on(&timer, 60 * SECOND)))
            })
            .collect();
        for task in &mut tasks {
            if task.as_mut().unwrap().poll().is_some() {
                *task = None;
            }
        }
        let mut order = Vec::new();
        for _ in 0..10_000 {
            for (call, task) in tasks.iter_mut().enumerate() {
                if task.as_mut().is_some_and(|task| task.poll_if_woken().is_some()) {
                    order.push(call);
                    *task = None;
                }
            }
            timer.advance(MILLISECOND);
        }
        assert!(order.is_sorted() && order.last() == Some(&11), "{order:?}");
    }
}

#[test]
fn asks_of_one_key_are_one_charge() {
    let timer = ManualTimer::new();
    let limit = limiter(Quota::per_second(1).burst(3), &timer);
    let other = limiter(Quota::per_second(1).burst(9), &timer);
    assert!(limit.check_n("k", 3).is_allowed());
    let asks = [limit.ask("k", 1), other.ask("k", 2), limit.ask("k", 2)];
    let mut task = Task::begun(LimitSet::new(asks.clone()).acquire_on(&timer, 5 * SECOND));
    assert_eq!(limit.waiters(), 1);
    let (decision, passed) = run(&timer, MILLISECOND, &mut task);
    assert_eq!(passed, 3 * SECOND);
    assert_eq!(decision.decisions().map(|it| it.remaining()).collect::<Vec<_>>(), [0, 7, 0]);
    // Each fits alone, but not together.
    let asks = [limit.ask("k", 2), limit.ask("k", 2)];
    let never = Task::new(LimitSet::new(asks).acquire_on(&timer, 60 * SECOND)).poll().unwrap();
    assert_eq!(never.retry_after(), None);
}

#[test]
fn a_key_under_two_quotas_is_charged_under_each() {
    let timer = ManualTimer::new();
    let limit = limiter(Quota::per_second(1), &timer);
    let (slow, fast) = (Quota::per_second(1).burst(3), Quota::per_second(10).burst(60));
    let asks = || {
        let slow = limit.with_quota(&slow).unwrap().ask("k", 1);
        [limit.with_quota(&fast).unwrap().ask("k", 10), slow]
    };
    assert!(LimitSet::new(asks()).check().is_allowed());
    let mut task = Task::begun(LimitSet::new(asks()).acquire_on(&timer, 5 * SECOND));
    let (decision, passed) = run(&timer, MILLISECOND, &mut task);
    assert!(decision.is_allowed());
    assert_eq!(passed, SECOND);
    assert_eq!(limit.peek("k").reset_after(), 3 * SECOND);
    assert_eq!(limit.waiters(), 0);
}

#[test]
fn the_bound_on_waiters_holds_for_sets() {
    let timer = ManualTimer::new();
    let narrow = Limiter::builder(Quota::per_second(1).burst(1)).capacity(1);
    let narrow = narrow.clock(timer.clock.clone()).max_waiters(1).build().unwrap();
    let wide = limiter(Quota::per_second(1).burst(1), &timer);
    let set =
        || LimitSet::new([wide.ask("k", 1).named("wide"), narrow.ask("k", 1).named("narrow")]);
    assert!(set().check().is_allowed());
    let _waits = Task::begun(set().acquire_on(&timer, 10 * SECOND));
    assert_eq!((wide.waiters(), narrow.waiters()), (1, 1));
    let denied = Task::new(set().acquire_on(&timer, 10 * SECOND)).poll().unwrap();
    assert_eq!(denied.blocked().unwrap().name(), "narrow");
    assert_eq!((wide.waiters(), narrow.waiters()), (1, 1));
    assert_eq!(wide.peek("k").reset_after(), 2 * SECOND);
}

/// Polled k times and dropped, for each k: it leaves nothing behind, and later callers start
/// as if it had not been there.
#[test]
fn a_set_that_is_dropped_leaves_nothing() {
    for polls in 0..40 {
        let timer = ManualTimer::new();
        let limits = [
            limiter(Quota::per_second(2).burst(1), &timer),
            limiter(Quota::per_second(1).burst(2), &timer),
        ];
        let window = Limiter::builder(FixedWindow::new(2, 3 * SECOND)).capacity(1);
        let window = window.clock(timer.clock.clone()).build().unwrap();
        let counter = SubWindowCounter::with_clock(9, SECOND, timer.clock.clone()).unwrap();
        let asks = || {
            let [first, second] = limits.each_ref().map(|limit| limit.ask("k", 1));
            [window.ask("k", 1), second, counter.ask(1), first]
        };
        assert!(limits[0].check("k").is_allowed() && limits[1].check_n("k", 2).is_allowed());
        assert!(window.check_n("k", 2).is_allowed());
        let wait = Wait::at_most(9 * SECOND).jitter(SECOND);
        let mut task = Task::new(LimitSet::new(asks()).acquire_on(&timer, wait));
        let mut done = false;
        for _ in 0..polls {
            done |= task.poll().is_some();
            if done {
                break;
            }
            timer.advance(SECOND / 8);
        }
        drop(task);
        assert!(limits.iter().all(|limit| limit.waiters() == 0), "{polls}");
        if done {
            return;
        }
        let now = timer.clock.now();
        let drained = now.since(tidegate_engine::clock::Timestamp::from_nanos(1_000_000_000));
        // What began to drain as the set could have started counts as used.
        let tolerated = if drained >= 2 * SECOND { SECOND } else { Duration::ZERO };
        let [first, second] = limits.each_ref().map(|limit| limit.peek("k").reset_after());
        assert!(first <= (SECOND / 2).saturating_sub(drained) + tolerated / 2, "{polls}");
        assert!(second <= (2 * SECOND).saturating_sub(drained) + tolerated, "{polls}: {second:?}");
        assert_eq!(counter.peek().remaining(), 9, "{polls}");
        let left = if drained >= 2 * SECOND { 2 } else { 0 };
        assert_eq!(window.peek("k").remaining(), left, "{polls}");
    }
    panic!("it has never started");
}

#[test]
fn windows_and_counters_are_waited_for() {
    let timer = ManualTimer::new();
    let bucket = limiter(Quota::per_second(10).burst(1), &timer);
    let window = Limiter::builder(FixedWindow::new(3, SECOND)).capacity(1);
    let window = window.clock(timer.clock.clone()).build().unwrap();
    let direct = DirectLimiter::builder(Quota::per_second(5).burst(2)).clock(timer.clock.clone());
    let direct = direct.build().unwrap();
    let set = || {
        let asks = [bucket.ask("k", 1), window.ask("k", 1).named("window"), direct.ask(1)];
        LimitSet::new(asks)
    };
    let mut starts = Vec::new();
    for _ in 0..7 {
        let mut task = Task::new(set().acquire_on(&timer, 2 * SECOND));
        let (decision, passed) = match task.poll() {
            Some(decision) => (decision, Duration::ZERO),
            None => run(&timer, MILLISECOND, &mut task),
        };
        assert!(decision.is_allowed());
        starts.push(passed.as_millis());
    }
    // By the bucket, the direct limiter, and at last the window.
    assert_eq!(starts, [0, 100, 100, 800, 100, 100, 800]);
    // It says at once that it would take too long, and takes nothing.
    let full = window.check_n("k", 2);
    assert!(full.is_allowed());
    let denied = Task::new(set().acquire_on(&timer, SECOND / 2)).poll().unwrap();
    assert_eq!(denied.blocked().unwrap().name(), "window");
    assert_eq!(denied.retry_after(), Some(SECOND / 2));
    assert_eq!(bucket.waiters(), 0);
}

/// What a reservation gives back in front of a place that is held moves it up: it has drained by
/// the time at which the set starts, and is taken anew.
#[test]
fn what_others_give_back_is_not_started_on() {
    for gives_back in [false, true] {
        let timer = ManualTimer::new();
        let early = limiter(Quota::per_second(10).burst(10), &timer);
        let late = limiter(Quota::new(1, SECOND * 4 / 10).burst(1), &timer);
        assert!(late.check("k").is_allowed());
        let reserved = early.reserve("k", 5).unwrap();
        let asks = [early.ask("k", 1), late.ask("k", 1)];
        let mut task = Task::begun(LimitSet::new(asks).acquire_on(&timer, SECOND));
        assert_eq!((early.waiters(), late.waiters()), (1, 1));
        timer.advance(SECOND / 10);
        if gives_back {
            reserved.cancel();
        } else {
            let _ = reserved.commit(5);
        }
        let (decision, passed) = run(&timer, MILLISECOND, &mut task);
        assert!(decision.is_allowed());
        assert_eq!(passed, SECOND * 3 / 10);
        // From the start on, or behind what was reserved.
        let drains = if gives_back { SECOND / 10 } else { SECOND * 2 / 10 };
        assert_eq!(early.peek("k").reset_after(), drains);
    }
}

/// A set whose place has started notifies those behind it that have moved up, although it waits
/// for another limit.
#[test]
fn those_behind_a_place_that_is_put_off_move_up_in_time() {
    let timer = ManualTimer::new();
    let line = limiter(Quota::per_second(1).burst(3), &timer);
    let slow = limiter(Quota::new(1, SECOND * 5 / 2).burst(1), &timer);
    assert!(line.check_n("k", 3).is_allowed() && slow.check("k").is_allowed());
    let wait = || Task::begun(line.acquire_on(&timer, "k", 1, 10 * SECOND));
    let first = wait();
    let asks = [line.ask("k", 1), slow.ask("k", 1)];
    let mut set = Task::begun(LimitSet::new(asks).acquire_on(&timer, 10 * SECOND));
    let mut behind = wait();
    timer.advance(SECOND / 2);
    drop(first);
    let mut starts = [None; 2];
    for step in 1..=20 {
        timer.advance(SECOND / 8);
        while set.is_woken() || behind.is_woken() {
            if set.poll_if_woken().is_some() {
                starts[0] = Some(SECOND / 2 + SECOND / 8 * step);
            }
            if behind.poll_if_woken().is_some() {
                starts[1] = Some(SECOND / 2 + SECOND / 8 * step);
            }
        }
    }
    assert_eq!(starts, [Some(SECOND * 5 / 2), Some(2 * SECOND)]);
}

/// A place that would drain before a window ends is not held until then.
#[test]
fn a_window_that_ends_late_blocks_no_other_limit() {
    let timer = ManualTimer::new();
    let bucket = limiter(Quota::per_second(10).burst(1), &timer);
    let window = Limiter::builder(FixedWindow::new(1, 10 * SECOND)).capacity(1);
    let window = window.clock(timer.clock.clone()).build().unwrap();
    assert!(window.check("k").is_allowed() && bucket.check("k").is_allowed());
    let asks = [bucket.ask("k", 1), window.ask("k", 1)];
    let mut task = Task::begun(LimitSet::new(asks).acquire_on(&timer, 20 * SECOND));
    timer.advance(SECOND / 10);
    assert!(task.poll_if_woken().is_none());
    assert!(bucket.check("k").is_allowed());
    assert!(run(&timer, MILLISECOND, &mut task).0.is_allowed());
}

#[test]
fn a_deadline_is_one_of_each_clock_or_of_the_system() {
    let timer = ManualTimer::new();
    let limits = [1, 2].map(|rate| limiter(Quota::per_second(rate).burst(1), &timer));
    let set = || LimitSet::new(limits.each_ref().map(|limit| limit.ask("k", 1)));
    assert!(set().check().is_allowed());
    let now = timer.clock.now();
    let wait = |wait: Wait| Task::new(set().acquire_on(&timer, wait)).poll().is_none();
    assert!(wait(Wait::until(now.saturating_add(SECOND))));
    assert!(!wait(Wait::until(now.saturating_add(MILLISECOND * 999))));
    assert!(!wait(Wait::until(Instant::now())));
    assert!(wait(Wait::until(Instant::now() + 60 * SECOND)));
    assert!(wait(Wait::at_most(Duration::MAX)));
    assert!(limits.iter().all(|limit| limit.waiters() == 0));
}

#[test]
fn jitter_delays_a_start_within_the_wait() {
    let mut delayed = 0;
    for _ in 0..20 {
        let timer = ManualTimer::new();
        let limits = [1, 2].map(|rate| limiter(Quota::per_second(rate).burst(1), &timer));
        let set = || LimitSet::new(limits.each_ref().map(|limit| limit.ask("k", 1)));
        assert!(set().check().is_allowed());
        let wait = Wait::at_most(SECOND + SECOND / 2).jitter(10 * SECOND);
        let mut task = Task::begun(set().acquire_on(&timer, wait));
        let (decision, passed) = run(&timer, MILLISECOND, &mut task);
        assert!(decision.is_allowed() && passed >= SECOND && passed <= SECOND + SECOND / 2);
        delayed += u32::from(passed > SECOND);
    }
    assert!(delayed > 0);
}

#[test]
fn observers_hear_of_each_ask_once() {
    #[derive(Default)]
    struct Ears(Mutex<Vec<(u64, bool)>>);
    impl Observer for &Ears {
        fn on_decision(&self, _: ObservedKey<'_>, cost: u64, decision: &Decision) {
            self.0.lock().unwrap().push((cost, decision.is_allowed()));
        }
    }
    let (timer, wide, narrow) = (ManualTimer::new(), Ears::default(), Ears::default());
    let build = |burst, ears| {
        let builder = Limiter::builder(Quota::per_second(1).burst(burst)).capacity(1);
        builder.clock(timer.clock.clone()).observer(ears).build().unwrap()
    };
    let limits = (build(9, &wide), build(2, &narrow));
    let set = || LimitSet::new([limits.0.ask("", 2), limits.1.ask("", 2)]);
    assert!(set().check().is_allowed());
    let mut task = Task::begun(set().acquire_on(&timer, 2 * SECOND));
    assert_eq!(wide.0.lock().unwrap().len(), 1);
    assert!(run(&timer, MILLISECOND, &mut task).0.is_allowed());
    assert!(!Task::new(set().acquire_on(&timer, SECOND)).poll().unwrap().is_allowed());
    assert_eq!(*wide.0.lock().unwrap(), [(2, true), (2, true), (0, true)]);
    assert_eq!(*narrow.0.lock().unwrap(), [(2, true), (2, true), (2, false)]);
}

#[test]
fn threads_wait_for_several_limits() {
    const THREADS: usize = 4;
    let limits = [20_000, 5_000].map(|rate| {
        Arc::new(Limiter::builder(Quota::per_second(rate).burst(2)).capacity(100).build().unwrap())
    });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut asks: Vec<_> = limits.iter().map(|limit| limit.ask("k", 1)).collect();
            asks.rotate_left(thread % 2);
            scope.spawn(move || {
                for _ in 0..50 {
                    assert!(LimitSet::new(asks.clone()).acquire_blocking(60 * SECOND).is_allowed());
                }
            });
        }
    });
    assert!(limits.iter().all(|limit| limit.waiters() == 0));
    assert!(limits[1].clock().now().as_nanos() > 0);
}

/// With asks that keep their limits alive the future goes with a task.
#[cfg(feature = "acquire")]
#[test]
fn an_owned_set_waits_in_a_task_of_its_own() {
    fn spawns<T: Send + 'static>(future: T) -> T {
        future
    }
    type Owned = SetDecision<'static, [Ask<'static>; 2]>;

    let limits = [1_000, 500].map(|rate| {
        Arc::new(Limiter::builder(Quota::per_second(rate).burst(1)).capacity(100).build().unwrap())
    });
    for _ in 0..5 {
        let asks = limits.each_ref().map(|limit| limit.ask_owned("k", 1));
        let future = spawns(LimitSet::new(asks).acquire(60 * SECOND));
        let waits = std::thread::spawn(move || crate::waiting::block_on(future));
        let decision: Owned = waits.join().unwrap();
        assert!(decision.is_allowed());
    }
    assert!(limits.iter().all(|limit| limit.waiters() == 0));
}
