//! A limiter without keys together with keyed ones, in sets and reservations.

use std::time::Duration;

use tidegate_engine::set::Ask;
use tidegate_engine::{
    CalendarWindow, DirectLimiter, FixedWindow, LimitSet, Limiter, ManualClock, Quota, Rule,
    SlidingWindow,
};

fn single<R: Rule>(rule: R, clock: &ManualClock) -> DirectLimiter<R, ManualClock> {
    DirectLimiter::builder(rule).clock(clock.clone()).build().unwrap()
}

fn keyed<R: Rule>(rule: R, clock: &ManualClock) -> Limiter<R, ManualClock> {
    Limiter::builder(rule).capacity(1).clock(clock.clone()).build().unwrap()
}

/// Whether it comes before or after the keyed one in the order of charging.
#[test]
fn a_set_that_is_denied_charges_no_single_limit() {
    let clock = ManualClock::new();
    let (all, user) = (single(Quota::per_hour(5), &clock), keyed(Quota::per_hour(2), &clock));
    for _ in 0..3 {
        let denied = LimitSet::new([all.ask(1), user.ask("user", 3)]).check();
        assert_eq!(denied.blocked().map(|blocked| blocked.index()), Some(1));
        let denied = LimitSet::new([user.ask("user", 1), all.ask(6).named("all")]).check();
        assert_eq!(denied.blocked().map(|blocked| blocked.name()), Some("all"));
    }
    assert_eq!((all.peek().remaining(), user.peek("user").remaining()), (5, 2));
    assert!(LimitSet::new([all.ask(5), user.ask("user", 2)]).check().is_allowed());
    assert_eq!((all.peek().remaining(), user.peek("user").remaining()), (0, 0));
}

/// There is one word, so asks under several names are asks of the same units.
#[test]
fn all_keys_of_a_direct_limit_are_asked_for_the_sum() {
    let clock = ManualClock::new();
    let all = single(Quota::per_second(1).burst(10), &clock);
    let denied = LimitSet::new([Ask::new(&all, "one", 6), Ask::new(&all, "two", 6)]).check();
    assert_eq!((denied.is_allowed(), denied.retry_after()), (false, None));
    assert_eq!(all.peek().remaining(), 10);
    assert!(LimitSet::new([Ask::new(&all, "one", 6), all.ask(4)]).check().is_allowed());
}

/// In sets, and with reservations that give back or take more, every figure is the keyed limiter's.
#[test]
fn sets_and_reservations_are_the_keyed_limiters() {
    fn compare<R: Rule>(rule: R) {
        let clock = ManualClock::new();
        let (single, keyed) = (single(rule, &clock), keyed(rule, &clock));
        for step in 0..3_000_u64 {
            clock.advance(Duration::from_millis(step.wrapping_mul(7_919) % 300));
            let (cost, actual) = (step % 5, step.wrapping_mul(31) % 7);
            if step % 3 == 0 {
                match (single.reserve(cost), keyed.reserve("key", cost)) {
                    (Ok(one), Ok(other)) => assert_eq!(one.commit(actual), other.commit(actual)),
                    (one, other) => assert_eq!(one.err(), other.err(), "{rule:?} {step}"),
                }
                continue;
            }
            let one = LimitSet::new([single.ask(cost), single.ask(1)]).check();
            let other = LimitSet::new([keyed.ask("key", cost), keyed.ask("key", 1)]).check();
            assert!(one.decisions().eq(other.decisions()), "{rule:?} {step}");
        }
    }
    compare(Quota::per_second(20).burst(9));
    compare(FixedWindow::per_second(19));
    compare(SlidingWindow::per_second(19));
    compare(CalendarWindow::per_minute(999).anchored(Duration::from_secs(1_700_000_000)));
}

/// While the rate still grows the wait is until the cost fits, not until it would at the whole
/// rate.
#[test]
fn a_set_knows_the_waits_of_a_limit_that_warms_up() {
    let clock = ManualClock::new();
    let builder = DirectLimiter::builder(Quota::per_second(10)).initial(0).clock(clock.clone());
    let cold = builder.warm_up(Duration::from_secs(10), 10).build().unwrap();
    let wait = LimitSet::new([cold.ask(1)]).check().retry_after().unwrap();
    assert!(wait > Duration::from_millis(500), "{wait:?}");
    assert_eq!(Some(wait), cold.check().retry_after());
    clock.advance(wait.saturating_sub(Duration::from_nanos(1)));
    assert!(!LimitSet::new([cold.ask(1)]).peek().is_allowed());
    clock.advance(Duration::from_nanos(1));
    let reserved = cold.reserve(1).unwrap();
    assert!(!cold.check().is_allowed());
    drop(reserved);
    assert!(cold.check().is_allowed());
}
