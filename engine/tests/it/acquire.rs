//! Waiting for a key's turn, on a clock that is moved by hand.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::limiter::LimiterBuilder;
use tidegate_engine::observer::ObservedKey;
use tidegate_engine::wait::{Timer, Turn, Wait};
use tidegate_engine::{Clock, Decision, Limiter, ManualClock, Observer, Quota};

use crate::waiting::line::{
    agrees_with_the_oracle, any_quota, starts_keep_the_quota, steps, whole_quota,
};
use crate::waiting::{ManualSleep, ManualTimer, Task};

const SECOND: Duration = Duration::from_secs(1);

fn builder(quota: Quota, timer: &ManualTimer) -> LimiterBuilder<Quota, ManualClock> {
    Limiter::builder(quota).capacity(1_000).clock(timer.clock.clone())
}

fn limiter(quota: Quota) -> (Limiter<Quota, ManualClock>, ManualTimer) {
    let timer = ManualTimer::new();
    (builder(quota, &timer).build().unwrap(), timer)
}

/// The time until the key is fresh.
fn debt<C: Clock>(limiter: &Limiter<Quota, C>) -> Duration {
    limiter.peek("key").reset_after()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn starts_agree_with_the_oracle(quota in whole_quota(), steps in steps()) {
        let (limiter, timer) = limiter(quota);
        agrees_with_the_oracle(&quota, &timer.clock, steps, |cost, wait| {
            limiter.enqueue("key", cost, wait)
        })?;
    }

    #[test]
    fn starts_keep_the_quota_also_when_places_are_given_up(quota in any_quota(), steps in steps()) {
        let (limiter, timer) = limiter(quota);
        starts_keep_the_quota(&quota, &timer.clock, steps, |cost, wait| {
            limiter.enqueue("key", cost, wait)
        })?;
    }

    #[test]
    fn a_delay_stays_within_the_jitter_and_the_deadline(
        jitter in 0_u64..3_000,
        patience in 1_000_u64..3_000,
    ) {
        let (limiter, _) = limiter(Quota::per_second(1).burst(1));
        let (patience, jitter) = (Duration::from_millis(patience), Duration::from_millis(jitter));
        let wait = Wait::at_most(patience).jitter(jitter);
        let first = limiter.enqueue("key", 1, wait).unwrap();
        prop_assert_eq!(first.delay(), Duration::ZERO, "a call that fits at once is not delayed");
        let second = limiter.enqueue("key", 1, wait).unwrap().delay();
        prop_assert!(second >= SECOND && second <= SECOND + jitter);
        prop_assert!(second <= patience);
    }
}

#[test]
fn delays_are_spread_over_the_jitter() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(1));
    let wait = Wait::at_most(60 * SECOND).jitter(8 * SECOND);
    let mut eighths = [0; 8];
    for key in 0_u32..800 {
        let _ = limiter.enqueue(key, 1, wait).unwrap().keep();
        let seconds = limiter.enqueue(key, 1, wait).unwrap().delay().as_secs();
        eighths[(seconds as usize - 1).min(7)] += 1;
    }
    assert!(eighths.iter().all(|count| *count > 40), "{eighths:?}");
}

/// Trap: all waiters wake, find one slot and sleep again.
#[test]
fn trap_waiters_thundering_herd() {
    const WAITERS: usize = 100;
    let (limiter, timer) = limiter(Quota::per_second(1).burst(1));
    assert!(limiter.check("key").is_allowed());
    let mut tasks: Vec<_> = (0..WAITERS)
        .map(|_| Task::begun(limiter.acquire_on(&timer, "key", 1, 1_000 * SECOND)))
        .collect();
    assert_eq!(limiter.waiters(), WAITERS as u64);
    for place in 0..WAITERS {
        timer.advance(SECOND);
        let done: Vec<_> = tasks.iter_mut().map(Task::poll_if_woken).collect();
        for (index, done) in done.iter().enumerate() {
            assert_eq!(done.is_some_and(|decision| decision.is_allowed()), index == place);
        }
    }
    assert!(tasks.iter().all(|task| task.wakes() == 1));
    assert_eq!((timer.begun(), limiter.waiters()), (WAITERS as u64, 0));
}

/// Trap: a waiter is dropped, before or after it was woken, and all others wait for ever.
#[test]
fn trap_waiters_freeze_on_cancel() {
    const WAITERS: usize = 20;
    let (limiter, timer) = limiter(Quota::per_second(1).burst(1));
    assert!(limiter.check("key").is_allowed());
    let mut tasks: Vec<_> = (0..WAITERS)
        .map(|_| Some(Task::begun(limiter.acquire_on(&timer, "key", 1, 1_000 * SECOND))))
        .collect();
    // The first half is dropped: every other one now, the others once woken.
    for task in tasks.iter_mut().take(WAITERS / 2).step_by(2) {
        *task = None;
    }
    for (place, task) in tasks.iter_mut().enumerate() {
        timer.advance(SECOND);
        if place < WAITERS / 2 {
            assert!(task.take().is_none_or(|task| task.is_woken()));
        } else {
            let done = task.as_mut().and_then(Task::poll_if_woken);
            assert!(done.is_some_and(|decision| decision.is_allowed()), "{place} is left behind");
        }
    }
    assert_eq!((limiter.waiters(), timer.sleeping()), (0, 0));
    timer.advance(SECOND);
    assert!(limiter.check("key").is_allowed());
}

/// Trap: a cost above the burst that waits for ever.
#[test]
fn trap_cost_above_burst_waits_for_ever() {
    let (limiter, timer) = limiter(Quota::per_second(1).burst(5));
    for cost in [6, u64::MAX] {
        let mut task = Task::new(limiter.acquire_on(&timer, "key", cost, Duration::MAX));
        let denied = task.poll().expect("it does not wait");
        assert_eq!((denied.is_allowed(), denied.retry_after()), (false, None));
        assert_eq!(limiter.acquire_blocking("key", cost, Duration::MAX), denied);
    }
    assert_eq!((debt(&limiter), timer.begun()), (Duration::ZERO, 0));
    let (blocked, timer) = self::limiter(Quota::per_second(0));
    let mut task = Task::new(blocked.acquire_on(&timer, "key", 1, Duration::MAX));
    assert_eq!(task.poll().unwrap().retry_after(), None);
}

#[test]
fn a_wait_past_the_deadline_is_denied_at_once_and_charges_nothing() {
    let (limiter, timer) = limiter(Quota::per_second(1).burst(2));
    assert!(limiter.check_n("key", 2).is_allowed());
    for wait in [
        Wait::at_most(Duration::from_millis(1_999)),
        Wait::until(timer.clock.now().saturating_add(Duration::from_millis(1_999))),
    ] {
        let denied = Task::new(limiter.acquire_on(&timer, "key", 2, wait)).poll().unwrap();
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(1)));
        assert_eq!(limiter.acquire_blocking("key", 2, wait), denied);
    }
    assert_eq!((debt(&limiter), limiter.waiters()), (2 * SECOND, 0));
    let in_time = Wait::until(timer.clock.now().saturating_add(2 * SECOND));
    let mut task = Task::begun(limiter.acquire_on(&timer, "key", 2, in_time));
    timer.advance(2 * SECOND);
    assert!(task.poll_if_woken().unwrap().is_allowed());
}

#[test]
fn a_deadline_may_be_an_instant() {
    let (limiter, _) = limiter(Quota::per_hour(1).burst(1));
    assert!(limiter.check("key").is_allowed());
    let now = std::time::Instant::now();
    assert!(limiter.enqueue("key", 1, Wait::until(now)).is_err());
    let late = limiter.enqueue("key", 1, Wait::until(now + 3_000 * SECOND)).unwrap_err();
    assert!(late.retry_after().unwrap() >= 600 * SECOND);
    assert!(limiter.enqueue("key", 1, Wait::until(now + 7_200 * SECOND)).is_ok());
}

#[test]
fn a_call_that_does_not_wait_is_answered_as_a_check_is() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(2));
    for cost in [0, 1, 3, 1, 1, 0, 2] {
        let checked = limiter.check_n("checked", cost);
        let acquired = limiter.enqueue("acquired", cost, Duration::ZERO);
        let acquired = acquired.map_or_else(|denied| denied, Turn::keep);
        assert_eq!(acquired, checked, "cost {cost}");
    }
}

#[test]
fn no_check_passes_waiters_and_other_keys_do_not_notice() {
    let (limiter, timer) = limiter(Quota::per_second(1).burst(3));
    assert!(limiter.check_n("key", 3).is_allowed());
    let mut large = Task::begun(limiter.acquire_on(&timer, "key", 3, 60 * SECOND));
    for _ in 0..3 {
        assert!(!limiter.check("key").is_allowed());
        assert!(limiter.check("other").is_allowed());
        timer.advance(SECOND);
    }
    assert!(!limiter.check("key").is_allowed());
    assert!(large.poll_if_woken().unwrap().is_allowed());
}

/// A future is dropped at each possible point.
#[test]
fn a_dropped_future_leaves_what_was_there_before_it() {
    let (limiter, timer) = limiter(Quota::per_second(1).burst(1));
    assert!(limiter.check("key").is_allowed());
    let acquire = || limiter.acquire_on(&timer, "key", 1, 60 * SECOND);
    let now = timer.clock.now();

    drop(Task::new(acquire()));
    assert_eq!(debt(&limiter), SECOND, "an unpolled future has no place");

    let waiting = Task::begun(acquire());
    assert_eq!((debt(&limiter), limiter.waiters()), (2 * SECOND, 1));
    drop(waiting);
    assert_eq!((debt(&limiter), limiter.waiters(), timer.sleeping()), (SECOND, 0, 0));

    let woken = Task::begun(acquire());
    timer.advance(SECOND);
    assert!(woken.is_woken());
    drop(woken);
    assert_eq!((debt(&limiter), limiter.waiters()), (Duration::ZERO, 0));

    timer.clock.set(now);
    limiter.reset("key");
    assert!(limiter.check("key").is_allowed());
    let mut done = Task::begun(acquire());
    timer.advance(SECOND);
    assert!(done.poll_if_woken().unwrap().is_allowed());
    drop(done);
    assert_eq!((debt(&limiter), limiter.waiters()), (SECOND, 0), "what was used stays charged");
}

#[test]
fn as_many_wait_as_may_over_all_keys() {
    let timer = ManualTimer::new();
    let limiter = builder(Quota::per_second(1).burst(1), &timer).max_waiters(2).build().unwrap();
    for key in 0..3 {
        assert!(limiter.check(key).is_allowed());
    }
    let first = Task::begun(limiter.acquire_on(&timer, 0, 1, 60 * SECOND));
    let _second = Task::begun(limiter.acquire_on(&timer, 1, 1, 60 * SECOND));
    let mut third = Task::new(limiter.acquire_on(&timer, 2, 1, 60 * SECOND));
    assert_eq!(third.poll().unwrap().retry_after(), Some(SECOND));
    assert_eq!(limiter.waiters(), 2);
    assert!(limiter.enqueue(3, 1, SECOND).is_ok(), "a call that fits at once takes no waiter slot");
    drop(first);
    let _third = Task::begun(limiter.acquire_on(&timer, 2, 1, 60 * SECOND));
    assert_eq!(limiter.waiters(), 2);
}

/// Ends each sleep after a third of its time.
struct Hasty(ManualTimer);

impl Timer for Hasty {
    type Sleep = ManualSleep;

    fn sleep(&self, duration: Duration) -> ManualSleep {
        self.0.sleep(duration.div_ceil(3))
    }
}

trait DivCeil {
    fn div_ceil(self, by: u32) -> Self;
}

impl DivCeil for Duration {
    fn div_ceil(self, by: u32) -> Self {
        (self + Duration::from_nanos(u64::from(by) - 1)) / by
    }
}

#[test]
fn a_timer_that_wakes_early_starts_nothing_early() {
    let (limiter, timer) = limiter(Quota::per_second(1).burst(1));
    assert!(limiter.check("key").is_allowed());
    let hasty = Hasty(timer.clone());
    let mut task = Task::begun(limiter.acquire_on(&hasty, "key", 1, SECOND));
    for _ in 0..9 {
        timer.advance(Duration::from_millis(100));
        assert!(task.poll_if_woken().is_none());
    }
    timer.advance(Duration::from_millis(100));
    assert!(task.poll_if_woken().unwrap().is_allowed());
    assert!(timer.begun() > 1);
}

#[derive(Default)]
struct Notified {
    allowed: AtomicU64,
    denied: AtomicU64,
}

impl Observer for &Notified {
    fn on_decision(&self, _: ObservedKey<'_>, _: u64, decision: &Decision) {
        let count = if decision.is_allowed() { &self.allowed } else { &self.denied };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_observer_hears_one_decision_of_each_call() {
    let (timer, notified) = (ManualTimer::new(), Notified::default());
    let quota = Quota::per_second(1).burst(1);
    let limiter = builder(quota, &timer).observer(&notified).build().unwrap();
    let (_at_once, _later) = (limiter.enqueue(1, 1, SECOND), limiter.enqueue(1, 1, SECOND));
    assert!(limiter.enqueue(1, 1, SECOND).is_err());
    assert!(limiter.enqueue(1, 2, SECOND).is_err());
    let notified =
        (notified.allowed.load(Ordering::Relaxed), notified.denied.load(Ordering::Relaxed));
    assert_eq!(notified, (2, 2));
}

#[test]
fn a_cost_of_nothing_is_a_look_that_waits_for_nothing_and_takes_no_place() {
    let (limiter, timer) = limiter(Quota::per_second(1).burst(1));
    for key in 0..100 {
        assert_eq!(limiter.enqueue(key, 0, SECOND).unwrap().decision(), limiter.peek(key));
    }
    // A word that had been written would be debt to a caller with an earlier time.
    assert!(
        (0..100).all(|key| limiter.check_at(key, 0, Timestamp::ORIGIN).reset_after().is_zero())
    );
    limiter.charge_debt(limiter.hash("key"), 5 * SECOND, timer.clock.now());
    assert_eq!(limiter.enqueue("key", 0, 60 * SECOND).unwrap_err(), limiter.peek("key"));
}

#[test]
fn remote_debt_is_waited_for() {
    let (limiter, timer) = limiter(Quota::per_second(1).burst(1));
    limiter.charge_debt(limiter.hash("key"), 5 * SECOND, timer.clock.now());
    assert_eq!(limiter.enqueue("key", 1, 60 * SECOND).unwrap().delay(), 5 * SECOND);
}

/// What a thread has leased and what waits together keep the quota, and a wait reads the word
/// alone.
#[test]
fn leased_units_and_waiters_keep_the_quota_together() {
    let (timer, quota) = (ManualTimer::new(), Quota::per_second(1_000).burst(10_000));
    let limiter = builder(quota, &timer).lease_units(64).build().unwrap();
    assert!(limiter.lease_units() > 0);
    let mut starts = Vec::new();
    let mut leased = 0;
    for round in 0..60_000_u64 {
        if limiter.check("key").is_allowed() {
            starts.push((timer.clock.now(), 1));
        }
        leased = limiter.leased("key").max(leased);
        if round % 500 == 0 {
            let cost = 1 + round % 97;
            if let Ok(turn) = limiter.enqueue("key", cost, Duration::from_millis(round % 700)) {
                starts.push((turn.start(), cost));
                let _ = turn.keep();
            }
        }
        if round % 3 == 0 {
            timer.advance(Duration::from_micros(round % 5_000));
        }
    }
    assert!(leased > 0);
    starts.sort_unstable();
    let (mut tat, interval) = (0, 1_000_000);
    for (start, cost) in starts {
        let start = start.as_nanos();
        tat = tat.max(start) + cost * interval;
        assert!(tat - start <= quota.burst_size() * interval, "too much at {start}");
    }
}

/// A clock that can be made to panic.
struct Failing {
    clock: ManualClock,
    fails: AtomicBool,
}

impl Clock for Failing {
    fn now(&self) -> Timestamp {
        assert!(!self.fails.load(Ordering::Relaxed), "the clock fails");
        self.clock.now()
    }
}

#[test]
fn a_waiter_that_gives_up_while_the_clock_panics_waits_no_more() {
    let clock = Failing { clock: ManualClock::new(), fails: AtomicBool::new(false) };
    let limiter = Limiter::builder(Quota::per_second(1)).capacity(1).clock(clock).build().unwrap();
    assert!(limiter.check("key").is_allowed());
    let [dropped, cancelled] =
        [(), ()].map(|()| limiter.enqueue("key", 1, Duration::from_mins(1)).unwrap());
    assert_eq!(limiter.waiters(), 2);
    limiter.clock().fails.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(dropped))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| cancelled.cancel())).is_err());
    assert_eq!(limiter.waiters(), 0);
}
