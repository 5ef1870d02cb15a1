//! Mistakes that combinations of several limits have made, each as a test.

use std::time::Duration;

use tidegate_engine::{LimitSet, Limiter, ManualClock, Quota};

fn limiter(quota: Quota) -> Limiter<Quota, ManualClock> {
    Limiter::builder(quota).capacity(1_000).clock(ManualClock::new()).build().unwrap()
}

#[test]
fn trap_composite_limits_leak_tokens_when_a_later_one_denies() {
    let (user, address, all) = (
        limiter(Quota::per_minute(60).burst(10)),
        limiter(Quota::per_minute(60).burst(10)),
        limiter(Quota::per_hour(1).burst(1)),
    );
    assert!(all.check("all").is_allowed());
    for _ in 0..100 {
        let decision = LimitSet::new([
            user.ask("user", 1),
            address.ask("address", 1),
            all.ask("all", 1).named("in all"),
        ])
        .check();
        assert_eq!(decision.blocked().map(|blocked| blocked.name()), Some("in all"));
        assert_eq!(decision.retry_after(), Some(Duration::from_hours(1)));
    }
    assert_eq!(user.peek("user").remaining(), 10);
    assert_eq!(address.peek("address").remaining(), 10);
}

/// Each would fit alone; both together never fit.
#[test]
fn one_limit_that_stands_twice_in_a_set_is_asked_for_the_sum() {
    let limiter = limiter(Quota::per_second(1).burst(10));
    let decision = LimitSet::new([limiter.ask("key", 6), limiter.ask("key", 6)]).check();
    assert_eq!((decision.is_allowed(), decision.retry_after()), (false, None));
    assert_eq!(limiter.peek("key").remaining(), 10);
    assert!(LimitSet::new([limiter.ask("key", 6), limiter.ask("key", 4)]).check().is_allowed());
    let decision = LimitSet::new([limiter.ask("key", 1), limiter.ask("key", 2)]).check();
    assert_eq!(decision.retry_after(), Some(Duration::from_secs(3)));
}

#[test]
fn trap_cost_above_burst_waits_for_ever() {
    let (small, large) = (limiter(Quota::per_second(1).burst(5)), limiter(Quota::per_hour(1)));
    assert!(large.check("key").is_allowed());
    for cost in [6, 1_844_674_409, u64::MAX] {
        let asks = [large.ask("key", 1), small.ask("key", cost), small.ask("key", u64::MAX)];
        let decision = LimitSet::new(asks).check();
        assert_eq!(decision.retry_after(), None, "{cost}");
        assert_eq!(decision.blocked().map(|blocked| blocked.index()), Some(1));
    }
    assert_eq!(small.peek("key").remaining(), 5);
}

/// The first one to deny is not the one to wait for.
#[test]
fn the_wait_is_that_of_the_slowest_limit() {
    let (fast, slow) = (limiter(Quota::per_second(1).burst(1)), limiter(Quota::per_hour(1)));
    assert!(fast.check("key").is_allowed() && slow.check("key").is_allowed());
    let decision = LimitSet::new([fast.ask("key", 1), slow.ask("key", 1)]).check();
    assert_eq!(decision.retry_after(), Some(Duration::from_hours(1)));
}

#[test]
fn a_refund_after_the_debt_has_drained_mints_nothing() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(Quota::per_second(1).burst(10)).capacity(1_000);
    let limiter = builder.clock(clock.clone()).build().unwrap();
    let reserved = limiter.reserve("key", 10);
    clock.advance(Duration::from_secs(10));
    assert!(limiter.check_n("key", 10).is_allowed());
    drop(reserved);
    assert!(!limiter.check("key").is_allowed());
}
