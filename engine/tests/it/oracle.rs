//! Decisions against an exact oracle in rational arithmetic.
//!
//! Where the emission interval is a whole number of nanoseconds the
//! limiter must agree in every figure; elsewhere the clock's rounding to a unit is the only
//! difference it may show.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock, Limiter, ManualClock, Quota};

use crate::exact::{Oracle, answer};

/// A gap before a check, in emission intervals and nanoseconds, and the check's cost.
type Step = (u64, u64, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![4 => Just(0_u64), 4 => 0_u64..3, 1 => 0_u64..50];
    let nanos = prop_oneof![3 => Just(0_u64), 3 => 0_u64..5, 1 => 0_u64..2_000_000];
    let cost = prop_oneof![6 => Just(1_u64), 3 => 0_u64..6, 1 => any::<u64>()];
    prop::collection::vec((gap, nanos, cost), 1..200)
}

fn whole_interval_quota() -> impl Strategy<Value = Quota> {
    let count =
        prop::sample::select(vec![1_u64, 2, 5, 8, 100, 1_000, 40_000, 1_000_000, 10_u64.pow(9)]);
    let period = prop::sample::select(vec![1_u64, 60, 3_600, 86_400]);
    (count, period, 1_u64..60).prop_map(|(count, period, burst)| {
        Quota::new(count, Duration::from_secs(period)).burst(burst)
    })
}

fn any_quota() -> impl Strategy<Value = Quota> {
    (1_u64..100_000_000, 1_u64..100_000, 1_u64..60).prop_map(|(count, seconds, burst)| {
        Quota::new(count, Duration::from_secs(seconds)).burst(burst)
    })
}

fn limiter(quota: Quota) -> Limiter<Quota, ManualClock> {
    Limiter::builder(quota).capacity(13_107).clock(ManualClock::new()).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn whole_nanosecond_intervals_agree_in_every_figure(
        quota in whole_interval_quota(),
        start in 0_u64..1 << 50,
        steps in steps(),
    ) {
        let (limiter, mut oracle) = (limiter(quota), Oracle::new(&quota));
        let interval = u64::try_from(quota.period().as_nanos()).unwrap() / quota.count();
        let mut now = start;
        for (gap, nanos, cost) in steps {
            now += gap * interval + nanos;
            let decision = limiter.check_at("key", cost, Timestamp::from_nanos(now));
            prop_assert_eq!(answer(&decision), oracle.check(now, cost));
            prop_assert_eq!(decision.limit(), quota.burst_size());
        }
    }

    #[test]
    fn any_quota_is_off_by_less_than_a_unit_of_time(
        quota in any_quota(),
        start in 0_u64..1 << 50,
        steps in steps(),
    ) {
        // A unit is below 2 ns; the scale's own rounding stays far below another nanosecond.
        const SLACK_NANOS: i128 = 3;
        let (limiter, mut oracle) = (limiter(quota), Oracle::new(&quota));
        let interval = u64::try_from(quota.period().as_nanos()).unwrap() / quota.count();
        let mut now = start;
        for (gap, nanos, cost) in steps {
            now += gap * interval + nanos;
            // The oracle follows what was admitted, so that one early admission does not fail every
            // later check.
            let missing = oracle.missing(now, cost);
            let decision = limiter.check_at("key", cost, Timestamp::from_nanos(now));
            let slack = oracle.at(SLACK_NANOS);
            if decision.is_allowed() {
                prop_assert!(missing <= slack, "admitted {missing} units too early");
                oracle.admit(now, cost);
            } else {
                prop_assert!(missing > -slack, "denied though {missing} units had room");
            }
        }
    }

    #[test]
    fn every_interval_admits_at_most_burst_plus_rate_times_time(
        quota in any_quota(),
        steps in steps(),
    ) {
        let limiter = limiter(quota);
        let interval = u64::try_from(quota.period().as_nanos()).unwrap() / quota.count();
        let (mut now, mut admitted) = (0, Vec::new());
        for (gap, nanos, cost) in steps {
            now += gap * interval + nanos;
            if limiter.check_at("key", cost, Timestamp::from_nanos(now)).is_allowed() {
                admitted.push((i128::from(now), i128::from(cost)));
            }
        }
        let (period, count) = (quota.period().as_nanos().cast_signed(), i128::from(quota.count()));
        for (first, (from, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for (until, cost) in &admitted[first..] {
                sum += cost;
                // One unit, below 2 ns, is the error of an interval's length.
                let bound = i128::from(quota.burst_size()) * period + (until - from + 2) * count;
                prop_assert!(sum * period <= bound);
            }
        }
    }

    #[test]
    fn waiting_for_retry_after_is_enough(quota in any_quota(), steps in steps()) {
        let limiter = limiter(quota);
        let interval = u64::try_from(quota.period().as_nanos()).unwrap() / quota.count();
        let mut now = 0;
        for (gap, nanos, cost) in steps {
            now += gap * interval + nanos;
            let denied = limiter.check_at("key", cost, Timestamp::from_nanos(now));
            match denied.retry_after() {
                None => prop_assert!(cost > quota.burst_size()),
                Some(wait) => {
                    now += u64::try_from(wait.as_nanos()).unwrap();
                    let again = limiter.check_at("key", 0, Timestamp::from_nanos(now));
                    prop_assert!(denied.is_allowed() || again.remaining() >= cost);
                }
            }
        }
    }

    #[test]
    fn a_quota_given_with_the_call_agrees_on_whole_nanosecond_intervals(
        quotas in prop::collection::vec(whole_interval_quota(), 1..4),
        steps in steps(),
    ) {
        let clock = ManualClock::new();
        let limiter = Limiter::builder(Quota::per_second(1)).capacity(13_107).clock(clock.clone());
        let limiter = limiter.build().unwrap();
        let (mut now, mut tat_nanos) = (0_u64, 0_i128);
        for (round, (gap, nanos, cost)) in steps.into_iter().enumerate() {
            now += gap * 1_000_000 + nanos;
            clock.set(Timestamp::from_nanos(now));
            let quota = quotas[round % quotas.len()];
            // Debt is shared as a duration, whatever quota the call has.
            let mut oracle = Oracle::new(&quota);
            oracle.tat = oracle.at(tat_nanos);
            let decision = limiter.check_with("key", cost, &quota).unwrap();
            prop_assert_eq!(answer(&decision), oracle.check(now, cost));
            tat_nanos = oracle.tat / oracle.count;
        }
    }

    #[test]
    fn a_batch_decides_as_checks_one_by_one(
        quota in whole_interval_quota(),
        batches in prop::collection::vec(
            (0_u64..3, prop::collection::vec(0_u8..20, 0..100)),
            1..10,
        ),
    ) {
        let clock = ManualClock::new();
        let batched = Limiter::builder(quota).clock(clock.clone()).build().unwrap();
        let single = limiter(quota);
        let mut decisions = Vec::new();
        for (gap, keys) in batches {
            clock.advance(quota.debt_of(gap));
            batched.check_many(&keys, &mut decisions);
            let expected: Vec<_> =
                keys.iter().map(|key| single.check_at(key, 1, clock.now())).collect();
            prop_assert_eq!(&decisions, &expected);
        }
    }
}
