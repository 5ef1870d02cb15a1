//! Refund and reset against an exact oracle, and against real threads.

use std::collections::HashMap;
use std::sync::Barrier;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock, Limiter, ManualClock, Quota};

/// An operation on a key, after a gap in thirds of an emission interval and nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Check(u64),
    Refund(u64),
    Reset,
    /// Debt charged whether or not it fits, in emission intervals.
    Charge(u64),
}

type Step = (u64, u64, u8, Operation);

fn steps(keys: u8) -> impl Strategy<Value = Vec<Step>> {
    let cost = || prop_oneof![6 => 0_u64..4, 2 => 0_u64..80, 1 => any::<u64>()];
    let operation = prop_oneof![
        8 => cost().prop_map(Operation::Check),
        5 => cost().prop_map(Operation::Refund),
        1 => Just(Operation::Reset),
        1 => (0_u64..100).prop_map(Operation::Charge),
    ];
    let thirds = prop_oneof![4 => Just(0_u64), 4 => 0_u64..6, 1 => 0_u64..150];
    let nanos = prop_oneof![3 => Just(0_u64), 1 => 0_u64..5];
    prop::collection::vec((thirds, nanos, 0..keys, operation), 1..200)
}

/// Quotas whose emission interval is a whole number of nanoseconds, so every figure is exact.
fn quota() -> impl Strategy<Value = Quota> {
    let count = prop::sample::select(vec![1_u64, 5, 100, 40_000, 1_000_000, 1_000_000_000]);
    (count, 1_u64..60)
        .prop_map(|(count, burst)| Quota::new(count, Duration::from_secs(1)).burst(burst))
}

fn limiter(quota: Quota) -> (Limiter<Quota, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota).capacity(1_000).clock(clock.clone()).build().unwrap(), clock)
}

/// One key, in whole nanoseconds, unbounded: debt is what was charged and has neither drained nor
/// been given back.
#[derive(Default)]
struct Oracle {
    debt: i128,
    seen: i128,
}

impl Oracle {
    fn drain(&mut self, now: u64) {
        self.debt = (self.debt - (i128::from(now) - self.seen)).max(0);
        self.seen = i128::from(now);
    }

    /// Whether the step is an admitted check.
    fn apply(&mut self, operation: Operation, interval: i128, burst: u64) -> bool {
        match operation {
            Operation::Check(cost) => {
                let wanted = self.debt + i128::from(cost) * interval;
                let fits = wanted <= i128::from(burst) * interval;
                if fits {
                    self.debt = wanted;
                }
                return fits;
            }
            Operation::Refund(cost) => {
                self.debt = (self.debt - i128::from(cost) * interval).max(0);
            }
            Operation::Reset => self.debt = 0,
            Operation::Charge(count) => self.debt += i128::from(count) * interval,
        }
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn debt_is_what_was_charged_and_neither_drained_nor_given_back(
        quota in quota(),
        start in 0_u64..1 << 50,
        steps in steps(3),
    ) {
        let (limiter, clock) = limiter(quota);
        let interval = i128::from(1_000_000_000 / quota.count());
        let mut oracles: HashMap<u8, Oracle> = HashMap::new();
        let mut now = start;
        for (thirds, nanos, key, operation) in steps {
            now += thirds * interval as u64 / 3 + nanos;
            clock.set(Timestamp::from_nanos(now));
            let oracle = oracles.entry(key).or_default();
            oracle.drain(now);
            let admitted = oracle.apply(operation, interval, quota.burst_size());
            match operation {
                Operation::Check(cost) => {
                    prop_assert_eq!(limiter.check_n(key, cost).is_allowed(), admitted);
                }
                Operation::Refund(cost) => limiter.refund(key, cost),
                Operation::Reset => limiter.reset(key),
                Operation::Charge(count) => {
                    let debt = Duration::from_nanos(count * interval as u64);
                    limiter.charge_debt(limiter.hash(key), debt, clock.now());
                }
            }
            // Every key, so that nothing is charged to another.
            for (key, oracle) in &mut oracles {
                oracle.drain(now);
                let debt = limiter.peek(*key).reset_after().as_nanos();
                prop_assert_eq!(debt, oracle.debt as u128, "key {} after {:?}", key, operation);
            }
        }
    }

    /// The bound, including what was given back: in every interval the admitted cost is at most
    /// `burst + rate * (t - s)` and what was refunded in it.
    #[test]
    fn a_refund_lets_in_at_most_what_it_gives_back(
        quota in (1_u64..100_000_000, 1_u64..100_000, 1_u64..60).prop_map(
            |(count, seconds, burst)| Quota::new(count, Duration::from_secs(seconds)).burst(burst)
        ),
        steps in steps(1),
    ) {
        let (limiter, clock) = limiter(quota);
        let (period, count) = (quota.period().as_nanos().cast_signed(), i128::from(quota.count()));
        let mut now = 0;
        let mut events = Vec::new();
        for (thirds, nanos, _, operation) in steps {
            now += thirds * ((period / count) as u64) / 3 + nanos;
            clock.set(Timestamp::from_nanos(now));
            match operation {
                Operation::Check(cost) if limiter.check_n("key", cost).is_allowed() => {
                    events.push((i128::from(now), i128::from(cost)));
                }
                Operation::Refund(cost) => {
                    limiter.refund("key", cost);
                    events.push((i128::from(now), -i128::from(cost)));
                }
                _ => {}
            }
        }
        for (first, (from, cost)) in events.iter().enumerate().filter(|(_, event)| event.1 > 0) {
            let mut admitted = *cost;
            let mut refunded = 0;
            for (until, cost) in &events[first + 1..] {
                if *cost < 0 {
                    refunded -= cost;
                    continue;
                }
                admitted += cost;
                // One unit, below 2 ns, is the error of an interval's length.
                let bound = (i128::from(quota.burst_size()) + refunded) * period
                    + (until - from + 2) * count;
                prop_assert!(admitted * period <= bound, "{admitted}, {refunded} refunded");
            }
        }
    }
}

#[test]
fn a_reset_key_has_its_whole_burst_and_others_keep_their_debt() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(5));
    assert!(limiter.check_n("reset", 5).is_allowed() && limiter.check_n("other", 5).is_allowed());
    limiter.charge_debt(limiter.hash("reset"), Duration::from_hours(1), Timestamp::ORIGIN);
    limiter.reset("reset");
    assert!(limiter.check_n("reset", 5).is_allowed());
    assert!(!limiter.check("reset").is_allowed());
    assert!(!limiter.check("other").is_allowed());
}

#[test]
fn an_earlier_time_finds_the_debt_since_then() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(1));
    clock.set(Timestamp::from_nanos(10_000_000_000));
    assert!(limiter.check("key").is_allowed());
    limiter.reset("key");
    let earlier = Timestamp::from_nanos(7_000_000_000);
    assert_eq!(limiter.check_at("key", 0, earlier).reset_after(), Duration::from_secs(3));
    assert!(!limiter.check_at("key", 1, earlier).is_allowed());
    assert!(limiter.check("key").is_allowed());
}

#[test]
fn units_of_a_quota_given_with_the_call_are_given_back_at_the_limiters_interval() {
    let (limiter, _) = limiter(Quota::per_second(10).burst(10));
    let slow = Quota::per_second(1).burst(10);
    assert!(limiter.check_with("key", 3, &slow).unwrap().is_allowed());
    limiter.refund("key", 3);
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_millis(2_700));
}

#[test]
fn refunds_and_resets_of_unknown_keys_take_no_place() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(5));
    clock.advance(Duration::from_secs(10));
    for key in 0_u64..10_000 {
        limiter.refund(key, 1);
        limiter.reset(key);
    }
    assert_eq!((limiter.live().count(), limiter.evicted()), (0, 0));
    // A word that had been written would be debt to a caller with an earlier time.
    for key in 0_u64..10_000 {
        assert_eq!(limiter.check_at(key, 0, Timestamp::ORIGIN).reset_after(), Duration::ZERO);
    }
}

#[test]
fn a_blocked_quota_gives_nothing_back() {
    let (limiter, _) = limiter(Quota::per_second(0));
    let debt = Duration::from_secs(1);
    limiter.charge_debt(limiter.hash("key"), debt, Timestamp::ORIGIN);
    limiter.refund("key", u64::MAX);
    assert_eq!(limiter.peek("key").reset_after(), debt);
    limiter.reset("key");
    assert_eq!(limiter.peek("key").reset_after(), Duration::ZERO);
}

/// The clock stands still and the burst is never reached, so a key's debt is exactly what its
/// threads took less what they gave back: none of it may be lost.
#[test]
fn refunds_and_checks_of_many_threads_add_up() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 100_000;
    const KEYS: u64 = 3;

    let (limiter, _) = limiter(Quota::per_second(1).burst(THREADS * TURNS * 3));
    // Enough debt that no refund finds a fresh key.
    let deposit = THREADS * TURNS;
    for key in 0..KEYS {
        assert!(limiter.check_n(key, deposit).is_allowed());
    }
    let start = Barrier::new(THREADS as usize);
    let balance = |thread: u64| {
        let mut balances = [0_i64; KEYS as usize];
        let mut random = thread + 1;
        start.wait();
        for _ in 0..TURNS {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = random % KEYS;
            if random & 8 == 0 {
                limiter.refund(key, 1);
                balances[key as usize] -= 1;
            } else if limiter.check(key).is_allowed() {
                balances[key as usize] += 1;
            }
        }
        balances
    };
    let balances: Vec<_> = std::thread::scope(|scope| {
        let balance = &balance;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || balance(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for key in 0..KEYS {
        let sum: i64 = balances.iter().map(|of_thread| of_thread[key as usize]).sum();
        let debt = limiter.peek(key).reset_after().as_secs();
        assert_eq!(debt.cast_signed(), deposit.cast_signed() + sum, "key {key}");
    }
}

#[test]
fn debt_is_taken_back_as_units_are() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Quota::per_second(10).burst(10)).clock(clock.clone());
    let limiter = limiter.build().unwrap();
    assert_eq!(limiter.debt("key"), Duration::ZERO);
    assert!(limiter.check_n("key", 6).is_allowed());
    limiter.lower_debt("key", Duration::from_millis(250));
    assert_eq!(limiter.debt("key"), Duration::from_millis(350));
    clock.advance(Duration::from_millis(100));
    assert_eq!(limiter.debt("key"), Duration::from_millis(250));
    limiter.lower_debt("key", Duration::from_secs(9));
    assert_eq!((limiter.debt("key"), limiter.peek("key").remaining()), (Duration::ZERO, 10));
    // As of another reading of the clock, and with a hint before.
    limiter.raise_debt("key", Duration::from_millis(500));
    limiter.prefetch("key");
    for (at, debt) in [(0, 600), (100, 500), (400, 200), (600, 0), (700, 0)] {
        let debt_then = limiter.debt_at("key", Timestamp::from_nanos(at * 1_000_000));
        assert_eq!(debt_then, Duration::from_millis(debt), "at {at} ms");
    }
    // A key without debt is left as it is.
    limiter.lower_debt("key", Duration::from_secs(9));
    limiter.lower_debt("other", Duration::from_secs(1));
    assert_eq!(limiter.peek("other").remaining(), 10);
}
