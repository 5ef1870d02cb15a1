//! Denied keys stay denied while one-shot keys are sprayed at the table.
//!
//! Ten times the capacity is sprayed, at the cost of one unit or of a whole burst, fast and slowly,
//! from seeds that are printed; `TIDEGATE_SEED=n` replays one.

use std::env;
use std::time::Duration;

use tidegate_engine::{KeyHash, KeyHasher, Limiter, ManualClock, Quota};

/// Keys that are checked throughout.
const LIMITED: usize = 50;
/// A table of 16 384 slots.
const CAPACITY: usize = 13_107;
/// What sprayed keys are checked under: T is 6 s.
const QUOTA: Quota = Quota::per_minute(10);

/// How a key that is being limited behaves.
#[derive(Clone, Copy, Debug)]
struct Habit {
    quota: Quota,
    cost: u64,
}

const HABITS: [Habit; 5] = [
    Habit { quota: QUOTA, cost: 1 },
    Habit { quota: QUOTA, cost: 10 },
    Habit { quota: Quota::per_hour(1), cost: 1 },
    Habit { quota: Quota::per_minute(20).burst(2), cost: 1 },
    Habit { quota: Quota::per_hour(60).burst(100), cost: 7 },
];

/// A key under the decisions of an ideal limiter, which forgets nothing.
struct Limited {
    key: KeyHash,
    habit: Habit,
    tat: u128,
    /// Checks that the ideal limiter denies, and those of them that ours admitted.
    denials: u64,
    leaks: u64,
}

impl Limited {
    fn check(&mut self, limiter: &Limiter<Quota, ManualClock>, now: Duration) {
        let Habit { quota, cost } = self.habit;
        let interval = quota.period().as_nanos() / u128::from(quota.count());
        let charged = self.tat.max(now.as_nanos()) + interval * u128::from(cost);
        let fits = charged - now.as_nanos() <= interval * u128::from(quota.burst_size());
        let allowed = limiter.check_with(self.key, cost, &quota).unwrap().is_allowed();
        if fits {
            self.tat = charged;
        } else {
            self.denials += 1;
            self.leaks += u64::from(allowed);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Spray {
    seed: u64,
    /// The cost of each sprayed key.
    cost: u64,
    /// The time in which as many keys are sprayed as the table has room for.
    turnover: Duration,
    /// Sprayed keys per check of a limited key.
    sprayed_per_check: usize,
}

/// Sprays, and returns the limited keys and the number of evictions.
fn run(spray: Spray) -> (Vec<Limited>, u64) {
    let clock = ManualClock::new();
    let hasher = KeyHasher::rapid(spray.seed);
    let ours = Limiter::builder(QUOTA)
        .capacity(CAPACITY)
        .hasher(hasher.clone())
        .clock(clock.clone())
        .build()
        .unwrap();
    let mut limited: Vec<_> = (0..LIMITED)
        .map(|index| Limited {
            key: hasher.hash_u64(index as u64),
            habit: HABITS[index % HABITS.len()],
            tat: 0,
            denials: 0,
            leaks: 0,
        })
        .collect();
    // They are denied before the spray begins.
    for key in &mut limited {
        for _ in 0..200 {
            key.check(&ours, Duration::ZERO);
        }
        assert_eq!(key.leaks, 0);
        key.denials = 0;
    }
    let step = spray.turnover / CAPACITY as u32;
    let mut now = Duration::ZERO;
    let mut round = 0;
    for sprayed in 0..10 * CAPACITY {
        now += step;
        clock.advance(step);
        let key = hasher.hash_u64((LIMITED + sprayed) as u64);
        let _ = ours.check_n(key, spray.cost);
        if sprayed % spray.sprayed_per_check == 0 {
            limited[round % LIMITED].check(&ours, now);
            round += 1;
        }
    }
    (limited, ours.evicted())
}

fn seeds() -> Vec<u64> {
    match env::var("TIDEGATE_SEED") {
        Ok(seed) => vec![seed.parse().expect("TIDEGATE_SEED is a number")],
        Err(_) => vec![1, 2],
    }
}

#[test]
fn trap_eviction_forgets_a_limited_key() {
    let interval = QUOTA.debt_of(1);
    for seed in seeds() {
        for cost in [1, QUOTA.burst_size()] {
            for turnover in [interval / 50, interval / 2, interval * 4] {
                for sprayed_per_check in [1, 10] {
                    let options = Spray { seed, cost, turnover, sprayed_per_check };
                    println!("{options:?}");
                    let (limited, evicted) = run(options);
                    if turnover < interval {
                        assert!(evicted > 8 * CAPACITY as u64, "{evicted} evictions are no spray");
                    }
                    for Limited { habit, denials, leaks, .. } in limited {
                        assert!(denials > 100, "{habit:?} was denied only {denials} times");
                        assert!(leaks * 1_000 <= denials, "{habit:?}: {leaks} of {denials} leaked");
                    }
                }
            }
        }
    }
}

/// Denials protect the limited keys: a key that is only peeked at, or checked for more than ever
/// fits, is evicted as soon as others owe more.
#[test]
fn a_look_or_an_impossible_cost_protects_no_key() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(QUOTA).capacity(CAPACITY).clock(clock.clone()).build().unwrap();
    let owing = |key: u64| limiter.peek(key).reset_after() > Duration::ZERO;
    let [peeked, asked_too_much, denied] = [1, 2, 3];
    for key in [peeked, asked_too_much, denied] {
        assert!(limiter.check_n(key, 1).is_allowed());
    }
    for sprayed in 0..10 * CAPACITY as u64 {
        clock.advance(Duration::from_micros(1));
        let _ = limiter.check_n(1_000 + sprayed, 10);
        assert!(limiter.peek(peeked).is_allowed());
        let _ = limiter.peek_n(peeked, 10);
        assert!(!limiter.check_n(asked_too_much, 11).is_allowed());
        assert!(!limiter.check_n(denied, 10).is_allowed());
        if sprayed == 2 * CAPACITY as u64 {
            assert_eq!([peeked, asked_too_much, denied].map(owing), [false, false, true]);
        }
    }
    assert!(owing(denied));
}
