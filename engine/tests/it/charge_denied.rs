//! Limiters that charge denied checks, against an exact oracle and with real threads; and quotas
//! that block or admit everything, through every operation.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::MAX_BURST_TOLERANCE;
use tidegate_engine::{
    BuildError, Clock as _, Decision, Limit, LimitSet, Limiter, ManualClock, OverflowPolicy, Quota,
    QuotaError,
};

fn limiter(quota: Quota, bursts: u64) -> (Limiter<Quota, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(quota).capacity(1_000).clock(clock.clone());
    (builder.charge_denied(bursts).build().unwrap(), clock)
}

/// One key, in whole nanoseconds and without bounds.
struct Oracle {
    interval: i128,
    tau: i128,
    ceiling: i128,
    debt: i128,
    seen: i128,
}

impl Oracle {
    fn new(interval: u64, burst: u64, bursts: u64) -> Self {
        let interval = i128::from(interval);
        let tau = interval * i128::from(burst);
        let ceiling = tau * (1 + i128::from(bursts));
        Self { interval, tau, ceiling, debt: 0, seen: 0 }
    }

    fn drain(&mut self, now: Timestamp) {
        let now = i128::from(now.as_nanos());
        self.debt = (self.debt - (now - self.seen)).max(0);
        self.seen = now;
    }

    /// Whether the check is allowed, and how long to wait after a denial; `None` for ever.
    fn check(&mut self, cost: u64) -> (bool, Option<u128>) {
        let charge = i128::from(cost) * self.interval;
        if charge > self.tau {
            return (false, None);
        }
        if cost > 0 && self.debt + charge <= self.tau {
            self.debt += charge;
            return (true, Some(0));
        }
        if cost > 0 {
            self.debt = (self.debt + charge).min(self.ceiling).max(self.debt);
        }
        let missing = (self.debt + charge - self.tau).max(0) as u128;
        (missing == 0, Some(missing))
    }
}

fn agree(decision: &Decision, oracle: &Oracle, expected: (bool, Option<u128>)) -> bool {
    let remaining = (oracle.tau - oracle.debt).max(0) / oracle.interval;
    decision.is_allowed() == expected.0
        && decision.retry_after().map(|wait| wait.as_nanos()) == expected.1
        && decision.reset_after().as_nanos() == oracle.debt as u128
        && i128::from(decision.remaining()) == remaining
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_figure_agrees_with_the_oracle(
        interval in 1_u64..1_000_000,
        burst in 1_u64..20,
        bursts in 1_u64..5,
        with_call in any::<bool>(),
        steps in prop::collection::vec(
            (
                0_u64..5,
                0_u64..3,
                prop_oneof![4 => Just(1), 1 => 0_u64..25, 1 => any::<u64>()],
                0..30,
            ),
            1..200,
        ),
    ) {
        let quota = Quota::new(1, Duration::from_nanos(interval)).burst(burst);
        let own = if with_call { Quota::per_second(1) } else { quota };
        let (limiter, clock) = limiter(own, bursts);
        let mut oracle = Oracle::new(interval, burst, bursts);
        for (intervals, nanos, cost, rare) in steps {
            clock.advance(Duration::from_nanos(intervals * interval / 2 + nanos));
            oracle.drain(clock.now());
            if rare == 0 {
                let debt = Duration::from_nanos(interval * burst * (bursts + 1));
                limiter.charge_debt(limiter.hash("key"), debt, clock.now());
                oracle.debt += debt.as_nanos().cast_signed();
            }
            let decision = if with_call {
                limiter.check_with("key", cost, &quota).unwrap()
            } else {
                limiter.check_n("key", cost)
            };
            let expected = oracle.check(cost);
            prop_assert!(agree(&decision, &oracle, expected), "{decision:?}, {expected:?}");
        }
    }

    /// Where the interval has a fraction: the same, but for units of time.
    #[test]
    fn a_client_that_hammers_stays_banned_under_any_quota(
        count in 1_u64..50_000_000,
        burst in 1_u64..20,
        bursts in 1_u64..4,
        with_call in any::<bool>(),
    ) {
        let quota = Quota::per_second(count).burst(burst);
        let own = if with_call { Quota::per_second(3) } else { quota };
        let (limiter, clock) = limiter(own, bursts);
        let check = || limiter.check_with("key", 1, &quota).unwrap();
        let allowed = (0..200).filter(|_| {
            // Twice the rate.
            clock.advance(quota.debt_of(1) / 2);
            check().is_allowed()
        });
        // Half of those within the burst drain meanwhile.
        prop_assert!(allowed.count() as u64 <= 2 * burst + 1);
        let wait = check().retry_after().unwrap();
        // A denial is charged whole units, of up to 2 ns, for each unit of cost.
        let rounding = 2 * burst * (bursts + 1);
        let most = quota.debt_of(burst * bursts + 1) + Duration::from_nanos(8 + rounding);
        prop_assert!(wait <= most, "{wait:?} of {most:?}");
        clock.advance(wait);
        prop_assert!(check().is_allowed());
    }
}

#[test]
fn a_hammered_key_is_limited_last_to_be_forgotten() {
    let builder = Limiter::builder(Quota::per_hour(5)).capacity(1).charge_denied(1);
    let limiter = builder.clock(ManualClock::new()).build().unwrap();
    let fill = u64::try_from(limiter.capacity()).unwrap() * 2;
    // The table is crowded before the key is denied, so that denials count.
    (0..fill).for_each(|key| assert!(limiter.check(key).is_allowed()));
    (0..2_000).for_each(|_| _ = limiter.check("banned"));
    (fill..3 * fill).for_each(|key| assert!(limiter.check_n(key, 5).is_allowed()));
    assert!(!limiter.check("banned").is_allowed());
}

#[test]
fn nothing_is_charged_beyond_what_a_word_holds() {
    let quota = Quota::new(1, MAX_BURST_TOLERANCE).burst(1);
    let (limiter, clock) = limiter(quota, u64::MAX);
    clock.set(Timestamp::from_nanos(u64::MAX));
    assert!(limiter.check("key").is_allowed());
    for _ in 0..3 {
        let denied = limiter.check("key");
        assert_eq!(denied.retry_after(), Some(MAX_BURST_TOLERANCE));
    }
}

#[test]
fn batches_charge_what_they_deny() {
    let (limiter, _) = limiter(Quota::per_second(2), 10);
    let mut decisions = Vec::new();
    limiter.check_many(&["key"; 7], &mut decisions);
    assert_eq!(decisions.iter().filter(|it| it.is_allowed()).count(), 2);
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_millis(3_500));
}

#[test]
fn threads_together_charge_each_check_once() {
    const THREADS: u64 = 4;
    const CHECKS: u64 = 5_000;
    let (limiter, _) = limiter(Quota::per_second(1).burst(100), 1_000);
    let (allowed, start) = (AtomicU64::new(0), Barrier::new(THREADS as usize));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                let mine = (0..CHECKS).filter(|_| limiter.check("key").is_allowed()).count();
                allowed.fetch_add(mine as u64, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(allowed.into_inner(), 100);
    assert_eq!(limiter.peek("key").reset_after().as_secs(), THREADS * CHECKS);
}

#[test]
fn leases_with_charged_denials_are_an_error() {
    let quota = Quota::per_second(1_000_000);
    let build =
        |units, bursts| Limiter::builder(quota).lease_units(units).charge_denied(bursts).build();
    assert!(build(100, 0).unwrap().lease_units() > 0);
    assert_eq!(build(0, 1).unwrap().lease_units(), 0);
    assert_eq!(build(100, 1).err(), Some(BuildError::LeasesWithChargeDenied));
    assert_eq!(build(1, u64::MAX).err(), Some(BuildError::LeasesWithChargeDenied));
}

/// Whether this is the answer of an unlimited quota.
fn is_open(decision: Decision) -> bool {
    let figures = (decision.limit(), decision.remaining(), decision.reset_after());
    decision.is_allowed() && figures == (u64::MAX, u64::MAX, Duration::ZERO)
}

#[test]
fn an_unlimited_quota_admits_everything_and_remembers_nothing() {
    let builder =
        || Limiter::builder(Quota::unlimited()).capacity(1).overflow_policy(OverflowPolicy::Deny);
    for builder in [builder().charge_denied(3), builder().lease_units(100)] {
        admits_everything_and_remembers_nothing(&builder.build().unwrap());
    }
}

fn admits_everything_and_remembers_nothing(limiter: &Limiter) {
    for key in 0..100_000_u64 {
        assert!(is_open(limiter.check(key)));
    }
    for cost in [0, 1, u64::MAX] {
        assert!(is_open(limiter.check_n("key", cost)));
        assert!(is_open(limiter.check_at("key", cost, Timestamp::ORIGIN)));
        assert!(is_open(limiter.check_with("key", cost, &Quota::unlimited()).unwrap()));
        assert!(is_open(limiter.charge("key", cost)));
        limiter.refund("key", cost);
    }
    limiter.reset("key");
    assert!(is_open(limiter.peek("key")));
    let mut decisions = Vec::new();
    limiter.check_many(&["key", "other"].repeat(20), &mut decisions);
    assert!(decisions.len() == 40 && decisions.into_iter().all(is_open));
    assert_eq!(limiter.live().count(), 0);
    assert_eq!(limiter.overflow(), tidegate_engine::observer::OverflowCounts::default());
    assert_eq!(Quota::unlimited().debt_of(u64::MAX), Duration::ZERO);
}

#[test]
fn a_blocked_quota_denies_every_cost_and_remembers_nothing() {
    let builder = Limiter::builder(Quota::blocked()).capacity(1).charge_denied(3);
    let limiter = builder.build().unwrap();
    for cost in [1, 2, u64::MAX] {
        let decision = limiter.check_n("key", cost);
        assert!(!decision.is_allowed() && decision.retry_after().is_none());
        assert_eq!((decision.limit(), decision.remaining()), (0, 0));
        assert!(!limiter.check_with("key", cost, &Quota::blocked()).unwrap().is_allowed());
        limiter.refund("key", cost);
        let _ = limiter.charge("key", cost);
    }
    let mut decisions = Vec::new();
    limiter.check_many(&["key"; 20], &mut decisions);
    assert!(decisions.len() == 20 && decisions.iter().all(|it| !it.is_allowed()));
    assert_eq!(limiter.live().count(), 0);
    assert_eq!(Quota::blocked().debt_of(7), Duration::ZERO);
}

#[test]
fn blocked_and_unlimited_are_distinguished_from_other_quotas() {
    assert!(Quota::unlimited().is_unlimited() && !Quota::unlimited().is_blocked());
    assert!(Quota::unlimited().burst(7).is_unlimited());
    assert!(Quota::blocked().is_blocked() && !Quota::blocked().is_unlimited());
    assert!(!Quota::per_second(u64::MAX).is_unlimited());
    let error = |quota| Limiter::builder(quota).build().err();
    let no_period = Some(BuildError::Quota(QuotaError::ZeroPeriod));
    assert_eq!(error(Quota::new(u64::MAX - 1, Duration::ZERO)), no_period);
}

#[test]
fn a_key_keeps_its_debt_while_it_is_unlimited_or_blocked() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(5), 0);
    assert!(limiter.check_n("key", 5).is_allowed());
    assert!(is_open(limiter.check_with("key", 1_000, &Quota::unlimited()).unwrap()));
    assert!(!limiter.check_with("key", 1, &Quota::blocked()).unwrap().is_allowed());
    clock.advance(Duration::from_secs(2));
    assert_eq!(limiter.peek("key").remaining(), 2);
}

/// Asks one limiter alone, one in a set of its own, one in a set with a limit that has room, and
/// one for a reservation.
fn four_ways(quota: Quota, bursts: u64, steps: &[(u64, u64)]) -> [Vec<Decision>; 4] {
    let roomy = Limiter::new(Quota::unlimited()).unwrap();
    let limiters = [(); 4].map(|()| limiter(quota, bursts));
    let mut decisions = [(); 4].map(|()| Vec::new());
    for &(gap, cost) in steps {
        for (_, clock) in &limiters {
            clock.advance(Duration::from_nanos(gap));
        }
        let [(alone, _), (single, _), (in_set, _), (reserved, _)] = &limiters;
        decisions[0].push(alone.check_n("key", cost));
        decisions[1].extend(LimitSet::new([single.ask("key", cost)]).check().decisions());
        let set = LimitSet::new([roomy.ask("key", 1), in_set.ask("key", cost)]).check();
        decisions[2].extend(set.decisions().nth(1));
        decisions[3].push(match reserved.reserve("key", cost) {
            Ok(reservation) => {
                let decision = reservation.decision();
                let _ = reservation.commit(cost);
                decision
            }
            Err(denied) => denied,
        });
    }
    decisions
}

proptest! {
    /// What a set or a reservation denies is charged like a check of that limit.
    #[test]
    fn sets_and_reservations_charge_what_they_deny(
        interval in 1_u64..1_000_000,
        burst in 1_u64..20,
        bursts in 0_u64..5,
        steps in prop::collection::vec(
            (0_u64..3, prop_oneof![4 => Just(1), 1 => 0_u64..25]),
            1..200,
        ),
    ) {
        let quota = Quota::new(1, Duration::from_nanos(interval)).burst(burst);
        let steps = steps.into_iter().map(|(half, cost)| (half * interval / 2, cost));
        let steps: Vec<_> = steps.collect();
        let [alone, others @ ..] = four_ways(quota, bursts, &steps);
        for other in others {
            prop_assert_eq!(&alone, &other);
        }
    }
}

/// Each limit without room charges its own key, whichever has the longest wait; the others charge
/// nothing.
#[test]
fn trap_a_client_that_hammers_a_set_stays_banned_and_pays_nowhere_else() {
    let (login, clock) = limiter(Quota::per_second(1), 5);
    let slow = Limiter::builder(Quota::per_minute(1)).clock(clock.clone()).build().unwrap();
    let roomy = Limiter::builder(Quota::per_hour(100)).clock(clock.clone()).charge_denied(5);
    let roomy = roomy.build().unwrap();
    let set = || [login.ask("key", 1).named("login"), slow.ask("key", 1), roomy.ask("key", 1)];
    assert!(LimitSet::new(set()).check().is_allowed());
    for _ in 0..200 {
        clock.advance(Duration::from_millis(500));
        assert!(!LimitSet::new(set()).peek().is_allowed());
        assert!(!LimitSet::new(set()).check().is_allowed());
    }
    // `slow` had room again long ago.
    assert!(slow.peek("key").remaining() == 1 && roomy.peek("key").remaining() == 100);
    let denied = LimitSet::new(set()).reserve().unwrap_err();
    assert_eq!(denied.blocked().map(|blocked| blocked.name()), Some("login"));
    let wait = denied.retry_after().unwrap();
    assert_eq!(wait, Duration::from_secs(6));
    clock.advance(wait);
    assert!(LimitSet::new(set()).check().is_allowed());
}

/// A limiter that has room again by the time a set lets it charge the denial of its first check.
#[test]
fn a_denial_is_not_charged_where_room_has_come_back() {
    let (limiter, clock) = limiter(Quota::per_second(2), 3);
    let deny = |cost| Limit::charge_denied(&limiter, limiter.hash("key").into(), cost, clock.now());
    assert!(limiter.check("key").is_allowed());
    assert_eq!(deny(1), None);
    assert_eq!(limiter.peek("key").remaining(), 1);
    assert_eq!(deny(2).and_then(|denied| denied.retry_after()), Some(Duration::from_millis(1_500)));
}

/// A set that asks a key for several costs is denied once, for their sum.
#[test]
fn a_set_that_asks_a_key_twice_is_charged_its_denial_once() {
    let (limiter, _) = limiter(Quota::per_second(5), 100);
    assert!(limiter.check_n("key", 4).is_allowed());
    let asks = [1, 2, 2].map(|cost| limiter.ask("key", cost));
    let denied = LimitSet::new(asks).check();
    let fits: Vec<_> = denied.decisions().map(|decision| decision.is_allowed()).collect();
    assert_eq!(fits, [true, false, false]);
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_millis(9 * 200));
    // As a whole it never fits, which is not charged.
    let asks = [4, 4].map(|cost| limiter.ask("key", cost));
    assert_eq!(LimitSet::new(asks).check().retry_after(), None);
    assert_eq!(limiter.peek("key").reset_after(), Duration::from_millis(9 * 200));
}
