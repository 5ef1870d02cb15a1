//! Classes of calls that leave a share of a limit to others.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::counter::{ShardedCounter, SubWindowCounter};
use tidegate_engine::set::Ask;
use tidegate_engine::{
    Decision, DirectLimiter, FixedWindow, Limit, LimitSet, Limiter, LiveQuota, ManualClock, Quota,
    Rule, SlidingWindow,
};

/// What is asked, how long after the step before.
#[derive(Clone, Copy, Debug)]
struct Step {
    cost: u64,
    left: u64,
    wait_millis: u64,
}

fn step() -> impl Strategy<Value = Step> {
    (0..6_u64, 0..8_u64, 0..1_500_u64).prop_map(|(cost, left, wait_millis)| Step {
        cost,
        left,
        wait_millis,
    })
}

fn limiter<R: Rule>(rule: R, clock: &ManualClock) -> Limiter<R, ManualClock> {
    Limiter::builder(rule).capacity(10).clock(clock.clone()).build().unwrap()
}

/// Admitted exactly if the cost and the share fit, charged the cost alone, and says when it fits.
fn leaves_a_share(
    steps: &[Step],
    clock: &ManualClock,
    ask: impl Fn(u64, u64) -> Decision,
    peek_n: impl Fn(u64) -> Decision,
) -> Result<(), TestCaseError> {
    for Step { cost, left, wait_millis } in steps.iter().copied() {
        clock.advance(Duration::from_millis(wait_millis));
        let before = peek_n(1);
        let needed = if cost == 0 { 0 } else { cost + left };
        let expected = peek_n(needed);
        let decision = ask(cost, left);
        prop_assert_eq!(decision.is_allowed(), expected.is_allowed());
        if cost > 0 && decision.is_allowed() {
            prop_assert_eq!(decision.remaining() + cost, before.remaining());
            prop_assert!(decision.remaining() >= left);
        } else {
            prop_assert_eq!(decision, expected);
            prop_assert_eq!(peek_n(1), before, "nothing is charged");
        }
    }
    Ok(())
}

fn keyed<R: Rule>(rule: R, steps: &[Step]) -> Result<(), TestCaseError> {
    let clock = ManualClock::new();
    let limiter = limiter(rule, &clock);
    let ask = |cost, left| limiter.check_with_headroom("key", cost, left);
    leaves_a_share(steps, &clock, ask, |cost| limiter.peek_n("key", cost))?;
    as_object(&self::limiter(rule, &clock), steps, &clock)?;
    let direct = DirectLimiter::builder(rule).clock(clock.clone()).build().unwrap();
    as_object(&direct, steps, &clock)
}

/// As a limit of any kind: alone, and in a set.
fn as_object(limit: &dyn Limit, steps: &[Step], clock: &ManualClock) -> Result<(), TestCaseError> {
    let (alone, in_set) = steps.split_at(steps.len() / 2);
    let ask = |cost, left| limit.check_with_headroom("key", cost, left);
    leaves_a_share(alone, clock, ask, |cost| limit.peek_n("key", cost))?;
    let ask = |cost, left| {
        let set = LimitSet::new([Ask::new(limit, "key", cost).with_headroom(left)]).check();
        set.decisions().next().unwrap()
    };
    leaves_a_share(in_set, clock, ask, |cost| limit.peek_n("key", cost))
}

proptest! {
    #[test]
    fn a_class_is_admitted_while_its_share_is_left(steps in prop::collection::vec(step(), 1..60)) {
        let (quota, second) = (Quota::per_second(3).burst(10), Duration::from_secs(1));
        keyed(quota, &steps)?;
        keyed(LiveQuota::new(quota), &steps)?;
        keyed(FixedWindow::new(10, second), &steps)?;
        keyed(SlidingWindow::new(10, second), &steps)?;

        let clock = ManualClock::new();
        let direct = DirectLimiter::builder(quota).clock(clock.clone()).build().unwrap();
        let ask = |cost, left| direct.check_with_headroom(cost, left);
        leaves_a_share(&steps, &clock, ask, |cost| direct.peek_n(cost))?;

        let clock = ManualClock::new();
        let counter = SubWindowCounter::with_clock(10, second, clock.clone()).unwrap();
        as_object(&counter, &steps, &clock)?;
        let builder = ShardedCounter::builder(10, second).clock(clock.clone());
        as_object(&builder.build().unwrap(), &steps, &clock)?;

        let clock = ManualClock::new();
        let limiter = limiter(Quota::per_day(1), &clock);
        let given = limiter.with_quota(&quota).unwrap();
        let ask = |cost, left| given.check_with_headroom("key", cost, left);
        leaves_a_share(&steps, &clock, ask, |cost| given.peek_n("key", cost))?;
    }
}

#[test]
fn a_share_beyond_the_burst_admits_nothing_and_says_so() {
    let clock = ManualClock::new();
    let limiter = limiter(Quota::per_second(1).burst(5), &clock);
    assert!(limiter.check_with_headroom("key", 1, 4).is_allowed());
    clock.advance(Duration::from_secs(1));
    for left in [5, u64::MAX] {
        let denied = limiter.check_with_headroom("key", 1, left);
        assert!(!denied.is_allowed());
        assert_eq!(denied.retry_after(), None);
    }
    assert_eq!(limiter.peek("key").remaining(), 5);
}

/// Otherwise the less important class would take the share by asking for it.
#[test]
fn denials_for_want_of_the_share_are_not_charged() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(Quota::per_second(1).burst(4)).capacity(10).charge_denied(1);
    let limiter = builder.clock(clock.clone()).build().unwrap();
    assert!(limiter.check_n("key", 2).is_allowed());
    for _ in 0..5 {
        assert!(!limiter.check_with_headroom("key", 1, 2).is_allowed());
    }
    assert_eq!(limiter.peek("key").remaining(), 2);
    assert!(limiter.check_n("key", 2).is_allowed());
    let wait = limiter.check_with_headroom("key", 1, 2).retry_after();
    assert_eq!(wait, Some(Duration::from_secs(4)), "its own cost did not fit: charged");
}

/// However many threads of the less important class ask, the others find their share.
#[test]
fn threads_of_a_class_leave_the_share() {
    let clock = ManualClock::new();
    let limiter = limiter(Quota::per_second(1).burst(1_000), &clock);
    let admitted: u64 = std::thread::scope(|scope| {
        let ask = || (0..1_000).map(|_| limiter.check_with_headroom("key", 1, 400));
        let count = move || ask().filter(Decision::is_allowed).count() as u64;
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((admitted, limiter.peek("key").remaining()), (600, 400));
}
