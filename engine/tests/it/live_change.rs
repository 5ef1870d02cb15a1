//! Changing a quota while it is enforced: against an exact oracle, and with real threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::Inheritance;
use tidegate_engine::{
    Clock as _, Limiter, LiveQuota, ManualClock, OverflowPolicy, Quota, QuotaError,
};

pub(crate) type Live = Limiter<LiveQuota, ManualClock>;

pub(crate) fn limiter(quota: Quota) -> (Live, ManualClock) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(LiveQuota::new(quota)).capacity(1).clock(clock.clone());
    (builder.build().unwrap(), clock)
}

/// One key, in nanoseconds, unbounded.
#[derive(Clone, Copy)]
pub(crate) struct Oracle {
    pub(crate) interval: i128,
    pub(crate) burst: i128,
    pub(crate) debt: i128,
    seen: i128,
}

impl Oracle {
    pub(crate) fn new(quota: Quota) -> Self {
        let interval = quota.debt_of(1).as_nanos().cast_signed();
        Self { interval, burst: i128::from(quota.burst_size()), debt: 0, seen: 0 }
    }

    pub(crate) fn drain(&mut self, now: Timestamp) {
        let now = i128::from(now.as_nanos());
        self.debt = (self.debt - (now - self.seen)).max(0);
        self.seen = now;
    }

    pub(crate) fn tau(&self) -> i128 {
        self.burst * self.interval
    }

    pub(crate) fn check(&mut self, cost: u64) -> bool {
        let wanted = self.debt + i128::from(cost) * self.interval;
        let fits = wanted <= self.tau();
        if fits {
            self.debt = wanted;
        }
        fits
    }

    pub(crate) fn change(&mut self, quota: Quota, inheritance: Inheritance) {
        let new = Self::new(quota);
        let units = |debt: i128| (debt * new.interval + self.interval - 1) / self.interval;
        let within = self.debt.min(self.tau());
        self.debt = match inheritance {
            Inheritance::Keep => self.debt,
            Inheritance::Reset => 0,
            _ => units(within).min(new.tau()) + units(self.debt - within),
        };
        (self.interval, self.burst) = (new.interval, new.burst);
    }
}

/// Quotas whose emission interval is a whole number of nanoseconds.
pub(crate) fn whole_quota() -> impl Strategy<Value = Quota> {
    let count = prop::sample::select(vec![1_u64, 2, 5, 8, 1_000, 40_000, 1_000_000, 1_000_000_000]);
    (count, 1_u64..60)
        .prop_map(|(count, burst)| Quota::new(count, Duration::from_secs(1)).burst(burst))
}

pub(crate) fn any_quota() -> impl Strategy<Value = Quota> {
    let strict = |count, burst| Quota::strict(count + burst, Duration::from_secs(1), burst);
    let loose = |count, burst| Quota::per_second(count).burst(burst);
    (1_u64..100_000_000, 1_u64..60, any::<bool>()).prop_map(move |(count, burst, kept)| {
        if kept { strict(count, burst) } else { loose(count, burst) }
    })
}

pub(crate) fn inheritance() -> impl Strategy<Value = Inheritance> {
    prop_oneof![
        3 => Just(Inheritance::Proportional),
        2 => Just(Inheritance::Keep),
        1 => Just(Inheritance::Reset),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Check(u64),
    Charge(u64),
    Refund(u64),
    Change(Quota, Inheritance),
}

fn step(quota: impl Strategy<Value = Quota>) -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => prop_oneof![4 => Just(1), 1 => 0_u64..20, 1 => any::<u64>()].prop_map(Step::Check),
        1 => (0_u64..100).prop_map(Step::Charge),
        1 => (0_u64..10).prop_map(Step::Refund),
        4 => (quota, inheritance()).prop_map(|(quota, how)| Step::Change(quota, how)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Three keys, so that some pass two changes without a check between.
    #[test]
    fn every_figure_agrees_with_the_oracle_across_changes(
        quota in whole_quota(),
        start in 0_u64..1 << 50,
        steps in prop::collection::vec(
            (0_usize..3, 0_u64..6, 0_u64..5, step(whole_quota())),
            1..100,
        ),
    ) {
        let (limiter, clock) = limiter(quota);
        clock.set(Timestamp::from_nanos(start));
        let mut oracles = [Oracle::new(quota); 3];
        for (key, thirds, nanos, step) in steps {
            let pause = thirds * limiter.quota().debt_of(1).as_nanos() as u64 / 3 + nanos;
            clock.advance(Duration::from_nanos(pause));
            for it in &mut oracles {
                it.drain(clock.now());
            }
            match step {
                Step::Check(cost) => {
                    let allowed = limiter.check_n(key as u64, cost).is_allowed();
                    prop_assert!(cost == 0 || allowed == oracles[key].check(cost));
                }
                Step::Charge(cost) => {
                    let _ = limiter.charge(key as u64, cost);
                    oracles[key].debt += i128::from(cost) * oracles[key].interval;
                }
                Step::Refund(cost) => {
                    limiter.refund(key as u64, cost);
                    let given = i128::from(cost) * oracles[key].interval;
                    oracles[key].debt = (oracles[key].debt - given).max(0);
                }
                Step::Change(quota, how) => {
                    limiter.set_quota(quota, how).unwrap();
                    prop_assert_eq!(limiter.quota(), quota);
                    for it in &mut oracles {
                        it.change(quota, how);
                    }
                }
            }
            // Debt of years saturates.
            prop_assume!(oracles.iter().all(|it| it.debt < 1 << 50));
            for (key, oracle) in oracles.iter().enumerate() {
                let seen = limiter.peek(key as u64);
                prop_assert_eq!(seen.limit(), limiter.quota().burst_size());
                prop_assert_eq!(seen.reset_after().as_nanos(), oracle.debt as u128);
                let remaining = (oracle.tau() - oracle.debt).max(0) / oracle.interval;
                prop_assert_eq!(i128::from(seen.remaining()), remaining);
            }
        }
    }

    /// With any quotas: consumed units stay consumed, and a raise denies nothing more than that.
    #[test]
    fn a_raise_never_denies_what_the_new_quota_allows(
        quota in any_quota(),
        consumed in 1_u64..60,
        faster in 1_u64..1_000,
        larger in 0_u64..100,
    ) {
        let consumed = consumed.min(quota.burst_size());
        let (limiter, clock) = limiter(quota);
        clock.advance(Duration::from_secs(1));
        prop_assert!(limiter.check_n("key", consumed).is_allowed());
        let count = (quota.count() * faster).min(1_000_000_000);
        let raised = Quota::per_second(count).burst(quota.burst_size() + larger);
        limiter.set_quota(raised, Inheritance::Proportional).unwrap();
        let left = raised.burst_size() - consumed;
        prop_assert_eq!(limiter.peek("key").remaining(), left);
        prop_assert!(limiter.check_n("key", left).is_allowed());
        prop_assert!(!limiter.check("key").is_allowed());
    }

    /// A reservation cancelled after a change leaves the remainder there would be without it, or
    /// less where a lowered burst has cut debt or where the time it was charged for has begun to
    /// drain.
    #[test]
    fn a_reservation_open_across_a_change_gives_back_no_more_than_it_took(
        quotas in (whole_quota(), whole_quota()),
        how in inheritance(),
        costs in (0_u64..60, 1_u64..60, 0_u64..60),
        thirds in prop::array::uniform2(0_u32..60),
        later in 0_u64..9,
    ) {
        let ((quota, next), (owed, cost, more)) = (quotas, costs);
        let [(limiter, clock), (without, other)] = [limiter(quota), limiter(quota)];
        let owed = owed.min(quota.burst_size() - 1);
        let cost = cost.min(quota.burst_size() - owed);
        let both = |cost| [&limiter, &without].map(|it| it.charge("key", cost));
        let pause = |duration| [&clock, &other].map(|it| it.advance(duration));
        let _ = both(owed);
        let reserved = limiter.reserve("key", cost).unwrap();
        let _ = both(more);
        pause(quota.debt_of(1) * thirds[0] / 3);
        let drained = quota.debt_of(1) * thirds[0] / 3 > quota.debt_of(owed);
        let [before, _] = both(0);
        let cut = how == Inheritance::Proportional
            && before.reset_after() > Duration::ZERO
            && next.burst_size() < quota.burst_size();
        for it in [&limiter, &without] {
            it.set_quota(next, how).unwrap();
        }
        let owes = without.peek("key").reset_after();
        pause(next.debt_of(1) * thirds[1] / 3);
        let drained = drained || next.debt_of(1) * thirds[1] / 3 > Duration::ZERO && owed == 0;
        let _ = both(later);
        reserved.cancel();
        let left = limiter.peek("key").reset_after();
        let expected = without.peek("key").reset_after();
        // What a change makes of debt is rounded up, and what is given back down: a nanosecond
        // each.
        prop_assert!(left + Duration::from_nanos(1) >= expected, "{left:?} {expected:?}");
        let exact = !drained && !cut && (thirds[1] == 0 || owes.is_zero());
        prop_assert!(!exact || left <= expected + Duration::from_nanos(2), "{left:?} {expected:?}");
    }
}

#[test]
fn a_reservation_gives_back_what_it_took_at_the_interval_of_its_time() {
    for (how, left) in [
        // 9 s of debt of which 6 s were reserved: 3 s, 6 units at two a second.
        (Inheritance::Keep, 3_000),
        (Inheritance::Proportional, 1_500),
        (Inheritance::Reset, 0),
    ] {
        for (count, factor) in [(2, 1), (1, 2)] {
            let (limiter, _) = limiter(Quota::per_second(1).burst(10));
            assert!(limiter.check_n("key", 3).is_allowed());
            let reserved = limiter.reserve("key", 6).unwrap();
            limiter.set_quota(Quota::per_second(count).burst(20), how).unwrap();
            reserved.cancel();
            let left = if how == Inheritance::Proportional { left * factor } else { left };
            assert_eq!(limiter.peek("key").reset_after().as_millis(), left, "{how:?}");
        }
    }
}

#[test]
fn a_reservation_open_across_two_changes_gives_nothing_back() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(10));
    let reserved = limiter.reserve("key", 6).unwrap();
    for _ in 0..2 {
        limiter.set_quota(Quota::per_second(2).burst(10), Inheritance::Keep).unwrap();
    }
    reserved.cancel();
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_secs(6));
}

/// Two reservations of a burst that is lowered: cancelling one gives back nothing, since the new
/// burst may be owed for the other.
#[test]
fn what_a_lowered_burst_has_forgotten_is_not_given_back() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(100));
    let first = limiter.reserve("key", 30).unwrap();
    let second = limiter.reserve("key", 30).unwrap();
    limiter.set_quota(Quota::per_second(1).burst(10), Inheritance::Proportional).unwrap();
    first.cancel();
    assert_eq!(limiter.peek("key").remaining(), 0);
    second.cancel();
    assert_eq!(limiter.peek("key").remaining(), 0);
}

/// redis-cell #54: a key that had spent its burst was denied for the old quota's refill time.
#[test]
fn trap_raising_a_quota_denies() {
    let (limiter, clock) = limiter(Quota::per_hour(5));
    clock.advance(Duration::from_secs(77));
    assert!(limiter.check_n("key", 5).is_allowed());
    assert!(!limiter.check("key").is_allowed());
    limiter.set_quota(Quota::per_second(50), Inheritance::Proportional).unwrap();
    assert!(limiter.check_n("key", 45).is_allowed());
    assert_eq!(limiter.check("key").retry_after(), Some(Duration::from_millis(20)));
}

#[test]
fn inheritances_differ_as_they_say() {
    for (how, remaining, reset) in [
        (Inheritance::Proportional, 96, 400),
        (Inheritance::Keep, 60, 4_000),
        (Inheritance::Reset, 100, 0),
    ] {
        let (limiter, _) = limiter(Quota::per_second(1).burst(10));
        assert!(limiter.check_n("key", 4).is_allowed());
        limiter.set_quota(Quota::per_second(10).burst(100), how).unwrap();
        let seen = limiter.peek("key");
        assert_eq!(
            (seen.remaining(), seen.reset_after().as_millis()),
            (remaining, reset),
            "{how:?}"
        );
    }
}

#[test]
fn a_lowered_quota_owes_no_more_than_its_burst() {
    let (limiter, clock) = limiter(Quota::per_second(100));
    assert!(limiter.check_n("key", 100).is_allowed());
    limiter.set_quota(Quota::per_second(1), Inheritance::Proportional).unwrap();
    assert!(!limiter.check("key").is_allowed());
    clock.advance(Duration::from_secs(1));
    assert!(limiter.check("key").is_allowed());
}

#[test]
fn blocked_and_unlimited_come_and_go_and_debt_drains_meanwhile() {
    for between in [Quota::blocked(), Quota::unlimited()] {
        let (limiter, clock) = limiter(Quota::per_second(1).burst(5));
        assert!(limiter.check_n("key", 5).is_allowed());
        limiter.set_quota(between, Inheritance::Proportional).unwrap();
        assert_eq!(limiter.quota(), between);
        assert_eq!(limiter.check("key").is_allowed(), between.is_unlimited());
        clock.advance(Duration::from_secs(2));
        limiter.set_quota(Quota::per_second(1).burst(5), Inheritance::Proportional).unwrap();
        assert_eq!(limiter.peek("key").remaining(), 2);
    }
}

#[test]
fn a_quota_that_cannot_be_enforced_changes_nothing() {
    let (limiter, _) = limiter(Quota::per_second(1).burst(5));
    assert!(limiter.check_n("key", 2).is_allowed());
    let refused = limiter.set_quota(Quota::per_second(1).burst(0), Inheritance::Reset);
    assert_eq!(refused, Err(QuotaError::ZeroBurst));
    assert_eq!((limiter.quota().burst_size(), limiter.peek("key").remaining()), (5, 3));
}

/// A change makes old words look old, but must not make their slots look free.
#[test]
fn a_change_evicts_no_key_for_new_ones() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(LiveQuota::new(Quota::per_hour(1)));
    let builder = builder.capacity(1).overflow_policy(OverflowPolicy::Deny).clock(clock.clone());
    let limiter = builder.build().unwrap();
    let old = u64::try_from(limiter.capacity()).unwrap();
    let placed: Vec<_> = (0..old).filter(|key| limiter.check(*key).is_allowed()).collect();
    limiter.set_quota(Quota::per_minute(1), Inheritance::Keep).unwrap();
    for key in old..3 * old {
        let _ = limiter.check(key);
    }
    assert!(placed.into_iter().all(|key| !limiter.check(key).is_allowed()));
}

/// Threads that check while the quota changes: with debt kept as units and a stopped clock, the
/// total admitted is the final burst.
#[test]
fn threads_that_check_through_changes_are_admitted_the_last_burst() {
    const RAISES: u64 = 300;
    let (limiter, _) = limiter(Quota::per_second(1).burst(1));
    let (allowed, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    allowed
                        .fetch_add(u64::from(limiter.check("key").is_allowed()), Ordering::Relaxed);
                }
            });
        }
        for raise in 1..=RAISES {
            let quota = Quota::per_second(1 + raise % 5).burst(1 + raise * 3);
            limiter.set_quota(quota, Inheritance::Proportional).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let left = limiter.peek("key").remaining();
    assert_eq!(allowed.into_inner() + left, limiter.quota().burst_size());
}
