//! Quotas given with each call, and charged denials, against the exact oracle.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock as _, Limiter, ManualClock, Quota};

use crate::exact::Oracle;

/// The most nanoseconds by which two units of time, rounded both ways, differ.
const SLACK_NANOS: i128 = 8;

fn limiter(own: Quota) -> (Limiter<Quota, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(own).capacity(1).clock(clock.clone()).build().unwrap(), clock)
}

/// Limiters whose unit of time is 1 ns, and up to 2 ns.
fn own_quota() -> impl Strategy<Value = Quota> {
    prop_oneof![
        Just(Quota::per_second(1)),
        Just(Quota::new(10_000_000, Duration::from_nanos(19_999_999)).burst(1)),
        (1_u64..1_000_000_000).prop_map(|count| Quota::per_second(count).burst(1)),
    ]
}

/// Units admitted to a client that asks for `span` as often as its waits allow, which it follows
/// exactly.
fn admitted_in(own: Quota, quota: Quota, span: Duration, cost: u64) -> u64 {
    let (limiter, clock) = limiter(own);
    let (start, mut admitted) = (clock.now(), 0);
    loop {
        let decision = limiter.check_with("key", cost, &quota).unwrap();
        if decision.is_allowed() {
            admitted += cost;
        }
        clock.advance(decision.retry_after().unwrap());
        if clock.now().since(start) > span {
            return admitted;
        }
    }
}

/// Parts in a million by which a backlogged client's rate differs from the quota's.
fn rate_error_ppm(own: Quota, quota: Quota, units: u64) -> f64 {
    let span = quota.debt_of(units);
    let admitted = admitted_in(own, quota, span, 1) - quota.burst_size();
    (admitted as f64 / units as f64 - 1.0) * 1e6
}

#[test]
fn a_million_and_a_hundred_million_a_second_are_kept() {
    for own in [
        Quota::per_second(1),
        Quota::per_second(3),
        Quota::per_second(700_000_000),
        Quota::new(10_000_000, Duration::from_nanos(19_999_999)),
    ] {
        for (rate, most_ppm) in [
            (7, 100.0),
            (999_999, 100.0),
            (777_777, 100.0),
            (1_000_003, 100.0),
            (30_000_001, 1_000.0),
            (99_999_999, 10_000.0),
            (100_000_000, 10_000.0),
        ] {
            let quota = Quota::per_second(rate).burst(3);
            let error = rate_error_ppm(own, quota, 40_000);
            assert!(error.abs() <= most_ppm, "{rate} a second on {own:?}: {error} ppm");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_burst_is_exactly_a_burst(
        own in own_quota(),
        count in 1_u64..100_000_000,
        nanos in 0_u64..1_000_000,
        burst in 1_u64..100,
        start in 0_u64..1 << 57,
    ) {
        let (limiter, clock) = limiter(own);
        clock.set(Timestamp::from_nanos(start));
        let quota = Quota::new(count, Duration::from_nanos(1_000_000_000 + nanos)).burst(burst);
        for left in (0..burst).rev() {
            let decision = limiter.check_with("key", 1, &quota).unwrap();
            prop_assert!(decision.is_allowed());
            prop_assert_eq!(decision.remaining(), left);
        }
        prop_assert!(!limiter.check_with("key", 1, &quota).unwrap().is_allowed());
        prop_assert!(limiter.check_with("fresh", burst, &quota).unwrap().is_allowed());
    }

    /// Neither too early nor too late, however often it is checked, by more than a few nanoseconds:
    /// against an oracle that follows what was admitted from the start of history, not from one
    /// step to the next.
    #[test]
    fn one_quota_agrees_with_the_oracle_in_the_long_run(
        own in own_quota(),
        count in 2_u64..100_000_000,
        seconds in 1_u64..1_000,
        burst in 1_u64..60,
        steps in prop::collection::vec((0_u64..4, 0_u64..3, 0_u64..3), 1..600),
    ) {
        let quota = Quota::new(count, Duration::from_secs(seconds)).burst(burst);
        let interval = u64::try_from(quota.debt_of(1).as_nanos()).unwrap();
        prop_assume!(interval < 1 << 20);
        let (limiter, clock) = limiter(own);
        let mut oracle = Oracle::new(&quota);
        for (intervals, nanos, cost) in steps {
            clock.advance(Duration::from_nanos(intervals * interval / 2 + nanos));
            let now = clock.now().as_nanos();
            let missing = oracle.missing(now, cost);
            let decision = limiter.check_with("key", cost, &quota).unwrap();
            if cost > 0 && decision.is_allowed() {
                prop_assert!(missing <= oracle.at(SLACK_NANOS), "{missing} too early");
                oracle.admit(now, cost);
            } else if cost > 0 && cost <= burst {
                // Each time the key falls idle its rounding begins anew.
                let missing = missing + oracle.at(SLACK_NANOS);
                prop_assert!(missing > 0, "{missing} too late");
            }
            if let Some(wait) = decision.retry_after().filter(|_| !decision.is_allowed()) {
                let waited = limiter.clock().now().saturating_add(wait);
                clock.set(waited);
                let again = limiter.check_with("key", 0, &quota).unwrap();
                prop_assert!(again.remaining() >= cost, "waiting {wait:?} is not enough");
            }
        }
    }

    /// Besides the rate, of which an interval of more than 2^20 units is off by less than 10^-6.
    #[test]
    fn several_quotas_on_a_key_err_by_less_than_a_unit_a_charge(
        own in own_quota(),
        counts in prop::collection::vec(2_u64..100_000_000, 2..4),
        costs in prop::collection::vec(1_u64..4, 1..100),
    ) {
        let (limiter, _) = limiter(own);
        let (mut exact, mut charges) = (0.0, 0.0);
        for (round, cost) in costs.into_iter().enumerate() {
            let quota = Quota::per_second(counts[round % counts.len()]).burst(10_000);
            let decision = limiter.check_with("key", cost, &quota).unwrap();
            if decision.is_allowed() {
                exact += cost as f64 * 1e9 / quota.count() as f64;
                charges += 1.0;
                let debt = decision.reset_after().as_nanos() as f64;
                let slack = 2.0 * charges + 2.0 + exact * 1e-6;
                prop_assert!((debt - exact).abs() < slack, "{debt} for {exact}");
            }
        }
    }
}
