use std::net::Ipv4Addr;

use super::{KeyCounts, ReplayError, decide};
use crate::replay::log::{Log, LoggedRequest};
use proptest::prelude::*;
use tidegate_engine::Quota;

/// A log of `(time, key)`.
fn log(requests: &[(i64, usize)]) -> Log {
    let keys = requests.iter().map(|(_, key)| key + 1).max().unwrap_or(0);
    Log {
        lines: requests.len() as u64,
        requests: requests.iter().map(|&(time, key)| LoggedRequest { time, key }).collect(),
        reordered: 0,
        keys: (0..keys).map(|key| Ipv4Addr::from_bits(key as u32).into()).collect(),
        ..Log::default()
    }
}

fn counts(requests: &[(i64, usize)], quota: Quota) -> Vec<(u64, u64)> {
    let counts = decide(&log(requests), &quota).unwrap();
    counts.iter().map(|KeyCounts { allowed, denied }| (*allowed, *denied)).collect()
}

#[test]
fn each_key_has_its_own_limit() {
    let quota = Quota::per_minute(1).burst(2);
    assert_eq!(counts(&[(0, 0), (0, 0), (0, 0), (0, 1)], quota), [(2, 1), (1, 0)]);
    assert!(counts(&[], quota).is_empty());
}

#[test]
fn the_order_of_time_decides() {
    // In the order of the log, the second request would come too early.
    let quota = Quota::per_minute(1).burst(1);
    assert_eq!(counts(&[(120, 0), (60, 0), (0, 0)], quota), [(3, 0)]);
    assert_eq!(counts(&[(0, 0), (59, 0), (119, 0)], quota), [(2, 1)]);
}

#[test]
fn a_log_may_span_many_years() {
    let quota = Quota::per_minute(1).burst(1);
    let far = 200 * 365 * 86_400;
    assert_eq!(counts(&[(-far, 0), (-far, 0), (far, 0), (far, 0), (far + 60, 0)], quota), [(3, 2)]);
}

/// Every request finds a fresh key, for any number of pauses.
#[test]
fn a_log_may_have_any_number_of_pauses() {
    let quota = Quota::per_day(1).burst(1);
    let yearly: Vec<_> = (0..8_000).map(|year| (year * 365 * 86_400, 0)).collect();
    assert_eq!(counts(&yearly, quota), [(8_000, 0)]);
    let daily: Vec<_> = (0..20_000).map(|day| (day * 86_400, 0)).collect();
    assert_eq!(counts(&daily, quota), [(20_000, 0)]);
    // Within a day, the second of each pair comes too early.
    let early: Vec<_> = (0..20_000).flat_map(|day| [(day * 86_400, 0); 2]).collect();
    assert_eq!(counts(&early, quota), [(20_000, 20_000)]);
}

#[test]
fn a_time_the_limiter_cannot_count_is_an_error() {
    let quota = Quota::per_day(1).burst(365);
    let requests: Vec<_> = (0..20).map(|year| (year * 360 * 86_400, 0)).collect();
    assert_eq!(decide(&log(&requests), &quota), Err(ReplayError::TooLong));
}

proptest! {
    /// A bucket in whole numbers, filled anew for each request, is the oracle.
    #[test]
    fn agrees_with_a_bucket_counted_by_hand(
        mut requests in prop::collection::vec((0_i64..500, 0_usize..3), 0..80),
        period in 1_i64..40,
        burst in 1_i64..6,
    ) {
        let seconds = std::time::Duration::from_secs(period as u64);
        let quota = Quota::new(1, seconds).burst(burst as u64);
        let found = counts(&requests, quota);
        requests.sort_by_key(|(time, _)| *time);
        let mut expected = vec![(0, 0); found.len()];
        // Seconds until each bucket is full, and as of when.
        let mut debts = vec![(0_i64, 0_i64); found.len()];
        for (time, key) in requests {
            let (debt, at) = debts[key];
            let debt = (debt - (time - at)).max(0);
            if debt + period <= burst * period {
                debts[key] = (debt + period, time);
                expected[key].0 += 1;
            } else {
                expected[key].1 += 1;
            }
        }
        prop_assert_eq!(found, expected);
    }
}
