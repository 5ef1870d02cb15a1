//! The limiter without keys against the exact oracle, including cold starts.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::direct::MAX_WARM_UP;
use tidegate_engine::{
    CalendarWindow, Clock as _, DirectLimiter, FixedWindow, Limiter, LiveQuota, ManualClock, Quota,
    QuotaError, Rule, SlidingWindow,
};

use crate::exact::{Oracle, answer};

/// A gap in nanoseconds and the cost of the check after it.
type Step = (u64, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![4 => Just(0_u64), 4 => 0_u64..1_000, 2 => 0_u64..300_000_000];
    let cost = prop_oneof![6 => Just(1_u64), 3 => 0_u64..6, 1 => any::<u64>()];
    prop::collection::vec((gap, cost), 1..200)
}

/// Emission intervals of whole nanoseconds.
fn quota() -> impl Strategy<Value = Quota> {
    let count = prop::sample::select(vec![1_u64, 5, 100, 1_000, 1_000_000, 1_000_000_000]);
    (count, 1_u64..60).prop_map(|(count, burst)| Quota::per_second(count).burst(burst))
}

/// A clock at `start` nanoseconds.
fn clock(start: u64) -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_nanos(start));
    clock
}

/// The integral of the rate `since` the start: exact, in nanoseconds times `200 * length`.
fn grown(since: u64, length: u64, percent: u8) -> i128 {
    let (length, percent) = (i128::from(length), i128::from(percent));
    let cold = i128::from(since).min(length);
    let area = cold * (2 * length * percent + (100 - percent) * cold);
    area + (i128::from(since) - cold) * 200 * length
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_figure_agrees_with_the_oracle(
        quota in quota(),
        start in 0_u64..1 << 50,
        initial in prop::option::of(0_u64..80),
        steps in steps(),
    ) {
        let clock = clock(start);
        let (mut builder, mut oracle) = (DirectLimiter::builder(quota), Oracle::new(&quota));
        if let Some(units) = initial {
            builder = builder.initial(units);
            oracle.admit(start, quota.burst_size().saturating_sub(units));
        }
        let limiter = builder.clock(clock.clone()).build().unwrap();
        if let Some(units) = initial {
            prop_assert_eq!(limiter.peek().remaining(), units.min(quota.burst_size()));
        }
        for (gap, cost) in steps {
            clock.advance(Duration::from_nanos(gap));
            let now = clock.now().as_nanos();
            prop_assert_eq!(answer(&limiter.check_n(cost)), oracle.check(now, cost));
        }
    }

    #[test]
    fn charges_and_refunds_are_the_keyed_limiters(
        quota in quota(),
        steps in prop::collection::vec((0_u64..4, 0_u64..400_000_000, 0_u64..90), 1..100),
    ) {
        let clock = clock(1_000);
        let single = DirectLimiter::builder(quota).clock(clock.clone()).build().unwrap();
        let keyed = Limiter::builder(quota).capacity(1).clock(clock.clone());
        let keyed = keyed.build().unwrap();
        for (operation, gap, cost) in steps {
            clock.advance(Duration::from_nanos(gap));
            match operation {
                0 => prop_assert_eq!(single.check_n(cost), keyed.check_n("key", cost)),
                1 => prop_assert_eq!(single.charge(cost), keyed.charge("key", cost)),
                2 => { single.refund(cost); keyed.refund("key", cost); }
                _ => { single.reset(); keyed.reset("key"); }
            }
            prop_assert_eq!(single.peek(), keyed.peek("key"));
        }
    }

    #[test]
    fn a_warm_up_never_grants_more_than_its_rate(
        quota in quota(),
        length in 1_u64..5_000_000_000,
        percent in 0_u8..=100,
        initial in 0_u64..80,
        steps in steps(),
    ) {
        let start = 77;
        let builder = DirectLimiter::builder(quota).initial(initial).clock(clock(start));
        let limiter = builder.warm_up(Duration::from_nanos(length), percent).build().unwrap();
        let (mut since, mut admitted) = (0, Vec::new());
        for (gap, cost) in steps {
            since += gap;
            if limiter.check_at(cost, Timestamp::from_nanos(start + since)).is_allowed() {
                admitted.push((since, i128::from(cost)));
            }
        }
        let grown = |since| grown(since, length, percent);
        let scale = 200 * i128::from(length);
        let interval = i128::from(1_000_000_000 / quota.count());
        let holds = |from, until, units: u64, sum: i128| {
            // Rounding down to a nanosecond may put a nanosecond between two instants.
            sum * interval * scale
                <= i128::from(units) * interval * scale + grown(until) - grown(from) + scale
        };
        for (first, (from, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for (until, cost) in &admitted[first..] {
                sum += cost;
                prop_assert!(holds(*from, *until, quota.burst_size(), sum));
                if first == 0 {
                    prop_assert!(holds(0, *until, initial.min(quota.burst_size()), sum));
                }
            }
        }
    }

    #[test]
    fn a_warm_up_grants_all_of_its_rate_and_says_when(
        quota in quota(),
        length in 1_u64..5_000_000_000,
        percent in 0_u8..=100,
        steps in steps(),
    ) {
        let builder = DirectLimiter::builder(quota).clock(clock(5));
        let limiter = builder.warm_up(Duration::from_nanos(length), percent).build().unwrap();
        let mut now = 5;
        for (gap, cost) in steps {
            now += gap;
            let decision = limiter.check_at(cost, Timestamp::from_nanos(now));
            match decision.retry_after() {
                Some(wait) if !wait.is_zero() && cost > 0 => {
                    let at = |nanos| Timestamp::from_nanos(now + nanos);
                    let wait = u64::try_from(wait.as_nanos()).unwrap();
                    prop_assert!(limiter.check_at(0, at(wait - 1)).remaining() < cost);
                    prop_assert!(limiter.check_at(0, at(wait)).remaining() >= cost);
                    now += wait;
                }
                Some(_) => {}
                None => prop_assert!(cost > quota.burst_size()),
            }
            let reset = u64::try_from(decision.reset_after().as_nanos()).unwrap();
            if decision.is_allowed() {
                let fresh = limiter.check_at(0, Timestamp::from_nanos(now + reset));
                prop_assert_eq!(fresh.remaining(), quota.burst_size());
            }
        }
    }
}

/// Half of the rate times time while it grows from zero, all of it afterwards.
#[test]
fn a_warm_up_from_nothing_grants_half() {
    let clock = clock(1 << 40);
    let builder = DirectLimiter::builder(Quota::per_second(1_000).burst(1_000_000)).initial(0);
    let limiter = builder.warm_up(Duration::from_secs(10), 0).clock(clock.clone()).build().unwrap();
    let expected = [50, 200, 450, 800, 1_250, 1_800, 2_450, 3_200, 4_050, 5_000, 6_000, 7_000];
    for units in expected {
        clock.advance(Duration::from_secs(1));
        assert_eq!(limiter.peek().remaining(), units);
    }
}

/// Builds a limiter of every rule, with a given number of units at first.
fn begun_with(units: u64, rule: impl Rule) -> DirectLimiter<impl Rule, ManualClock> {
    DirectLimiter::builder(rule).initial(units).clock(clock(1 << 40)).build().unwrap()
}

#[test]
fn a_limiter_of_any_rule_begins_with_its_initial_units() {
    for units in [0, 1, 7, 10, 11, u64::MAX] {
        let left = units.min(10);
        let quota = begun_with(units, Quota::per_hour(10));
        let live = begun_with(units, LiveQuota::new(Quota::per_hour(10)));
        let fixed = begun_with(units, FixedWindow::per_hour(10));
        let sliding = begun_with(units, SlidingWindow::per_hour(10));
        let calendar = begun_with(units, CalendarWindow::per_month(10));
        assert_eq!(quota.peek().remaining(), left);
        assert_eq!(live.peek().remaining(), left);
        assert_eq!(fixed.peek().remaining(), left);
        assert_eq!(sliding.peek().remaining(), left);
        assert_eq!(calendar.peek().remaining(), left);
        assert!(begun_with(units, Quota::unlimited()).check_n(u64::MAX).is_allowed());
        assert!(!begun_with(units, Quota::blocked()).check().is_allowed());
    }
}

/// Whether a cost fits, and when it will, agrees with the next check.
#[test]
fn a_look_at_a_cost_says_what_its_check_would_and_charges_nothing() {
    let limiter = begun_with(3, Quota::per_second(10));
    for cost in [0, 1, 3, 4, 10, 11, u64::MAX] {
        let peeked = limiter.peek_n(cost);
        assert_eq!(peeked.remaining(), 3, "{cost}");
        let copy = begun_with(3, Quota::per_second(10));
        let check = copy.check_n(cost);
        assert_eq!(peeked.is_allowed(), check.is_allowed(), "{cost}");
        assert_eq!(peeked.retry_after(), check.retry_after(), "{cost}");
    }
    assert!(limiter.check_n(3).is_allowed());
}

#[test]
fn time_that_runs_backwards_mints_nothing() {
    let limiter = DirectLimiter::builder(Quota::per_second(10)).warm_up(Duration::from_secs(1), 0);
    let limiter = limiter.clock(clock(1 << 40)).build().unwrap();
    let mut allowed = 0;
    for nanos in [1 << 41, 1 << 40, 0, (1 << 40) + 5, 1 << 20, 1 << 41] {
        for _ in 0..20 {
            allowed += u64::from(limiter.check_at(1, Timestamp::from_nanos(nanos)).is_allowed());
        }
    }
    assert_eq!(allowed, 10);
}

#[test]
fn extreme_builders_saturate() {
    let quota = Quota::per_hour(1);
    let limiter = DirectLimiter::builder(quota).initial(u64::MAX).clock(clock(0)).build().unwrap();
    assert_eq!(limiter.peek().remaining(), 1);
    let builder = DirectLimiter::builder(quota).warm_up(Duration::MAX, 0).clock(clock(u64::MAX));
    let limiter = builder.build().unwrap();
    assert!(limiter.check().is_allowed() && !limiter.check().is_allowed());
    let builder =
        DirectLimiter::builder(quota).initial(0).warm_up(MAX_WARM_UP, u8::MAX).clock(clock(9));
    let never_slower = builder.build().unwrap();
    assert_eq!(never_slower.check().retry_after(), Some(Duration::from_hours(1)));
    assert_eq!(DirectLimiter::new(quota.burst(0)).unwrap_err(), QuotaError::ZeroBurst);
    let blocked =
        DirectLimiter::builder(Quota::per_hour(0)).initial(0).clock(clock(0)).build().unwrap();
    assert_eq!(blocked.check().retry_after(), None);
}

#[test]
fn threads_never_get_more_than_the_burst() {
    let limiter = DirectLimiter::builder(Quota::per_hour(5_000)).clock(clock(0)).build().unwrap();
    let allowed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..2_000).filter(|_| limiter.check().is_allowed()).count()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(allowed, 5_000);
}

/// Window rules work in a single word as they do in a table's.
#[test]
fn windows_are_the_keyed_limiters() {
    fn compare<R: Rule>(rule: R) {
        let clock = clock(0);
        let single = DirectLimiter::builder(rule).clock(clock.clone()).build().unwrap();
        let keyed = Limiter::builder(rule).capacity(1).clock(clock.clone()).build().unwrap();
        for step in 0..2_000_u64 {
            clock.advance(Duration::from_millis(step.wrapping_mul(7_919) % 300));
            match step % 7 {
                5 => assert_eq!(single.charge(step % 4), keyed.charge("key", step % 4)),
                6 => {
                    single.refund(step % 3);
                    keyed.refund("key", step % 3);
                }
                cost => assert_eq!(single.check_n(cost), keyed.check_n("key", cost), "{rule:?}"),
            }
        }
    }
    compare(FixedWindow::per_second(9));
    compare(SlidingWindow::per_second(9));
    compare(CalendarWindow::per_minute(99).anchored(Duration::from_secs(1_700_000_000)));
}
