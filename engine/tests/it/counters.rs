//! The limiters for one key, against oracles that keep every admission.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::counter::{
    CounterError, MAX_COUNTER_WINDOW, MAX_LOG_UNITS, MAX_SUB_WINDOWS, ShardedCounter, SlidingLog,
    SubWindowCounter,
};
use tidegate_engine::{Clock, ManualClock};

use crate::units::{Oracle, answer, any_steps, most_within, nanos};

fn sub_windows(limit: u64, window: u64, count: u64) -> SubWindowCounter<ManualClock> {
    let window = Duration::from_nanos(window);
    SubWindowCounter::with_sub_windows(limit, window, count, ManualClock::new()).unwrap()
}

fn sharded(limit: u64, window: u64, count: u64, block: u64) -> ShardedCounter<ManualClock> {
    let window = Duration::from_nanos(window);
    let builder = ShardedCounter::builder(limit, window).sub_windows(count).shards(4).block(block);
    builder.clock(ManualClock::new()).build().unwrap()
}

fn log(limit: u64, window: u64) -> SlidingLog<ManualClock> {
    SlidingLog::with_clock(limit, Duration::from_nanos(window), ManualClock::new()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn sub_windows_agree_with_the_oracle_in_every_figure(
        limit in 0_u64..12,
        count in prop_oneof![1_u64..8, Just(60)],
        start in 0_u64..1 << 40,
        (window, steps) in any_steps(),
    ) {
        let counter = sub_windows(limit, window, count);
        let mut oracle = Oracle::sub_windows(limit, window, count);
        let mut now = start;
        for (gap, cost) in steps {
            now += gap;
            let decision = counter.check_at(cost, Timestamp::from_nanos(now));
            prop_assert_eq!(answer(&decision), oracle.check(cost, now));
        }
    }

    #[test]
    fn a_log_agrees_with_the_oracle_in_every_figure(
        limit in 1_u64..40,
        start in 0_u64..1 << 40,
        (window, steps) in any_steps(),
        back in 0_u64..200,
    ) {
        let log = log(limit, window);
        let mut oracle = Oracle::log(limit, window);
        let mut now = start;
        for (round, (gap, cost)) in steps.into_iter().enumerate() {
            now += gap;
            // Sometimes a reading is earlier.
            let read = if round % 5 == 4 { now.saturating_sub(back) } else { now };
            let decision = log.check_at(cost, Timestamp::from_nanos(read));
            prop_assert_eq!(answer(&decision), oracle.check(cost, read));
        }
    }

    #[test]
    fn no_interval_of_the_window_admits_more_than_the_limit(
        limit in 1_u64..40,
        count in 1_u64..8,
        block in 1_u64..6,
        (window, steps) in any_steps(),
    ) {
        let (counter, log) = (sub_windows(limit, window, count), log(limit, window));
        let sharded = sharded(limit, window, count, block);
        let (mut now, mut admitted) = (0, [(); 3].map(|()| Vec::new()));
        for (gap, cost) in steps {
            now += gap;
            let at = Timestamp::from_nanos(now);
            let decisions = [counter.check_at(cost, at), log.check_at(cost, at),
                sharded.check_at(cost, at)];
            for (admitted, decision) in admitted.iter_mut().zip(decisions) {
                if decision.is_allowed() {
                    admitted.push((now, cost));
                }
            }
        }
        for admitted in admitted {
            prop_assert!(most_within(window, admitted) <= limit);
        }
    }

    #[test]
    fn readings_in_any_order_keep_the_log_within_its_limit(
        limit in 1_u64..6,
        readings in prop::collection::vec((0_u64..5_000, 1_u64..3), 1..200),
    ) {
        let log = log(limit, 1_000);
        let admitted = readings
            .into_iter()
            .filter(|&(now, cost)| log.check_at(cost, Timestamp::from_nanos(now)).is_allowed())
            .collect();
        prop_assert!(most_within(1_000, admitted) <= limit);
    }

    #[test]
    fn a_shard_alone_is_off_by_less_than_a_block_a_sub_window(
        limit in 1_u64..200,
        count in 1_u64..8,
        block in 1_u64..9,
        (window, steps) in any_steps(),
    ) {
        let counter = sharded(limit, window, count, block);
        let mut oracle = Oracle::sub_windows(limit, window, count);
        let mut now = 0;
        for (gap, _) in steps {
            now += gap;
            let allowed = counter.check_at(1, Timestamp::from_nanos(now)).is_allowed();
            let used = oracle.used(now);
            if allowed {
                prop_assert!(oracle.check(1, now).0, "minted at {now}");
            } else {
                // The unused part of a block in each sub-window of the window but the present one.
                prop_assert!(used + count * (block - 1) >= limit, "{used} of {limit} at {now}");
            }
        }
    }

    #[test]
    fn debt_beyond_the_limit_expires_with_its_sub_window(
        limit in 1_u64..12,
        charged in 0_u64..40,
        cost in 1_u64..6,
    ) {
        let counter = sub_windows(limit, 1_000, 10);
        assert_eq!(counter.charge(charged).remaining(), limit.saturating_sub(charged));
        let decision = counter.check_n(cost);
        prop_assert_eq!(decision.is_allowed(), charged + cost <= limit);
        let wait = if charged + cost <= limit { Some(0) } else { Some(1_100) };
        if cost <= limit {
            prop_assert_eq!(decision.retry_after().map(nanos), wait);
        }
        counter.clock().advance(Duration::from_nanos(1_100));
        prop_assert_eq!(counter.peek().remaining(), limit);
    }
}

#[test]
fn a_reset_forgets_everything_once() {
    let clock = ManualClock::new();
    let window = Duration::from_micros(1);
    let counter = SubWindowCounter::with_sub_windows(3, window, 4, &clock).unwrap();
    let sharded = ShardedCounter::builder(3, window).sub_windows(4).shards(2).block(2);
    let sharded = sharded.clock(&clock).build().unwrap();
    let log = SlidingLog::with_clock(3, window, &clock).unwrap();
    for _ in 0..20 {
        for step in [0, 300, 0, 200] {
            clock.advance(Duration::from_nanos(step));
            assert!(counter.check().is_allowed() || step == 200);
            assert!(log.check().is_allowed() || step == 200);
            // Leaves a block in the shard.
            let _ = sharded.check();
        }
        assert!(!counter.check().is_allowed() && !log.check().is_allowed());
        counter.reset();
        sharded.reset();
        log.reset();
        for decision in [counter.peek(), sharded.peek(), log.peek()] {
            assert_eq!(answer(&decision), (true, 3, Some(0), 0));
        }
        assert!(sharded.check_n(3).is_allowed() && !sharded.check().is_allowed());
        assert!(counter.check_n(3).is_allowed() && log.check_n(3).is_allowed());
        assert!(!counter.check().is_allowed() && !log.check().is_allowed());
        // One sub-window more, and 1 ns for each reset within the same nanosecond.
        clock.advance(Duration::from_nanos(990));
        assert!(counter.peek().remaining() == 0 && log.peek().remaining() == 0);
        assert_eq!(sharded.peek().remaining(), 0);
        clock.advance(Duration::from_nanos(260));
        assert!(counter.peek().remaining() == 3 && log.peek().remaining() == 3);
        counter.reset();
        sharded.reset();
        log.reset();
    }
}

#[test]
fn what_cannot_be_enforced_is_an_error() {
    let second = Duration::from_secs(1);
    let made = |limit, window, count| {
        SubWindowCounter::with_sub_windows(limit, window, count, ManualClock::new()).err()
    };
    assert_eq!(made(1, Duration::ZERO, 60), Some(CounterError::ZeroWindow));
    assert_eq!(made(1, MAX_COUNTER_WINDOW, MAX_SUB_WINDOWS), None);
    let longer = MAX_COUNTER_WINDOW + Duration::from_nanos(1);
    assert_eq!(made(1, longer, 60), Some(CounterError::WindowTooLong));
    assert_eq!(made(1, second, 0), Some(CounterError::SubWindows));
    assert_eq!(made(1, second, MAX_SUB_WINDOWS + 1), Some(CounterError::SubWindows));
    let max = 16_777_215;
    assert_eq!(made(u64::MAX, second, 60), Some(CounterError::LimitTooHigh { max }));
    assert_eq!(made(max + 1, second, 60), Some(CounterError::LimitTooHigh { max }));
    assert_eq!(made(max, second, 60), None);
    assert_eq!(made(10_000_000, second, 60), None);
    let log = SlidingLog::with_clock(MAX_LOG_UNITS + 1, second, ManualClock::new());
    assert_eq!(log.err(), Some(CounterError::LimitTooHigh { max: MAX_LOG_UNITS }));
    let shards = |shards, block| {
        let builder = ShardedCounter::builder(9, second).shards(shards).block(block);
        builder.clock(ManualClock::new()).build().err()
    };
    assert_eq!(shards(0, 1), Some(CounterError::Shards));
    assert_eq!(shards(2, 0), Some(CounterError::Shards));
    assert_eq!(shards(3, 1), None);
    let default = |limit| ShardedCounter::builder(limit, second).shards(3).build().unwrap().block();
    // At most a sixteenth for 61 sub-windows of four shards.
    assert_eq!([0, 9, 7_807, 7_808, 1_000_000].map(default), [1, 1, 1, 2, 256]);
    let many = ShardedCounter::builder(9, second).shards(usize::MAX).sub_windows(u64::MAX);
    assert_eq!(many.build().err(), Some(CounterError::SubWindows));
    let many = ShardedCounter::builder(9, second).shards(usize::MAX);
    assert_eq!(many.build().err(), Some(CounterError::Shards));
}

#[test]
fn trap_rate_0_burst_0_period_0() {
    let clock = ManualClock::new();
    let second = Duration::from_secs(1);
    for decision in [
        SubWindowCounter::with_clock(0, second, &clock).unwrap().check(),
        ShardedCounter::with_clock(0, second, &clock).unwrap().check(),
        SlidingLog::with_clock(0, second, &clock).unwrap().check(),
    ] {
        assert_eq!(answer(&decision), (false, 0, None, 0));
    }
}

#[test]
fn trap_cost_times_interval_wraps() {
    let (counter, log) = (sub_windows(3, 1_000, 4), log(3, 1_000));
    let sharded = sharded(3, 1_000, 4, 2);
    for cost in [4, 1 << 32, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        for decision in [counter.check_n(cost), sharded.check_n(cost), log.check_n(cost)] {
            assert_eq!(answer(&decision), (false, 3, None, 0), "{cost}");
        }
    }
    assert_eq!(counter.charge(u64::MAX).remaining(), 0);
    assert_eq!(counter.charge(u64::MAX).remaining(), 0);
}

#[test]
fn trap_time_runs_backwards() {
    let (counter, log) = (sub_windows(5, 1_000, 4), log(5, 1_000));
    let sharded = sharded(5, 1_000, 4, 2);
    let admitted = |now: u64| {
        let at = Timestamp::from_nanos(now);
        [counter.check_at(1, at), sharded.check_at(1, at), log.check_at(1, at)]
            .map(|decision| u64::from(decision.is_allowed()))
    };
    let mut sum = [0; 3];
    for round in 0..500_u64 {
        let now = if round < 8 { 10_000 } else { round * 7_919 % 10_000 };
        for (sum, one) in sum.iter_mut().zip(admitted(now)) {
            *sum += one;
        }
    }
    assert_eq!(sum, [5; 3]);
}

/// Units that were admitted at time 0 count, and as long as any others.
#[test]
fn trap_0_as_fresh_sentinel() {
    let (counter, log) = (sub_windows(2, 1_000, 4), log(2, 1_000));
    let sharded = sharded(2, 1_000, 4, 1);
    for (now, allowed) in [(0, true), (0, true), (0, false), (500, false), (999, false)] {
        let at = Timestamp::from_nanos(now);
        for decision in [counter.check_at(1, at), sharded.check_at(1, at), log.check_at(1, at)] {
            assert_eq!(decision.is_allowed(), allowed, "at {now}: {decision:?}");
        }
    }
    assert!(log.check_at(1, Timestamp::from_nanos(1_000)).is_allowed());
}

/// What one denial skipped as empty or expired is not skipped by another, for which it still
/// counts.
#[test]
fn a_denial_at_an_earlier_reading_says_when_its_own_units_expire() {
    let counter = sub_windows(3, 1_000, 4);
    let at = Timestamp::from_nanos;
    assert!(counter.check_at(1, at(0)).is_allowed());
    assert!(counter.check_at(2, at(750)).is_allowed());
    let first = counter.check_at(1, at(760)).retry_after();
    assert!(!counter.check_at(2, at(1_300)).is_allowed());
    assert_eq!(counter.check_at(1, at(760)).retry_after(), first);
    assert_eq!(first, Some(Duration::from_nanos(490)));
}

#[test]
fn trap_clock_leaps_forward_584_years() {
    let (counter, log) = (sub_windows(2, 1_000, 4), log(2, 1_000));
    let sharded = sharded(2, 1_000, 4, 1);
    counter.clock().set(Timestamp::from_nanos(u64::MAX));
    sharded.clock().set(Timestamp::from_nanos(u64::MAX));
    log.clock().set(Timestamp::from_nanos(u64::MAX));
    for allowed in [true, true, false, false] {
        assert_eq!(counter.check().is_allowed(), allowed);
        assert_eq!(sharded.check().is_allowed(), allowed);
        assert_eq!(log.check().is_allowed(), allowed);
    }
    assert!(counter.check().retry_after() > Some(Duration::ZERO));
    log.reset();
    assert!(log.check_n(2).is_allowed());
}

#[test]
fn trap_clock_leaps_forward_50_years() {
    let year = 365 * 24 * 3_600 * 1_000_000_000;
    for years in [1, 10, 50] {
        let (counter, log) = (sub_windows(3, 1_000_000, 60), log(3, 1_000_000));
        let mut now = years * year;
        for _ in 0..5 {
            let at = Timestamp::from_nanos(now);
            assert!(counter.check_at(3, at).is_allowed() && log.check_at(3, at).is_allowed());
            let denied = (counter.check_at(1, at), log.check_at(1, at));
            assert!(!denied.0.is_allowed() && !denied.1.is_allowed());
            now += nanos(denied.0.retry_after().unwrap());
        }
    }
}

/// Threads that ask for exactly the limit together: a lost race is no denial.
#[test]
fn trap_two_words_updated_apart() {
    const THREADS: u64 = 4;
    const EACH: u64 = 50_000;
    const WINDOW: u64 = 1_000_000_000;
    let limit = THREADS * EACH;
    let (counter, log) = (sub_windows(limit, WINDOW, 5), log(limit, WINDOW));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    assert!(counter.check().is_allowed() && log.check().is_allowed());
                }
            });
        }
    });
    assert!(!counter.check().is_allowed() && !log.check().is_allowed());
}

/// Threads that check concurrently while time advances: what they were admitted, by their readings,
/// stays within the limit.
#[test]
fn threads_together_admit_what_the_limit_says() {
    const THREADS: u64 = 4;
    const WINDOW: u64 = 1_000;
    let (counter, log) = (sub_windows(100, WINDOW, 5), log(100, WINDOW));
    let sharded = sharded(100, WINDOW, 5, 3);
    let time = ManualClock::new();
    let ledgers = std::thread::scope(|scope| {
        let thread = |number: u64| {
            let (counter, sharded, log, time) = (&counter, &sharded, &log, &time);
            move || {
                let mut ledger = [(); 3].map(|()| Vec::new());
                for round in 0..20_000 {
                    if number == 0 {
                        time.advance(Duration::from_nanos(1));
                    }
                    let (at, cost) = (time.now(), 1 + round % 3);
                    let decisions = [
                        counter.check_at(cost, at),
                        sharded.check_at(cost, at),
                        log.check_at(cost, at),
                    ];
                    for (ledger, decision) in ledger.iter_mut().zip(decisions) {
                        if decision.is_allowed() {
                            ledger.push((at.as_nanos(), cost));
                        }
                    }
                }
                ledger
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(thread(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let ledger = |which: usize| -> Vec<_> {
        ledgers.iter().flat_map(|ledger| ledger[which].iter().copied()).collect()
    };
    assert!(most_within(WINDOW, ledger(2)) <= 100);
    // The counters go by the sub-window in which a unit counts, which may be later than its
    // reading. They cannot detect a thread that is delayed between reading and check, so only the
    // sum is asserted.
    let windows = time.now().as_nanos() / WINDOW + 2;
    for which in 0..2 {
        let sum: u64 = ledger(which).iter().map(|(_, cost)| cost).sum();
        assert!(sum <= 100 * windows, "{sum}");
    }
}

#[test]
fn counters_tell_what_they_enforce() {
    let (window, clock) = (Duration::from_secs(1), ManualClock::new());
    let counter = SubWindowCounter::with_sub_windows(9, window, 50, &clock).unwrap();
    assert_eq!((counter.limit(), counter.window(), counter.sub_windows()), (9, window, 50));
    let counter = ShardedCounter::builder(9, window).sub_windows(60).clock(&clock).build().unwrap();
    let longer = window + Duration::from_nanos(20);
    assert_eq!((counter.limit(), counter.window(), counter.sub_windows()), (9, longer, 60));
    let log = SlidingLog::with_clock(9, window, &clock).unwrap();
    assert_eq!((log.limit(), log.window()), (9, window));
}
