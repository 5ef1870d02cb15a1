//! Mistakes that rate limiters have made, each as a test of the rules that count in windows.

use std::sync::Barrier;
use std::time::Duration;

use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::MAX_WINDOW;
use tidegate_engine::{
    BuildError, CalendarWindow, FixedWindow, Limiter, ManualClock, OverflowPolicy, Quota,
    QuotaError, Rule, SlidingWindow,
};

const SECOND: Duration = Duration::from_secs(1);

type Manual<R> = Limiter<R, ManualClock>;

fn limiter<R: Rule>(rule: R) -> (Manual<R>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(rule).capacity(1_000).clock(clock.clone()).build().unwrap(), clock)
}

fn admitted<R: Rule>(limiter: &Manual<R>, tries: u32) -> u32 {
    (0..tries).map(|_| u32::from(limiter.check("key").is_allowed())).sum()
}

fn at(duration: Duration) -> Timestamp {
    Timestamp::ORIGIN.saturating_add(duration)
}

fn years(count: u32) -> Duration {
    Duration::from_hours(24 * 365 * u64::from(count))
}

/// A test for each rule, under a limit in units per minute.
macro_rules! each_rule {
    ($limit:literal, $test:expr) => {
        $test(limiter(FixedWindow::per_minute($limit)));
        $test(limiter(SlidingWindow::per_minute($limit)));
        $test(limiter(CalendarWindow::per_minute($limit).anchored(Duration::from_mins(7))));
    };
}

#[test]
fn trap_cost_times_interval_wraps() {
    fn test<R: Rule>((limiter, _): (Manual<R>, ManualClock)) {
        for cost in [6, 1 << 18, 1 << 36, u64::MAX - 4, u64::MAX] {
            assert_eq!(limiter.check_n("key", cost).retry_after(), None, "{cost}");
        }
        assert_eq!(admitted(&limiter, 9), 5);
        for cost in [u64::MAX - 4, u64::MAX] {
            assert!(!limiter.check_n("key", cost).is_allowed(), "{cost}");
        }
    }
    each_rule!(5, test);
}

#[test]
fn charges_saturate_in_their_field() {
    fn test<R: Rule>((limiter, clock): (Manual<R>, ManualClock)) {
        for cost in [u64::MAX, 1, u64::MAX] {
            assert_eq!(limiter.charge("key", cost).remaining(), 0);
            assert!(limiter.charge("key", cost).reset_after() <= SECOND * 120);
        }
        assert_eq!(admitted(&limiter, 3), 0);
        limiter.refund("key", u64::MAX);
        assert_eq!(limiter.peek("key").reset_after(), Duration::ZERO);
        limiter.charge("key", u64::MAX).retry_after().unwrap();
        clock.advance(SECOND * 120);
        assert_eq!(admitted(&limiter, 9), 5);
    }
    each_rule!(5, test);
}

#[test]
fn trap_time_runs_backwards() {
    fn test<R: Rule>((limiter, clock): (Manual<R>, ManualClock)) {
        clock.set(at(SECOND * 610));
        assert_eq!(admitted(&limiter, 10), 5);
        for step in 0..1_000 {
            clock.set(Timestamp::from_nanos(step * 7_919_000_000 % 610_000_000_000));
            assert_eq!(admitted(&limiter, 3), 0);
        }
        clock.set(at(SECOND * 610));
        assert_eq!(admitted(&limiter, 3), 0);
    }
    each_rule!(5, test);
}

#[test]
fn trap_clock_leaps_forward_584_years() {
    fn test<R: Rule>((limiter, clock): (Manual<R>, ManualClock)) {
        clock.set(Timestamp::from_nanos(u64::MAX));
        assert_eq!(admitted(&limiter, 10), 5);
        clock.advance(Duration::MAX);
        assert_eq!(admitted(&limiter, 10), 0, "time that stands still must not mint");
    }
    each_rule!(5, test);
}

#[test]
fn trap_clock_leaps_forward_10_years() {
    fn test<R: Rule>((limiter, clock): (Manual<R>, ManualClock)) {
        for uptime in [1, 10] {
            clock.set(at(years(uptime)));
            assert_eq!(admitted(&limiter, 10), 5);
            clock.advance(SECOND * 121);
            assert_eq!(admitted(&limiter, 10), 5);
        }
    }
    each_rule!(5, test);
}

#[test]
fn trap_clock_leaps_forward_50_years() {
    fn test<R: Rule>((limiter, clock): (Manual<R>, ManualClock)) {
        clock.set(at(years(50)));
        assert_eq!(admitted(&limiter, 10), 5);
        for _ in 0..100 {
            clock.advance(SECOND * 86_400);
            assert_eq!(admitted(&limiter, 3), 0);
        }
    }
    each_rule!(5, test);
}

#[test]
fn trap_off_by_one_between_tolerance_and_burst() {
    fn test<R: Rule>((limiter, _): (Manual<R>, ManualClock)) {
        assert!(!limiter.check_n("all and one", 6).is_allowed());
        assert!(limiter.check_n("all", 5).is_allowed());
        assert!(!limiter.check("all").is_allowed());
        assert!(limiter.check_n("but one", 4).is_allowed());
        assert!(limiter.check("but one").is_allowed());
        assert!(!limiter.check("but one").is_allowed());
    }
    each_rule!(5, test);
}

#[test]
fn trap_idle_differs_from_fresh() {
    fn test<R: Rule>((limiter, clock): (Manual<R>, ManualClock)) {
        clock.set(at(SECOND * 45));
        assert_eq!(admitted(&limiter, 10), 5);
        let reset = limiter.peek("key").reset_after();
        clock.advance(reset.checked_sub(Duration::from_nanos(1)).unwrap());
        assert!(!limiter.check_n("key", 5).is_allowed());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(limiter.peek("key"), limiter.peek("never seen"));
        assert_eq!(admitted(&limiter, 10), 5);
    }
    each_rule!(5, test);
}

#[test]
fn trap_0_as_fresh_sentinel() {
    fn test<R: Rule>((limiter, clock): (Manual<R>, ManualClock)) {
        clock.set(Timestamp::ORIGIN);
        assert_eq!(admitted(&limiter, 10), 5);
        assert_eq!(limiter.peek("key").remaining(), 0);
    }
    each_rule!(5, test);
}

#[test]
fn trap_cost_above_burst_waits_for_ever() {
    fn test<R: Rule>((limiter, _): (Manual<R>, ManualClock)) {
        let never = limiter.check_n("key", 6);
        assert!(!never.is_allowed() && never.retry_after().is_none());
        assert_eq!((never.remaining(), never.reset_after()), (5, Duration::ZERO));
    }
    each_rule!(5, test);
}

#[test]
fn trap_rate_0_burst_0_period_0() {
    fn test<R: Rule>((limiter, clock): (Manual<R>, ManualClock)) {
        for _ in 0..3 {
            assert_eq!(limiter.check("key").retry_after(), None);
            assert_eq!(limiter.peek("key").remaining(), 0);
            clock.advance(SECOND * 600);
        }
    }
    each_rule!(0, test);
}

#[test]
fn windows_of_no_length_and_of_too_much_are_errors() {
    fn error(rule: impl Rule) -> Option<BuildError> {
        Limiter::builder(rule).clock(ManualClock::new()).capacity(1).build().err()
    }
    let nanosecond = Duration::from_nanos(1);
    for (length, expected) in [
        (Duration::ZERO, Some(QuotaError::ZeroPeriod)),
        (nanosecond, None),
        (MAX_WINDOW, None),
        (MAX_WINDOW + nanosecond, Some(QuotaError::WindowTooLong)),
        (Duration::MAX, Some(QuotaError::WindowTooLong)),
    ] {
        let expected = expected.map(BuildError::Quota);
        assert_eq!(error(FixedWindow::new(0, length)), expected, "{length:?}");
        assert_eq!(error(SlidingWindow::new(0, length)), expected, "{length:?}");
    }
}

#[test]
fn a_strict_quota_needs_room_for_burst_and_rate() {
    let error = |limit, burst| {
        let quota = Quota::strict(limit, SECOND, burst);
        Limiter::builder(quota).clock(ManualClock::new()).build().err()
    };
    for (limit, burst, expected) in [
        (5, 0, Some(QuotaError::ZeroBurst)),
        (5, 4, None),
        (5, 5, Some(QuotaError::StrictBurst)),
        (5, 6, Some(QuotaError::StrictBurst)),
        (1, 0, Some(QuotaError::ZeroBurst)),
        (1, 1, Some(QuotaError::StrictBurst)),
        (0, 1, None),
        (u64::MAX, 1, Some(QuotaError::RateTooHigh)),
        (u64::MAX, u64::MAX, Some(QuotaError::StrictBurst)),
    ] {
        assert_eq!(error(limit, burst), expected.map(BuildError::Quota), "{limit}, {burst}");
    }
    assert!(Quota::strict(0, SECOND, 1).is_blocked());
    assert!(!Quota::strict(5, SECOND, 5).is_blocked());
    assert!(!Quota::strict(u64::MAX, Duration::ZERO, 0).is_unlimited());
}

#[test]
fn another_burst_keeps_the_limit_of_a_strict_quota() {
    let quota = Quota::strict(5, SECOND, 4);
    for burst in 1..5 {
        let other = quota.burst(burst);
        assert_eq!(other, Quota::strict(5, SECOND, burst));
        assert_eq!((other.count(), other.burst_size()), (5 - burst, burst));
    }
    // Also after one that leaves no room.
    assert_eq!(quota.burst(9).burst(2), Quota::strict(5, SECOND, 2));
}

#[test]
fn trap_as_u32_truncation() {
    // The highest limit of each length, as the documentation says.
    let (minute, hour, day) = (SECOND * 60, SECOND * 3_600, SECOND * 86_400);
    let highest = [(SECOND, 30, 15), (minute, 36, 18), (hour, 42, 21), (day, 47, 23)];
    for (length, fixed_bits, sliding_bits) in highest {
        let (fixed, sliding) = ((1_u64 << fixed_bits) - 1, (1_u64 << sliding_bits) - 1);
        let (fixed, sliding) =
            (FixedWindow::new(fixed, length), SlidingWindow::new(sliding, length));
        assert!(limiter(fixed).0.check_n("key", fixed.limit()).is_allowed());
        assert!(limiter(sliding).0.check_n("key", sliding.limit()).is_allowed());
        for over in [1, u64::MAX - fixed.limit()] {
            let over = FixedWindow::new(fixed.limit() + over, length);
            let error = Limiter::builder(over).clock(ManualClock::new()).build().err();
            let max = fixed.limit();
            assert_eq!(error, Some(BuildError::Quota(QuotaError::LimitTooHigh { max })));
        }
        let over = SlidingWindow::new(sliding.limit() + 1, length);
        let error = Limiter::builder(over).clock(ManualClock::new()).build().err();
        let max = sliding.limit();
        assert_eq!(error, Some(BuildError::Quota(QuotaError::LimitTooHigh { max })));
    }
    for (rule, bits) in [
        (CalendarWindow::per_minute as fn(u64) -> _, 36),
        (CalendarWindow::per_hour, 42),
        (CalendarWindow::per_day, 47),
        (CalendarWindow::per_month, 47),
    ] {
        let max = (1 << bits) - 1;
        assert!(limiter(rule(max)).0.check_n("key", max).is_allowed());
        let error = Limiter::builder(rule(max + 1)).clock(ManualClock::new()).build().err();
        assert_eq!(error, Some(BuildError::Quota(QuotaError::LimitTooHigh { max })));
    }
}

#[test]
fn trap_retry_after_truncated_to_0_s() {
    fn test<R: Rule>((limiter, clock): (Manual<R>, ManualClock)) {
        assert_eq!(admitted(&limiter, 9), 5);
        for _ in 0..20 {
            let denied = limiter.check("key");
            let wait = denied.retry_after().unwrap();
            assert!(!denied.is_allowed() && wait > Duration::ZERO);
            clock.advance(wait.checked_sub(Duration::from_nanos(1)).unwrap());
            assert!(!limiter.check("key").is_allowed());
            clock.advance(Duration::from_nanos(1));
            assert!(limiter.check("key").is_allowed());
            while limiter.check("key").is_allowed() {}
        }
    }
    each_rule!(5, test);
}

/// Under the default policy the key with the smallest count of a window is evicted, not the first
/// one found.
#[test]
fn trap_eviction_forgets_a_limited_key() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(FixedWindow::per_minute(100)).capacity(13_107);
    let limiter = builder.clock(clock.clone()).overflow_policy(OverflowPolicy::EvictLeastDebt);
    let limiter = limiter.build().unwrap();
    let victims = 100_000..100_100_u64;
    for key in victims.clone() {
        assert!(limiter.check_n(key, 100).is_allowed());
    }
    for key in 0..60_000_u64 {
        assert!(limiter.check(key).is_allowed());
    }
    assert!(limiter.evicted() > 10_000);
    assert!(victims.clone().all(|key| !limiter.check(key).is_allowed()));
}

/// Threads that check one key at the same time take exactly the limit, and count it once.
#[test]
fn trap_check_then_update() {
    fn test<R: Rule>((limiter, clock): (Manual<R>, ManualClock)) {
        const THREADS: usize = 4;
        for round in 0..200 {
            clock.set(at(SECOND * 120 * round));
            let start = Barrier::new(THREADS);
            let take = || {
                start.wait();
                admitted(&limiter, 400)
            };
            let taken: u32 = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(take)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(taken, 1_000);
        }
    }
    each_rule!(1_000, test);
}
