//! The charges themselves, which tests of the limiter cannot reach.

use core::time::Duration;

use proptest::prelude::*;

use super::{Fractional, LEAST, MOST};
use crate::rule::algorithm::Algorithm;
use crate::rule::gcra::{Gcra, NOW_MAX, TAT_MAX};
use crate::rule::quota::Quota;

/// A quota of `count` units in `period` nanoseconds, in units of one nanosecond.
fn fractional(period: u64, count: u64, burst: u64) -> Option<Fractional> {
    let quota = Quota::new(count, Duration::from_nanos(period)).burst(burst);
    let scale = Gcra::exact(&Quota::per_second(1)).unwrap().scale();
    Fractional::of(&quota, &Gcra::in_scale(&quota, scale).ok()?)
}

fn fractionals() -> impl Strategy<Value = (u64, u64, Fractional)> {
    let interval = prop_oneof![LEAST..40, LEAST..2_000, LEAST..MOST];
    (interval, 2_u64..1_000_000, any::<u64>(), 1_u64..200).prop_filter_map(
        "the interval is whole",
        |(interval, count, more, burst)| {
            let period = interval * count + more % count;
            fractional(period, count, burst).map(|it| (period, count, it))
        },
    )
}

/// No wait, mostly.
fn waits() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 1 => 0_u64..50]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A cell is found exactly, at any time of the limiter's life and beyond it.
    #[test]
    fn a_cell_is_the_quotient((_, _, it) in fractionals(), at in 0..1_u64 << 60) {
        let exact = (u128::from(at) << 32) / u128::from(it.interval);
        prop_assert_eq!(u128::from(it.cell(at)), exact);
    }

    /// In any sequence of charges and waits, n units take more than n * T - 1.
    #[test]
    fn rounding_never_adds_up(
        (period, count, it) in fractionals(),
        start in 0..NOW_MAX,
        steps in prop::collection::vec((0_u64..5, waits()), 1..300),
    ) {
        let (mut at, mut units, mut waited) = (start, 0_u128, false);
        for (cost, wait) in steps {
            at += it.charge(at, cost) + wait;
            units += u128::from(cost);
            waited |= wait > 0;
            let way = u128::from(at - start) * u128::from(count);
            let exact = units * u128::from(period);
            prop_assert!(way + u128::from(count) > exact, "{units} units too fast");
            // 2^-32 of a unit for each unit charged is far below another unit.
            prop_assert!(waited || way < exact + 3 * u128::from(count), "{units} units too slow");
        }
    }

    /// Nor do units that are given back, of the last charge or of earlier ones: those that are kept
    /// take more than n * T - 1, and without waiting less than n * T + 2.
    #[test]
    fn giving_back_never_adds_up(
        (period, count, it) in fractionals(),
        start in 0..NOW_MAX,
        steps in prop::collection::vec((0_u64..9, 0_u64..9, waits()), 1..300),
    ) {
        let (mut at, mut units, mut waited) = (start, 0_u64, false);
        for (cost, given_back, wait) in steps {
            let given_back = given_back.min(units + cost);
            at += it.charge(at, cost) + wait;
            at -= it.returned(at, given_back);
            units = units + cost - given_back;
            waited |= wait > 0;
            let way = i128::from(at) - i128::from(start);
            let (way, exact) = (way * i128::from(count), i128::from(units) * i128::from(period));
            prop_assert!(way + i128::from(count) > exact, "{units} units too fast");
            prop_assert!(waited || way < exact + 3 * i128::from(count), "{units} units too slow");
        }
    }

    /// A charge that is given back leaves no trace, or at most a unit if the next edge is in the
    /// way.
    #[test]
    fn what_is_given_back_is_what_was_charged(
        (_, _, it) in fractionals(),
        start in 0..NOW_MAX,
        cost in 0_u64..200,
    ) {
        let charged = start + it.charge(start, cost);
        let left = charged - it.returned(charged, cost);
        prop_assert!(left == start || left == start + 1, "{left} for {start}");
        let again = left + it.charge(left, cost);
        prop_assert_eq!(again - it.returned(again, cost), left);
    }

    #[test]
    fn a_charge_of_any_size_ends_within_time(
        (_, _, it) in fractionals(),
        start in 0..NOW_MAX,
        cost: u64,
    ) {
        let charged = Algorithm::charge(&it, start, start, cost).unwrap_or(start);
        prop_assert!(start <= charged && charged <= TAT_MAX);
        if cost <= it.rounded.burst {
            prop_assert_eq!(charged, start + it.charge(start, cost));
        }
    }

    #[test]
    fn a_burst_is_a_burst((_, _, it) in fractionals(), now in 0..NOW_MAX, pause in 0_u64..3) {
        let burst = it.rounded.burst;
        let (mut tat, mut admitted) = (now.saturating_sub(pause), 0);
        while let Some(charged) = it.admit(tat, now, 1) {
            prop_assert_eq!(it.tokens(tat, now), burst - admitted);
            (tat, admitted) = (charged, admitted + 1);
        }
        prop_assert_eq!(admitted, burst);
        prop_assert_eq!(it.tokens(tat, now), 0);
        prop_assert!(it.admit(0, now, burst).is_some());
    }
}
