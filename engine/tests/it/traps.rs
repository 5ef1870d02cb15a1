//! Mistakes that rate limiters have made, each as a test: those of quotas, with one thread.
//! `docs/internals/traps.md` maps every mistake to its tests, here and elsewhere.

use std::time::Duration;

use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::MAX_BURST_TOLERANCE;
use tidegate_engine::{BuildError, Clock, Limiter, ManualClock, Quota, QuotaError};

fn limiter(quota: Quota) -> (Limiter<Quota, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota).capacity(13_107).clock(clock.clone()).build().unwrap(), clock)
}

fn admitted(limiter: &Limiter<Quota, ManualClock>, tries: u32) -> u32 {
    (0..tries).map(|_| u32::from(limiter.check("key").is_allowed())).sum()
}

fn years(count: u64) -> Duration {
    Duration::from_hours(24 * 365 * count)
}

#[test]
fn trap_cost_times_interval_wraps() {
    let (limiter, _) = limiter(Quota::new(1, Duration::from_secs(10)).burst(2));
    for cost in [1_844_674_409, 1_844_674_410, u64::MAX / 2, u64::MAX] {
        assert!(!limiter.check_n("key", cost).is_allowed(), "{cost}");
    }
    assert_eq!(admitted(&limiter, 5), 2);
}

#[test]
fn trap_burst_times_interval_wraps() {
    let error = |quota| Limiter::builder(quota).build().err();
    let too_long = Some(BuildError::Quota(QuotaError::BurstTooLong));
    assert_eq!(error(Quota::per_day(1).burst(u64::MAX)), too_long);
    assert_eq!(error(Quota::per_second(1).burst(1 << 33)), too_long);
    let longest = MAX_BURST_TOLERANCE.as_secs();
    assert_eq!(error(Quota::per_second(1).burst(longest + 1)), too_long);
    let (limiter, _) = limiter(Quota::per_second(1).burst(longest));
    assert!(limiter.check_n("key", longest).is_allowed());
    assert!(!limiter.check("key").is_allowed());
}

#[test]
fn trap_as_u32_truncation() {
    const BURST: u64 = (1 << 32) + 5;
    let (limiter, _) = limiter(Quota::per_second(1_000_000_000).burst(BURST));
    assert_eq!(limiter.peek("key").remaining(), BURST);
    assert!(limiter.check_n("key", BURST).is_allowed());
    assert!(!limiter.check("key").is_allowed());
}

#[test]
fn trap_whole_nanosecond_interval() {
    for rate in [300_000_000_u64, 999_999, 7, 123_456_789] {
        // Twice the rate, so that a second refills no more than half: too much shows as well.
        let (limiter, clock) = limiter(Quota::per_second(rate).burst(2 * rate));
        assert!(limiter.check_n("key", 2 * rate).is_allowed());
        clock.advance(Duration::from_secs(1));
        let refilled = limiter.peek("key").remaining();
        assert!(refilled.abs_diff(rate) <= 1, "{rate}: {refilled}");
    }
}

#[test]
fn trap_time_runs_backwards() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(5));
    clock.set(Timestamp::from_nanos(10_000_000_000));
    assert_eq!(admitted(&limiter, 10), 5);
    for step in 0..100 {
        clock.set(Timestamp::from_nanos((step * 7_919) % 10_000_000_000));
        assert_eq!(admitted(&limiter, 3), 0);
    }
    clock.set(Timestamp::from_nanos(10_000_000_000));
    assert_eq!(admitted(&limiter, 3), 0);
}

#[test]
fn trap_clock_leaps_forward_584_years() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(5));
    clock.set(Timestamp::from_nanos(u64::MAX));
    assert_eq!(admitted(&limiter, 10), 5);
    clock.advance(Duration::MAX);
    assert_eq!(admitted(&limiter, 10), 0, "saturated time must not mint tokens");
}

#[test]
fn trap_clock_leaps_forward_10_years() {
    for quota in [Quota::per_second(1).burst(5), Quota::per_second(3).burst(5)] {
        for uptime in [1, 10] {
            let (limiter, clock) = limiter(quota);
            clock.advance(years(uptime));
            let emission = quota.debt_of(1);
            for _ in 0..3 {
                assert_eq!(admitted(&limiter, 10), 5);
                let retry = limiter.check("key").retry_after().unwrap();
                assert!(emission.abs_diff(retry) <= Duration::from_nanos(3), "{retry:?}");
                clock.advance(emission * 5);
            }
        }
    }
}

#[test]
fn trap_clock_leaps_forward_50_years() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(5));
    clock.advance(years(50));
    assert_eq!(admitted(&limiter, 10), 5);
    clock.advance(years(1));
    assert_eq!(admitted(&limiter, 10), 0);
}

#[test]
fn trap_off_by_one_between_tolerance_and_burst() {
    for burst in 1..20 {
        let (limiter, clock) = limiter(Quota::per_second(1).burst(burst));
        assert_eq!(u64::from(admitted(&limiter, 40)), burst);
        clock.advance(Duration::from_nanos(999_999_999));
        assert_eq!(admitted(&limiter, 5), 0);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(admitted(&limiter, 5), 1);
    }
}

#[test]
fn trap_idle_differs_from_fresh() {
    let (limiter, clock) = limiter(Quota::per_second(10).burst(10));
    for (idle, fits) in [(999, 9), (1_000, 10), (1_001, 10), (1_500, 10), (60_000, 10)] {
        assert_eq!(admitted(&limiter, 30), 10);
        clock.advance(Duration::from_millis(idle));
        assert_eq!(admitted(&limiter, 30), fits, "after {idle} ms idle");
        clock.advance(Duration::from_secs(1));
    }
}

/// Time begins at 0, and a word of 0 is that of a fresh key: a charge at that time leaves another
/// word, even the smallest charge.
#[test]
fn trap_0_as_fresh_sentinel() {
    for quota in [
        Quota::per_second(1_000_000_000).burst(1),
        Quota::per_second(1_000_000_000).burst(3),
        Quota::per_second(1).burst(3),
    ] {
        let (limiter, clock) = limiter(quota);
        assert_eq!(clock.now(), Timestamp::ORIGIN);
        assert_eq!(u64::from(admitted(&limiter, 10)), quota.burst_size());
        assert_eq!(limiter.peek("key").remaining(), 0);
        clock.advance(quota.debt_of(1));
        assert_eq!(admitted(&limiter, 10), 1);
    }
}

#[test]
fn trap_cost_above_burst_waits_for_ever() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(5));
    let decision = limiter.check_n("key", 6);
    assert!(!decision.is_allowed());
    assert_eq!(decision.retry_after(), None);
    assert_eq!(decision.remaining(), 5, "nothing was charged");
    assert!(limiter.check_n("key", 5).is_allowed());
}

#[test]
fn trap_rate_0_burst_0_period_0() {
    let error = |quota| Limiter::builder(quota).build().err();
    assert_eq!(
        error(Quota::per_second(5).burst(0)),
        Some(BuildError::Quota(QuotaError::ZeroBurst))
    );
    assert_eq!(
        error(Quota::new(5, Duration::ZERO)),
        Some(BuildError::Quota(QuotaError::ZeroPeriod))
    );
    let too_fast = Some(BuildError::Quota(QuotaError::RateTooHigh));
    assert_eq!(error(Quota::per_second(1_000_000_001)), too_fast);
    assert_eq!(
        Limiter::builder(Quota::per_second(1)).capacity(0).build().err(),
        Some(BuildError::Capacity)
    );

    let (blocked, clock) = limiter(Quota::per_second(0).burst(7));
    clock.advance(years(1));
    let decision = blocked.check("key");
    assert!(!decision.is_allowed());
    assert_eq!((decision.limit(), decision.remaining(), decision.retry_after()), (0, 0, None));
}

#[test]
fn trap_retry_after_truncated_to_0_s() {
    let (limiter, clock) = limiter(Quota::new(3, Duration::from_nanos(10)).burst(1));
    assert!(limiter.check("key").is_allowed());
    let wait = limiter.check("key").retry_after().unwrap();
    assert_eq!(wait, Duration::from_nanos(4));
    clock.advance(wait);
    assert!(limiter.check("key").is_allowed());
}

#[test]
fn trap_per_second_meaning_one_per_n_seconds() {
    let (limiter, clock) = limiter(Quota::per_second(50).burst(1));
    let mut allowed = 0;
    for _ in 0..1_000 {
        allowed += admitted(&limiter, 1);
        clock.advance(Duration::from_millis(1));
    }
    assert_eq!(allowed, 50);
}

#[test]
fn keys_do_not_share_state() {
    let (limiter, _) = limiter(Quota::per_hour(1));
    for key in 0_u64..1_000 {
        assert!(limiter.check(key).is_allowed());
        assert!(limiter.check(key.to_string().as_str()).is_allowed());
        assert!(!limiter.check(key).is_allowed());
    }
    assert!(!limiter.check("7").is_allowed());
    assert!(!limiter.check(b"7").is_allowed(), "text and bytes are one key");
    assert!(!limiter.check(7_i16).is_allowed(), "an integer's type does not matter");
    assert_eq!(limiter.evicted(), 0);
}

#[test]
fn debt_beyond_the_burst_makes_even_one_unit_wait() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(2));
    let key = limiter.hash("key");
    limiter.charge_debt(key, Duration::from_secs(5), clock.now());
    let denied = limiter.check("key");
    assert_eq!(denied.remaining(), 0);
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(4)));
    clock.advance(Duration::from_secs(4));
    assert!(limiter.check("key").is_allowed());
    assert!(!limiter.check("key").is_allowed());
}

#[test]
fn debt_charged_late_has_drained_meanwhile() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(10));
    clock.advance(Duration::from_secs(100));
    let key = limiter.hash("key");
    limiter.charge_debt(key, Duration::from_secs(5), Timestamp::from_nanos(97_000_000_000));
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_secs(2));
    limiter.charge_debt(key, Duration::from_secs(5), Timestamp::from_nanos(10_000_000_000));
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_secs(7));
    limiter.raise_debt(key, Duration::from_secs(6));
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_secs(7));
    limiter.raise_debt(key, Duration::from_secs(9));
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_secs(9));
    limiter.charge_debt(key, Duration::MAX, clock.now());
    assert!(!limiter.check("key").is_allowed(), "saturated, not wrapped");
}

#[test]
fn a_refund_never_makes_a_key_better_than_fresh() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(5));
    clock.advance(Duration::from_secs(100));
    assert_eq!(admitted(&limiter, 3), 3);
    for cost in [4, 5, 6, u64::MAX / 1_000_000_000 + 1, u64::MAX] {
        limiter.refund("key", cost);
        assert_eq!(limiter.peek("key").remaining(), 5, "{cost}");
        assert_eq!(admitted(&limiter, 20), 5, "{cost}");
    }
}

#[test]
fn a_refund_of_an_unknown_or_drained_key_gives_nothing() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(5));
    limiter.refund("key", 3);
    assert_eq!(admitted(&limiter, 20), 5);
    clock.advance(Duration::from_mins(1));
    limiter.refund("key", 3);
    assert_eq!(admitted(&limiter, 20), 5);
}

#[test]
fn a_refund_gives_back_part_of_a_unit_that_is_draining() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(2));
    assert_eq!(admitted(&limiter, 2), 2);
    clock.advance(Duration::from_millis(1_400));
    limiter.refund("key", 1);
    assert_eq!(limiter.peek("key").reset_after(), Duration::ZERO);
    assert_eq!(admitted(&limiter, 5), 2);
    limiter.refund("key", 1);
    assert_eq!(admitted(&limiter, 5), 1, "one was given back, one is admitted");
}

#[test]
fn a_refund_pays_back_debt_beyond_the_burst_first() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(2));
    limiter.charge_debt(limiter.hash("key"), Duration::from_secs(5), clock.now());
    limiter.refund("key", 3);
    assert_eq!(admitted(&limiter, 5), 0);
    limiter.refund("key", 1);
    assert_eq!(admitted(&limiter, 5), 1);
}
