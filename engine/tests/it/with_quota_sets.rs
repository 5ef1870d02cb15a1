//! Sets of limits that are asked under quotas given with the call.

use std::time::Duration;

use tidegate_engine::{LimitSet, ManualClock, Quota};

use crate::with_quota::{SECOND, limiter, on};

#[test]
fn a_set_charges_all_or_nothing_under_the_plans_of_its_keys() {
    let clock = ManualClock::new();
    let (users, tokens) = (on(&clock, Quota::per_second(1)), on(&clock, Quota::per_second(1)));
    let (few, many) = (Quota::per_second(1).burst(2), Quota::per_hour(3_600_000).burst(500));
    let set = |cost| {
        let user = users.with_quota(&few).unwrap().ask("user", 1);
        let tokens = tokens.with_quota(&many).unwrap().ask("user", cost);
        LimitSet::new([user.named("user"), tokens.named("tokens")]).check()
    };
    assert!(set(400).is_allowed());
    let denied = set(200);
    assert_eq!(denied.blocked().unwrap().name(), "tokens");
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
    assert!(set(100).is_allowed());
    assert_eq!(set(0).blocked().unwrap().name(), "user");
    let asks = [
        users.with_quota(&few).unwrap().ask("b", 2),
        tokens.with_quota(&many).unwrap().ask("b", 300),
    ];
    let left = LimitSet::new(asks).reserve().unwrap().commit([1, 200]).unwrap();
    assert_eq!((left.limit(), left.remaining()), (2, 1));
    assert_eq!(tokens.with_quota(&many).unwrap().peek("b").remaining(), 300);
}

/// A key under two quotas in one set: neither is exceeded, and nothing is charged if one denies.
/// Each fits alone, so the first check allows both; the second ask is decided after the first, so
/// their order matters.
#[test]
fn a_set_may_ask_one_key_under_two_quotas() {
    let (limiter, clock) = limiter(Quota::per_second(1));
    let (slow, fast) = (Quota::per_second(1).burst(2), Quota::per_second(10).burst(12));
    let ask = |slow_units, fast_units| {
        let slow = limiter.with_quota(&slow).unwrap().ask("key", slow_units);
        LimitSet::new([slow, limiter.with_quota(&fast).unwrap().ask("key", fast_units)])
    };
    let reversed = |slow_units, fast_units| {
        let fast = limiter.with_quota(&fast).unwrap().ask("key", fast_units);
        LimitSet::new([fast, limiter.with_quota(&slow).unwrap().ask("key", slow_units)])
    };
    for units in [3_u32, 10] {
        for waits in 0..2 {
            assert!(
                ask(1, units.into()).peek().is_allowed()
                    && reversed(1, units.into()).peek().is_allowed()
            );
            let denied = ask(1, units.into()).check();
            assert_eq!(denied.blocked().map(|blocked| blocked.index()), Some(1), "{waits}");
            // The key is fresh, and the wait for the second quota after the first one never ends.
            assert_eq!(denied.retry_after(), Some(SECOND / 10 * (units - 2)));
            assert_eq!(limiter.live().count(), 0);
            clock.advance(SECOND);
        }
        assert!(reversed(1, units.into()).check().is_allowed());
        assert_eq!(limiter.peek("key").reset_after(), SECOND + SECOND / 10 * units);
        limiter.reset("key");
    }
    let left = ask(1, 2).reserve().unwrap().commit([0, 1]);
    assert_eq!(left.map(|left| (left.limit(), left.remaining())), Some((2, 1)));
    assert_eq!(limiter.peek("key").reset_after(), SECOND / 10);
}

/// Asks under one quota are one charge, whatever is between them, and each charge is settled
/// separately.
#[test]
fn a_set_adds_up_the_asks_of_a_key_under_each_quota() {
    let (limiter, _) = limiter(Quota::per_second(1));
    let (slow, fast) = (Quota::per_second(1).burst(4), Quota::per_second(10).burst(30));
    let (slow, fast) = (limiter.with_quota(&slow).unwrap(), limiter.with_quota(&fast).unwrap());
    let asks = [slow.ask("key", 1), fast.ask("key", 5), slow.ask("key", 1), fast.ask("key", 5)];
    let checked = LimitSet::new(asks.clone()).check();
    let left: Vec<_> = checked.decisions().map(|decision| decision.remaining()).collect();
    assert_eq!(left, [2, 0, 2, 0]);
    limiter.reset("key");
    let left = LimitSet::new(asks.clone()).reserve().unwrap().commit([0, 3, 1, 4]);
    assert_eq!(left.map(|left| (left.limit(), left.remaining())), Some((4, 2)));
    assert_eq!(limiter.peek("key").reset_after(), SECOND + 7 * SECOND / 10);
    limiter.reset("key");
    LimitSet::new(asks).reserve().unwrap().cancel();
    assert_eq!(limiter.live().count(), 0);
}
