//! Long histories against the exact oracle, and long uptimes.
//!
//! Histories follow from a seed that is printed; `TIDEGATE_ORACLE_SEED` replays one.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::MAX_BURST_TOLERANCE;
use tidegate_engine::{Limiter, ManualClock, Quota};

use crate::exact::{Oracle, answer};

const SECOND: u64 = 1_000_000_000;
const YEAR: u64 = 365 * 24 * 3_600 * SECOND;
const HISTORIES: u64 = 1_000;
const STEPS: u64 = 1_100;

/// The generator `SplitMix64`.
struct Random(u64);

impl Random {
    /// Seeded at random unless `TIDEGATE_ORACLE_SEED` is set.
    fn new() -> Self {
        let seed = std::env::var("TIDEGATE_ORACLE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0_u64));
        println!("TIDEGATE_ORACLE_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Small numbers as often as large ones.
    fn any_below(&mut self, end: u64) -> u64 {
        let bits = self.below(u64::from(end.ilog2()) + 1) as u32;
        self.below(end.min(2 << bits))
    }
}

fn limiter(quota: Quota) -> Limiter<Quota, ManualClock> {
    Limiter::builder(quota).capacity(1).clock(ManualClock::new()).build().unwrap()
}

fn interval(quota: &Quota) -> u64 {
    quota.period().as_nanos() as u64 / quota.count()
}

/// A gap in nanoseconds: none, some, an emission interval, about a burst.
fn gap(random: &mut Random, quota: &Quota) -> u64 {
    let interval = interval(quota);
    match random.below(8) {
        0..3 => 0,
        3 => random.below(5),
        4 => interval,
        5 => random.below(interval * 2),
        6 => interval.saturating_mul(random.below(4)) + random.below(3),
        _ => random.below(interval.saturating_mul(quota.burst_size() + 1)),
    }
}

fn cost(random: &mut Random, quota: &Quota) -> u64 {
    match random.below(8) {
        0..5 => 1,
        5 => random.below(quota.burst_size() + 2),
        6 => random.any_below(u64::MAX),
        _ => 0,
    }
}

/// A quota whose emission interval is a whole number of nanoseconds, with a burst tolerance up to
/// the largest.
fn whole_quota(random: &mut Random) -> Quota {
    let count = 1 + random.any_below(1_000);
    let most = MAX_BURST_TOLERANCE.as_nanos() as u64;
    let interval = 1 + random.any_below(most / count);
    let burst = 1 + random.any_below(most / interval);
    Quota::new(count, Duration::from_nanos(count * interval)).burst(burst)
}

#[test]
fn a_million_steps_agree_with_the_oracle() {
    let mut random = Random::new();
    for history in 0..HISTORIES {
        let quota = whole_quota(&mut random);
        let (limiter, mut oracle) = (limiter(quota), Oracle::new(&quota));
        // A gap is at most two bursts: all of the history lies within ten years.
        let mut now = random.below(10) * YEAR / 10;
        for step in 0..STEPS {
            let gap = gap(&mut random, &quota).min(10 * YEAR - now.min(10 * YEAR));
            now += gap;
            let cost = cost(&mut random, &quota);
            let decision = limiter.check_at("key", cost, Timestamp::from_nanos(now));
            let expected = oracle.check(now, cost);
            assert_eq!(answer(&decision), expected, "history {history}, step {step}: {quota:?}");
        }
    }
}

/// Where the emission interval is not a whole number of nanoseconds, the clock is rounded to a
/// unit, which is below 2 ns, and nothing else is.
#[test]
fn odd_quotas_are_off_by_less_than_a_unit_for_ten_years() {
    const SLACK_NANOS: i128 = 3;
    let mut random = Random::new();
    for history in 0..HISTORIES / 4 {
        let count = 1 + random.any_below(100_000_000);
        let period = SECOND * (1 + random.any_below(100_000));
        let most = MAX_BURST_TOLERANCE.as_nanos() as u64 / (period / count + 1);
        let burst = 1 + random.any_below(most.min(10_000) - 1);
        let quota = Quota::new(count, Duration::from_nanos(period)).burst(burst);
        let (limiter, mut oracle) = (limiter(quota), Oracle::new(&quota));
        let mut now = random.below(10) * YEAR / 10;
        for step in 0..STEPS {
            now = (now + gap(&mut random, &quota)).min(10 * YEAR);
            let cost = cost(&mut random, &quota);
            let missing = oracle.missing(now, cost);
            let slack = oracle.at(SLACK_NANOS);
            let decision = limiter.check_at("key", cost, Timestamp::from_nanos(now));
            let text = format!("history {history}, step {step}: {quota:?}, {missing} missing");
            if decision.is_allowed() {
                assert!(missing <= slack, "admitted early: {text}");
                oracle.admit(now, cost);
            } else {
                assert!(missing > -slack, "denied late: {text}");
            }
        }
    }
}

/// Everything that fits is taken at once, at random moments over a long time. Returns what was
/// admitted beyond the first burst, and the nanoseconds that took.
fn taken(quota: Quota, steps: u64, gap_nanos: u64) -> (u64, u64) {
    let mut random = Random::new();
    let limiter = limiter(quota);
    let (mut now, mut admitted) = (0, 0);
    for step in 0..steps {
        if step > 0 {
            now += 1 + random.below(2 * gap_nanos);
        }
        let at = Timestamp::from_nanos(now);
        let room = limiter.check_at("key", 0, at).remaining();
        if room > 0 {
            assert!(limiter.check_at("key", room, at).is_allowed(), "{quota:?}: {room} remained");
            admitted += room;
        }
        assert_eq!(limiter.check_at("key", 0, at).remaining(), 0);
    }
    (admitted - quota.burst_size(), now)
}

/// The relative error of `found`, in parts of 10^9.
fn error(found: u64, expected: u128) -> u128 {
    u128::from(found).abs_diff(expected) * 1_000_000_000 / expected
}

#[test]
fn the_long_run_rate_is_right_to_a_part_in_a_million() {
    // A step lets a thousand units in on average, so 2 x 10^7 in all.
    for rate in [1_u64, 3, 7, 60, 999, 1_000, 44_100, 999_983, 1_000_000] {
        let quota = Quota::per_second(rate).burst(4_000);
        let (admitted, elapsed) = taken(quota, 20_000, 1_000 * SECOND / rate);
        let expected = u128::from(elapsed) * u128::from(rate) / u128::from(SECOND);
        assert!(u128::from(admitted) <= expected + 1);
        assert!(error(admitted, expected) <= 1_000, "{rate}: {admitted} of {expected}");
    }
}

#[test]
fn the_long_run_rate_of_fast_keys_is_right_to_a_part_in_a_thousand() {
    for rate in [1_000_001_u64, 3_000_000, 7_654_321, 33_333_333, 99_999_989, 100_000_000] {
        let quota = Quota::per_second(rate).burst(1_000_000);
        let (admitted, elapsed) = taken(quota, 20_000, SECOND * 200_000 / rate);
        let expected = u128::from(elapsed) * u128::from(rate) / u128::from(SECOND);
        assert!(u128::from(admitted) <= expected + 1);
        assert!(error(admitted, expected) <= 1_000_000, "{rate}: {admitted} of {expected}");
    }
}

#[test]
fn after_one_year_and_ten_nothing_has_changed() {
    let most = MAX_BURST_TOLERANCE.as_secs();
    for uptime in [YEAR, 10 * YEAR] {
        for (quota, burst) in [
            (Quota::per_second(1), most),
            (Quota::per_day(1), 1_000),
            (Quota::per_second(1_000_000), 9),
        ] {
            let quota = quota.burst(burst);
            let (limiter, mut oracle) = (limiter(quota), Oracle::new(&quota));
            let mut now = uptime;
            for (gap, cost) in
                [(0, burst), (0, 1), (1, 1), (interval(&quota), 1), (0, 1), (0, burst)]
            {
                now += gap;
                let decision = limiter.check_at("key", cost, Timestamp::from_nanos(now));
                assert_eq!(answer(&decision), oracle.check(now, cost), "{quota:?} at {now}");
            }
        }
    }
}

#[test]
fn after_fifty_years_no_key_gets_more_than_one_burst() {
    for quota in
        [Quota::per_second(1).burst(5), Quota::per_second(3).burst(5), Quota::per_day(7).burst(5)]
    {
        let limiter = limiter(quota);
        let (mut before, mut after) = (0, 0);
        for day in 0..60 * 365 {
            let at = Timestamp::from_nanos(day * 86_400 * SECOND);
            let allowed = |key: &str| u64::from(limiter.check_at(key, 1, at).is_allowed());
            if day < 10 * 365 {
                before += allowed("early");
            } else if day >= 50 * 365 {
                after += allowed("late");
                assert_eq!(allowed("early") * u64::from(day > 50 * 365 + 5), 0);
            }
        }
        assert_eq!(before, 10 * 365, "one a day for ten years");
        assert_eq!(after, 5, "one burst in the ten years after fifty");
    }
}
