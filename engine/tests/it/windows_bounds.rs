//! For each rule the bound on what is admitted in an interval: never exceeded by random traffic,
//! and reached by the worst traffic.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::{FixedWindow, Limiter, ManualClock, Quota, Rule, SlidingWindow};

/// A window whose word holds two counts up to a thousand, in nanoseconds, and a hundredth of it.
const WINDOW: u64 = 1_000_000;
const STEP: u64 = WINDOW / 100;

/// A time, and units admitted then.
type Log = Vec<(u64, u64)>;

/// What a limiter admits of costs asked for at given times, in order.
fn admitted(rule: impl Rule, asked: impl IntoIterator<Item = (u64, u64)>) -> Log {
    let limiter = Limiter::builder(rule).capacity(1).clock(ManualClock::new()).build().unwrap();
    let admit = |(at, cost): &(u64, u64)| {
        limiter.check_at("key", *cost, Timestamp::from_nanos(*at)).is_allowed()
    };
    asked.into_iter().filter(admit).collect()
}

/// The most that a log holds in an interval of a length, both its ends included: a sliding log.
fn most_within(log: &[(u64, u64)], length: u64) -> u64 {
    let within = |first: usize| {
        let (from, _) = log[first];
        log[first..].iter().take_while(|(at, _)| at - from <= length).map(|(_, cost)| cost).sum()
    };
    (0..log.len()).map(within).max().unwrap_or(0)
}

/// Asks for single units, several at a time, in the last nanosecond of each `step`.
fn greedily(from: u64, until: u64, step: u64, units: u64) -> impl Iterator<Item = (u64, u64)> {
    let last = move |round| (round + 1) * step - 1;
    (from / step..until / step).flat_map(move |round| (0..units).map(move |_| (last(round), 1)))
}

/// Gaps before checks, in 64ths of a window and nanoseconds, and their costs.
fn traffic() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let gap = prop_oneof![6 => Just(0_u64), 4 => 0_u64..4, 1 => 0_u64..100];
    let nanos = prop_oneof![4 => Just(0_u64), 2 => 0_u64..3];
    let cost = prop_oneof![6 => Just(1_u64), 2 => 0_u64..12];
    prop::collection::vec((gap, nanos, cost), 1..300)
}

fn at_times(traffic: Vec<(u64, u64, u64)>, length: u64) -> Vec<(u64, u64)> {
    let mut now = 0;
    let mut at = |(gap, nanos, cost)| {
        now += gap * length / 64 + nanos;
        (now, cost)
    };
    traffic.into_iter().map(&mut at).collect()
}

fn nanos(length: u64) -> Duration {
    Duration::from_nanos(length)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_strict_quota_never_exceeds_its_limit_in_any_window(
        limit in 2_u64..60,
        burst in any::<u64>(),
        length in prop_oneof![60_u64..200, 1_000_000_u64..2_000_000_000],
        traffic in traffic(),
    ) {
        let quota = Quota::strict(limit, nanos(length), 1 + burst % (limit - 1));
        let most = most_within(&admitted(quota, at_times(traffic, length)), length);
        prop_assert!(most <= limit, "{most} within a window under {quota:?}");
    }

    #[test]
    fn a_sliding_window_admits_less_than_twice_its_limit_in_any_window(
        limit in 1_u64..60,
        length in prop_oneof![5_000_u64..6_000, 1_000_000_u64..2_000_000_000],
        traffic in traffic(),
    ) {
        let log = admitted(SlidingWindow::new(limit, nanos(length)), at_times(traffic, length));
        prop_assert!(most_within(&log, length) < 2 * limit);
        for window in 0..log.last().map_or(0, |(at, _)| at / length + 1) {
            let in_window = log.iter().filter(|(at, _)| at / length == window);
            let units: u64 = in_window.map(|(_, n)| n).sum();
            prop_assert!(units <= limit, "{units} in window {window}");
        }
    }

    /// The sharper bound: the excess depends on how far the interval's last window has advanced.
    #[test]
    fn a_sliding_windows_error_grows_with_the_window(
        limit in 1_u64..60,
        length in prop_oneof![5_000_u64..6_000, 1_000_000_u64..2_000_000_000],
        traffic in traffic(),
    ) {
        let log = admitted(SlidingWindow::new(limit, nanos(length)), at_times(traffic, length));
        for (last, (until, _)) in log.iter().enumerate() {
            let within = log[..=last].iter().filter(|(at, _)| until - at <= length);
            let units: u64 = within.map(|(_, cost)| cost).sum();
            let bound = limit * (length + until % length);
            prop_assert!(units * length <= bound, "{units} until {until}");
        }
    }

    #[test]
    fn a_fixed_window_admits_at_most_its_limit_for_each_window_an_interval_touches(
        limit in 1_u64..60,
        length in prop_oneof![5_000_u64..6_000, 1_000_000_u64..2_000_000_000],
        windows in 1_u64..5,
        traffic in traffic(),
    ) {
        let log = admitted(FixedWindow::new(limit, nanos(length)), at_times(traffic, length));
        prop_assert!(most_within(&log, windows * length) <= (windows + 1) * limit);
    }
}

#[test]
fn a_strict_quotas_limit_is_reached() {
    for (limit, burst) in [(2, 1), (10, 1), (10, 5), (10, 9), (60, 20)] {
        for length in [60, 97, 250, 1_000] {
            let quota = Quota::strict(limit, nanos(length), burst);
            let log = admitted(quota, greedily(1_000, 4_000, 1, limit + 1));
            assert_eq!(most_within(&log, length), limit, "{quota:?}");
        }
    }
}

/// What `Quota::strict` says of a limit of 1; without the nanosecond both ends of a window would
/// each hold one.
#[test]
fn one_in_every_window_is_a_window_and_a_nanosecond_apart() {
    for length in [1, 60, 97, 1_000] {
        let most = |apart| {
            let log = admitted(Quota::new(1, nanos(apart)), greedily(1_000, 8_000, 1, 2));
            most_within(&log, length)
        };
        assert_eq!((most(length + 1), most(length)), (1, 2), "{length}");
    }
}

#[test]
fn a_plain_quota_exceeds_what_a_strict_one_keeps() {
    let log = admitted(Quota::new(10, nanos(100)).burst(10), greedily(0, 500, 1, 20));
    assert_eq!(most_within(&log, 100), 20);
}

#[test]
fn a_sliding_windows_worst_case_is_reached() {
    for limit in [1, 2, 10, 100] {
        // Idle until the last nanosecond of a window, and greedy from then on.
        let asked = greedily(99 * STEP, 500 * STEP, STEP, limit + 1);
        let log = admitted(SlidingWindow::new(limit, nanos(WINDOW)), asked);
        assert_eq!(most_within(&log, WINDOW), 2 * limit - 1, "{limit}");
    }
}

#[test]
fn a_fixed_windows_worst_case_is_reached() {
    let asked = greedily(99 * STEP, 500 * STEP, STEP, 11);
    let log = admitted(FixedWindow::new(10, nanos(WINDOW)), asked);
    assert_eq!((most_within(&log, WINDOW), most_within(&log, 0)), (20, 10));
}

#[test]
fn a_sliding_window_that_is_asked_without_pause_admits_one_less_than_its_limit() {
    for (limit, expected) in
        [(1, [1, 0, 1, 0]), (2, [2, 1, 1, 1]), (10, [10, 9, 9, 9]), (100, [100, 99, 99, 99])]
    {
        let asked = greedily(0, 4 * WINDOW, STEP, limit + 1);
        let log = admitted(SlidingWindow::new(limit, nanos(WINDOW)), asked);
        let of = |window| log.iter().filter(|(at, _)| at / WINDOW == window).count();
        assert_eq!([0, 1, 2, 3].map(of), expected);
    }
}

/// The estimate of evenly spread traffic is exact to a unit: it is admitted up to one less than the
/// limit.
#[test]
fn a_sliding_window_admits_even_traffic_below_its_limit() {
    for limit in [2, 5, 11, 101] {
        let asked = (0..1_000).map(|round| (round * WINDOW / (limit - 1), 1));
        assert_eq!(admitted(SlidingWindow::new(limit, nanos(WINDOW)), asked).len(), 1_000);
    }
}
