//! Changes of a quota without end: what is owed is carried right across any number of them.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::{Inheritance, MAX_BURST_TOLERANCE};
use tidegate_engine::{Clock as _, Decision, DirectLimiter, LiveQuota, ManualClock, Quota};

use crate::live_change::{Live, Oracle, inheritance, limiter};

const YEAR: Duration = Duration::from_hours(365 * 24);

type Single = DirectLimiter<LiveQuota, ManualClock>;

/// A key of a limiter, and a limiter without keys, that are asked the same.
struct Both {
    keyed: Live,
    single: Single,
    clock: ManualClock,
}

impl Both {
    fn new(quota: Quota) -> Self {
        let (keyed, clock) = limiter(quota);
        let single = DirectLimiter::builder(LiveQuota::new(quota)).clock(clock.clone());
        Self { keyed, single: single.build().unwrap(), clock }
    }

    fn check(&self, cost: u64) -> Decision {
        let decision = self.single.check_n(cost);
        assert_eq!(self.keyed.check_n("key", cost), decision);
        decision
    }

    fn charge(&self, cost: u64) -> Decision {
        let decision = self.single.charge(cost);
        assert_eq!(self.keyed.charge("key", cost), decision);
        decision
    }

    fn reset(&self) {
        self.keyed.reset("key");
        self.single.reset();
    }

    fn change(&self, quota: Quota, how: Inheritance) {
        self.single.set_quota(quota, how).unwrap();
        self.keyed.set_quota(quota, how).unwrap();
    }
}

/// Changes to and fro between two quotas, `count` of them on the limiter without keys and a tenth
/// on the keyed one (each takes two passes over its table). Half of the lesser burst is owed
/// throughout, and drains for a moment after each change; now and then all of it is used up.
fn to_and_fro(quotas: [Quota; 2], count: u64) {
    let it = Both::new(quotas[0]);
    let owed = quotas[0].burst_size().min(quotas[1].burst_size()) / 2;
    assert!(it.check(owed).is_allowed());
    for change in 1..=count {
        let quota = quotas[change as usize % 2];
        it.single.set_quota(quota, Inheritance::Proportional).unwrap();
        assert_eq!(it.single.peek().remaining(), quota.burst_size() - owed, "change {change}");
        if change % 10 <= 1 {
            it.keyed.set_quota(quota, Inheritance::Proportional).unwrap();
            assert_eq!(it.keyed.peek("key"), it.single.peek(), "change {change}");
        }
        if change % 1_000 == 0 {
            let left = quota.burst_size() - owed;
            assert!(it.check(left).is_allowed());
            assert!(!it.check(1).is_allowed());
            it.clock.advance(quota.debt_of(left));
            // A unit of time that is no whole number of nanoseconds.
            it.clock.advance(Duration::from_nanos(1));
            assert_eq!(it.check(0).remaining(), left);
            it.reset();
            assert!(it.check(owed).is_allowed());
        }
    }
}

#[test]
fn a_hundred_thousand_changes_of_a_quota_a_day() {
    let quota = |count| Quota::new(count, Duration::from_hours(24));
    to_and_fro([quota(10_000), quota(11_000)], 100_000);
}

#[test]
fn ten_thousand_changes_of_a_quota_a_month() {
    let quota = |count| Quota::new(count, Duration::from_hours(30 * 24));
    to_and_fro([quota(1_000_000), quota(2_000_000)], 10_000);
}

#[test]
fn a_thousand_changes_of_a_few_a_year() {
    to_and_fro([Quota::new(2, YEAR), Quota::new(4, YEAR)], 1_000);
}

/// Bursts that take as long to refill as any may, all of it owed.
#[test]
fn changes_of_the_longest_burst() {
    let longest = Quota::new(1, MAX_BURST_TOLERANCE).burst(1);
    let it = Both::new(longest);
    for change in 0..100 {
        assert!(it.check(1).is_allowed(), "change {change}");
        it.change(longest, Inheritance::Keep);
        assert_eq!(it.check(1).retry_after(), Some(MAX_BURST_TOLERANCE), "change {change}");
        it.change(longest, Inheritance::Reset);
    }
}

/// A limiter keeps time for ten years and more after a change, however many there were before, and
/// however much is owed across them.
#[test]
fn ten_years_pass_after_a_change() {
    for quota in [Quota::new(3, YEAR), Quota::new(1, MAX_BURST_TOLERANCE).burst(1)] {
        let it = Both::new(quota);
        for change in 0..20 {
            assert_eq!(it.charge(quota.burst_size()).remaining(), 0);
            it.change(quota, Inheritance::Keep);
            assert!(!it.check(1).is_allowed(), "change {change}");
            it.clock.advance((10 * YEAR).saturating_sub(quota.debt_of(1)));
            assert!(it.check(quota.burst_size()).is_allowed(), "change {change}");
            assert!(!it.check(1).is_allowed(), "change {change}");
            it.clock.advance(quota.debt_of(1));
            assert!(it.check(1).is_allowed(), "change {change}");
            it.reset();
        }
    }
}

/// Time stands still 13.7 years after a change, and the next change lets it pass again.
#[test]
fn a_change_after_the_end_of_time_begins_anew() {
    let it = Both::new(Quota::per_second(5));
    for _ in 0..3 {
        it.clock.advance(30 * YEAR);
        assert!(it.check(5).is_allowed());
        it.clock.advance(YEAR);
        assert!(!it.check(1).is_allowed());
        it.change(Quota::per_second(5), Inheritance::Keep);
        assert_eq!(it.check(1).retry_after(), Some(Duration::from_millis(200)));
        it.clock.advance(Duration::from_millis(200));
        assert!(it.check(1).is_allowed());
    }
}

/// Readings that go back, as far as to the origin, mint nothing, however old the epoch is.
#[test]
fn a_reading_from_long_ago_mints_nothing() {
    for changes in [0, 1, 7] {
        let it = Both::new(Quota::per_second(5));
        for _ in 0..changes {
            let _ = it.charge(u64::MAX);
            it.change(Quota::per_second(5), Inheritance::Keep);
        }
        it.reset();
        for years in 0..13 {
            assert!(it.check(5).is_allowed(), "{years} years");
            for at in [Timestamp::ORIGIN, it.clock.now().saturating_sub(5 * YEAR)] {
                assert!(!it.keyed.check_at("key", 1, at).is_allowed(), "{years} years");
                assert!(!it.single.check_at(1, at).is_allowed(), "{years} years");
            }
            assert!(!it.check(1).is_allowed(), "{years} years");
            it.clock.advance(YEAR);
        }
    }
}

/// Debt saturates below what two epochs next to each other can hold, and stays there.
#[test]
fn debt_saturates_at_five_years() {
    let it = Both::new(Quota::per_second(5));
    for change in 0..20 {
        let owed = it.charge(u64::MAX).reset_after();
        assert!((5 * YEAR..6 * YEAR).contains(&owed), "{owed:?}");
        it.keyed.charge_debt(it.keyed.hash("key"), Duration::MAX, it.clock.now());
        it.keyed.raise_debt(it.keyed.hash("key"), Duration::MAX);
        it.change(Quota::per_second(5), Inheritance::Keep);
        assert_eq!(it.charge(0).reset_after(), owed, "change {change}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Check(u64),
    /// Debt of this many days.
    Owe(u64),
    Reset,
    Change(Quota, Inheritance),
}

fn step() -> impl Strategy<Value = Step> {
    let quota = (prop::sample::select(vec![1_u64, 2, 5]), 1_u64..60)
        .prop_map(|(count, burst)| Quota::new(count, Duration::from_secs(1)).burst(burst));
    prop_oneof![
        4 => (1_u64..20).prop_map(Step::Check),
        2 => (1_u64..400).prop_map(Step::Owe),
        1 => Just(Step::Reset),
        6 => (quota, inheritance()).prop_map(|(quota, how)| Step::Change(quota, how)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Three keys with debts of up to years, so that the values of few changes fill the range they
    /// have, and many changes use it again and again.
    #[test]
    fn debts_of_years_are_carried_across_changes(
        start in 0_u64..1 << 60,
        steps in prop::collection::vec((0_usize..3, 0_u64..6, 0_u64..5, step()), 1..150),
    ) {
        let quota = Quota::new(1, Duration::from_secs(1)).burst(9);
        let it = Both::new(quota);
        let mut oracles = [Oracle::new(quota); 3];
        it.clock.advance(Duration::from_nanos(start));
        it.change(quota, Inheritance::Keep);
        for (key, months, nanos, step) in steps {
            it.clock.advance(YEAR * months as u32 / 50 + Duration::from_nanos(nanos));
            for oracle in &mut oracles {
                oracle.drain(it.clock.now());
            }
            match step {
                Step::Check(cost) => {
                    let allowed = it.keyed.check_n(key as u64, cost).is_allowed();
                    prop_assert_eq!(allowed, oracles[key].check(cost));
                    if key == 0 {
                        prop_assert_eq!(it.single.check_n(cost).is_allowed(), allowed);
                    }
                }
                Step::Owe(days) => {
                    let cost = days * 86_400 * it.keyed.quota().count();
                    // At most what the longest burst would be, also once it has been converted.
                    if oracles[key].debt < 1 << 54 {
                        let _ = it.keyed.charge(key as u64, cost);
                        if key == 0 {
                            let _ = it.single.charge(cost);
                        }
                        oracles[key].debt += i128::from(cost) * oracles[key].interval;
                    }
                }
                Step::Reset => {
                    it.keyed.reset(key as u64);
                    if key == 0 {
                        it.single.reset();
                    }
                    oracles[key].debt = 0;
                }
                Step::Change(quota, how) => {
                    it.change(quota, how);
                    for oracle in &mut oracles {
                        oracle.change(quota, how);
                    }
                }
            }
            prop_assume!(oracles.iter().all(|oracle| oracle.debt < 1 << 57));
            for (key, oracle) in oracles.iter().enumerate() {
                let seen = it.keyed.peek(key as u64);
                prop_assert_eq!(seen.reset_after().as_nanos(), oracle.debt as u128);
                let remaining = (oracle.tau() - oracle.debt).max(0) / oracle.interval;
                prop_assert_eq!(i128::from(seen.remaining()), remaining);
                prop_assert!(key > 0 || it.single.peek() == seen);
            }
        }
    }
}
