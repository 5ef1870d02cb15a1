use super::*;
use crate::{Limiter, ManualClock, Quota};

/// The values of both fields after the first check of a key.
fn fields(name: &str, quota: Quota, cost: u64) -> (String, String) {
    let limiter = Limiter::builder(quota).capacity(1).clock(ManualClock::new()).build().unwrap();
    let mut fields = RateLimitFields::default();
    let window = quota.debt_of(quota.burst_size());
    fields.push(&LimitName::new(name), Some(window), &limiter.check_n("k", cost));
    (fields.policy().into(), fields.state().into())
}

#[test]
fn any_remainder_counts_as_a_whole_second() {
    for (nanos, seconds) in [(0, 0), (1, 1), (1_000_000_000, 1), (1_000_000_001, 2)] {
        assert_eq!(seconds_up(Duration::from_nanos(nanos)), seconds);
    }
    assert_eq!(seconds_up(Duration::MAX), u64::MAX);
}

#[test]
fn seconds_are_rounded_up() {
    let (policy, state) = fields("default", Quota::per_second(100).burst(201), 1);
    assert_eq!(policy, r#""default";q=201;w=3"#);
    assert_eq!(state, r#""default";r=200;t=1"#);
}

#[test]
fn names_are_quoted_and_numbers_stay_in_range() {
    let quota = Quota::per_second(1_000_000_000).burst(1 << 56);
    let (policy, state) = fields("a\"b\\c\n\u{e9}", quota, 1);
    assert_eq!(policy, r#""a\"b\\c??";q=999999999999999;w=72057595"#);
    assert_eq!(state, r#""a\"b\\c??";r=999999999999999;t=1"#);
}

#[test]
fn each_limit_is_an_item_and_one_without_a_window_has_none() {
    let limiter = Limiter::builder(Quota::per_minute(5)).capacity(1).clock(ManualClock::new());
    let decision = limiter.build().unwrap().check("k");
    let mut fields = RateLimitFields::with_capacity(2);
    assert_eq!((fields.policy(), fields.state()), ("", ""));
    fields.push(&LimitName::new("a"), Some(Duration::from_secs(60)), &decision);
    fields.push(&LimitName::new("b"), None, &decision);
    assert_eq!(fields.policy(), r#""a";q=5;w=60, "b";q=5"#);
    assert_eq!(fields.state(), r#""a";r=4;t=12, "b";r=4;t=12"#);
}

/// A client that reads `t=0` asks again at once.
#[test]
fn what_no_time_brings_back_has_no_time() {
    let (policy, state) = fields("a", Quota::blocked(), 1);
    assert_eq!((policy.as_str(), state.as_str()), (r#""a";q=0;w=0"#, r#""a";r=0"#));
    assert_eq!(fields("a", Quota::per_day(2), 3).1, r#""a";r=2;t=0"#);
    let state = |decision: &Decision| {
        let mut text = String::new();
        write_state(&mut text, "a", decision).unwrap();
        text
    };
    assert_eq!(state(&Decision::allowed(3, 2, 0)), r#""a";r=2"#);
    assert_eq!(state(&Decision::allowed(3, 3, 0)), r#""a";r=3;t=0"#);
}
