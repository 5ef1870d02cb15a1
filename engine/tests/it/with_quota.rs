//! All operations under a quota given with the call, against exact oracles and limiters of that
//! quota.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::rule::Inheritance;
use tidegate_engine::wait::Turn;
use tidegate_engine::{
    Clock as _, LimitSet, Limiter, LiveQuota, ManualClock, Quota, QuotaError, Reservation,
};

use crate::exact::Oracle;
use crate::pairs::both;
use crate::waiting::line;

/// The most nanoseconds by which two units of time, rounded both ways, differ.
const SLACK_NANOS: i128 = 8;
pub(crate) const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) type Plain = Limiter<Quota, ManualClock>;

pub(crate) fn on(clock: &ManualClock, quota: Quota) -> Plain {
    Limiter::builder(quota).capacity(1).clock(clock.clone()).build().unwrap()
}

pub(crate) fn limiter(quota: Quota) -> (Plain, ManualClock) {
    let clock = ManualClock::new();
    (on(&clock, quota), clock)
}

/// Limiters whose unit of time is 1 ns, and up to 2 ns.
fn own_quota() -> impl Strategy<Value = Quota> {
    prop_oneof![
        Just(Quota::per_second(1)),
        Just(Quota::new(10_000_000, Duration::from_nanos(19_999_999)).burst(1)),
        (1_u64..1_000_000_000).prop_map(|count| Quota::per_second(count).burst(1)),
    ]
}

/// An operation, after a gap in thirds of an emission interval and nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Step {
    Check(u64),
    /// This many checks, at one reading of the clock.
    CheckMany(usize),
    Charge(u64),
    Refund(u64),
    Reset,
    Reserve(u64),
    /// Settles the nth open reservation.
    Settle(usize, u64),
    /// With a maximum wait in thirds of an emission interval.
    Enqueue(u64, u32),
    GiveUp(usize),
}

fn steps(waits: bool) -> impl Strategy<Value = Vec<(u32, u64, Step)>> {
    let line = if waits { 4 } else { 0 };
    let step = prop_oneof![
        8 => (0_u64..6).prop_map(Step::Check),
        2 => (0_usize..9).prop_map(Step::CheckMany),
        2 => (0_u64..9).prop_map(Step::Charge),
        2 => (0_u64..6).prop_map(Step::Refund),
        1 => Just(Step::Reset),
        4 => (0_u64..6).prop_map(Step::Reserve),
        4 => (any::<usize>(), 0_u64..9).prop_map(|(which, used)| Step::Settle(which, used)),
        line => (0_u64..6, 0_u32..30).prop_map(|(cost, wait)| Step::Enqueue(cost, wait)),
        line => any::<usize>().prop_map(Step::GiveUp),
    ];
    let thirds = prop_oneof![3 => Just(0_u32), 5 => 0_u32..5, 1 => 0_u32..60];
    prop::collection::vec((thirds, 0_u64..3, step), 1..200)
}

fn take<T>(held: &mut Vec<T>, which: usize) -> Option<T> {
    (!held.is_empty()).then(|| held.remove(which % held.len()))
}

/// Whether a decision on `cost` is the oracle's, but for the slack; what is allowed is charged.
fn agrees(oracle: &mut Oracle, now: u64, cost: u64, allowed: bool) -> Result<(), TestCaseError> {
    let (missing, slack) = (oracle.missing(now, cost), oracle.at(SLACK_NANOS));
    if allowed {
        prop_assert!(missing <= slack, "{missing} too early");
        oracle.admit(now, cost);
    } else {
        prop_assert!(missing > -slack, "{missing} too late");
    }
    Ok(())
}

/// Charges what was used beyond a reservation, else gives back the debt of what was not.
fn settle(oracle: &mut Oracle, now: u64, excess: u64, unused: i128) {
    if excess > 0 {
        oracle.admit(now, excess);
    } else {
        give_back(oracle, now, unused);
    }
}

fn give_back(oracle: &mut Oracle, now: u64, debt: i128) {
    let at = oracle.at(i128::from(now));
    oracle.tat = oracle.tat.min((oracle.tat - debt).max(at));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A quota of whole nanoseconds, on limiters that count in nanoseconds: every decision is that
    /// of a limiter under this quota.
    #[test]
    fn all_is_as_of_a_limiter_of_that_quota(
        interval in 1_u64..3_000_000,
        burst in 1_u64..12,
        bursts in 0_u64..2,
        steps in steps(true),
    ) {
        let quota = Quota::new(1, Duration::from_nanos(interval)).burst(burst);
        let clock = ManualClock::new();
        let of = |quota| {
            let builder = Limiter::builder(quota).capacity(1).clock(clock.clone());
            builder.charge_denied(bursts).build().unwrap()
        };
        let (own, other) = (of(quota), of(Quota::per_second(1_000_000).burst(3)));
        let given = other.with_quota(&quota).unwrap();
        let mut reserved: Vec<[Reservation<'_>; 2]> = Vec::new();
        let mut turns: Vec<[Turn<'_, Plain>; 2]> = Vec::new();
        for (thirds, nanos, step) in steps {
            clock.advance(quota.debt_of(1) * thirds / 3 + Duration::from_nanos(nanos));
            match step {
                Step::Check(cost) => {
                    prop_assert_eq!(own.check_n("key", cost), given.check_n("key", cost));
                }
                Step::CheckMany(count) => {
                    let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
                    own.check_many(&vec!["key"; count], &mut ours);
                    given.check_many(&vec!["key"; count], &mut theirs);
                    prop_assert_eq!((ours.len(), &ours), (count, &theirs));
                }
                Step::Charge(cost) => {
                    prop_assert_eq!(own.charge("key", cost), given.charge("key", cost));
                }
                Step::Refund(cost) => {
                    own.refund("key", cost);
                    given.refund("key", cost);
                }
                Step::Reset => {
                    own.reset("key");
                    given.reset("key");
                }
                Step::Reserve(cost) => {
                    let both = both(own.reserve("key", cost), given.reserve("key", cost))?;
                    reserved.extend(both.map(<[_; 2]>::from));
                }
                Step::Settle(which, used) => {
                    if let Some([own, given]) = take(&mut reserved, which) {
                        prop_assert_eq!(own.commit(used), given.commit(used));
                    }
                }
                Step::Enqueue(cost, thirds) => {
                    let wait = quota.debt_of(1) * thirds / 3;
                    let (own, given) =
                        (own.enqueue("key", cost, wait), given.enqueue("key", cost, wait));
                    if let Some((own, given)) = both(own, given)? {
                        prop_assert_eq!(own.start(), given.start());
                        prop_assert_eq!(own.decision(), given.decision());
                        turns.push([own, given]);
                    }
                }
                Step::GiveUp(which) => {
                    if let Some([own, given]) = take(&mut turns, which) {
                        prop_assert_eq!(own.cancel(), given.cancel());
                    }
                }
            }
            prop_assert_eq!(own.peek("key"), given.peek("key"));
        }
    }

    /// Whatever is charged and given back, and however often, a key's debt is that of rational
    /// arithmetic, to within some nanoseconds: errors do not accumulate.
    #[test]
    fn what_is_owed_agrees_with_the_oracle_in_the_long_run(
        own in own_quota(),
        count in 2_u64..100_000_000,
        seconds in 1_u64..1_000,
        burst in 1_u64..60,
        steps in steps(false),
    ) {
        let quota = Quota::new(count, Duration::from_secs(seconds)).burst(burst);
        let interval = u64::try_from(quota.debt_of(1).as_nanos()).unwrap();
        prop_assume!(interval < 1 << 20);
        let (limiter, clock) = limiter(own);
        let given = limiter.with_quota(&quota).unwrap();
        let (mut oracle, mut decisions) = (Oracle::new(&quota), Vec::new());
        let period = i128::try_from(quota.period().as_nanos()).unwrap();
        let exact = |units: u64| i128::from(units) * period;
        // With the oracle's TAT after the charge.
        let mut reserved: Vec<(Reservation<'_>, i128)> = Vec::new();
        for (thirds, nanos, step) in steps {
            clock.advance(quota.debt_of(1) * thirds / 3 + Duration::from_nanos(nanos));
            let now = clock.now().as_nanos();
            let at = oracle.at(i128::from(now));
            match step {
                Step::Check(cost) => {
                    let allowed = given.check_n("key", cost).is_allowed();
                    if cost > 0 && (allowed || cost <= burst) {
                        agrees(&mut oracle, now, cost, allowed)?;
                    }
                }
                Step::CheckMany(count) => {
                    given.check_many(&vec!["key"; count], &mut decisions);
                    for decision in &decisions {
                        agrees(&mut oracle, now, 1, decision.is_allowed())?;
                    }
                }
                Step::Charge(cost) => {
                    let _ = given.charge("key", cost);
                    oracle.admit(now, cost);
                }
                Step::Refund(cost) => {
                    given.refund("key", cost);
                    give_back(&mut oracle, now, exact(cost));
                }
                Step::Reset => {
                    given.reset("key");
                    oracle.tat = oracle.tat.min(at);
                }
                Step::Reserve(cost) => {
                    if let Ok(reservation) = given.reserve("key", cost) {
                        oracle.admit(now, cost);
                        reserved.push((reservation, oracle.tat));
                    }
                }
                Step::Settle(which, used) => {
                    let Some((reservation, charged)) = take(&mut reserved, which) else { continue };
                    let cost = reservation.cost();
                    let _ = reservation.commit(used);
                    let unused = exact(cost.saturating_sub(used)).min((charged - at).max(0));
                    settle(&mut oracle, now, used.saturating_sub(cost), unused);
                }
                Step::Enqueue(..) | Step::GiveUp(_) => {}
            }
            let owed = (oracle.tat - at).max(0);
            let found = oracle.at(given.peek("key").reset_after().as_nanos().cast_signed());
            prop_assert!((found - owed).abs() <= oracle.at(SLACK_NANOS), "{found} for {owed}");
        }
        for (reservation, _) in reserved {
            let cost = reservation.cost();
            let _ = reservation.commit(cost);
        }
    }

    #[test]
    fn waiters_start_when_the_oracle_says(
        own in prop_oneof![Just(Quota::per_second(1)), Just(Quota::per_second(1_000))],
        interval in 1_u64..3_000_000,
        burst in 1_u64..6,
        steps in line::steps(),
    ) {
        let (limiter, clock) = limiter(own);
        let quota = Quota::new(1, Duration::from_nanos(interval)).burst(burst);
        let given = limiter.with_quota(&quota).unwrap();
        let enqueue = |cost, wait| given.enqueue("key", cost, wait);
        line::agrees_with_the_oracle(&quota, &clock, steps, enqueue)?;
    }

    /// Also where the emission interval has a fraction: never more than the quota, and no wait is
    /// too long.
    #[test]
    fn starts_are_spaced_by_the_quota(
        own in own_quota(),
        count in 2_u64..100_000_000,
        burst in 1_u64..6,
        steps in prop::collection::vec((0_u32..6, 1_u64..4), 1..300),
    ) {
        let quota = Quota::per_second(count).burst(burst);
        let (limiter, clock) = limiter(own);
        let given = limiter.with_quota(&quota).unwrap();
        let mut oracle = Oracle::new(&quota);
        for (thirds, cost) in steps {
            clock.advance(quota.debt_of(1) * thirds / 3);
            let now = clock.now().as_nanos();
            let missing = oracle.missing(now, cost).max(0);
            match given.enqueue("key", cost, PATIENCE) {
                Ok(turn) => {
                    let wait = oracle.at(i128::from(turn.start().as_nanos() - now));
                    let error = (wait - missing).abs();
                    prop_assert!(error <= oracle.at(SLACK_NANOS), "{wait} for {missing}");
                    let _ = turn.keep();
                    oracle.admit(now, cost);
                }
                Err(denied) => prop_assert!(cost > burst && denied.retry_after().is_none()),
            }
        }
    }
}

/// A unit of 33.3 ns: what was rounded in a reservation is given back when it is cancelled.
#[test]
fn a_reservation_that_is_cancelled_again_and_again_leaves_nothing() {
    let (limiter, _) = limiter(Quota::per_second(1));
    let quota = Quota::per_second(30_000_000).burst(100);
    let given = limiter.with_quota(&quota).unwrap();
    assert!(given.check_n("key", 7).is_allowed());
    let before = given.peek("key");
    for cost in 0..100_000 {
        given.reserve("key", cost % 93).unwrap().cancel();
    }
    assert_eq!(given.peek("key"), before);
    let turns: Vec<_> = (0..100).map(|_| given.enqueue("key", 1, SECOND).unwrap()).collect();
    turns.into_iter().rev().for_each(|turn| assert!(turn.cancel()));
    assert_eq!(given.peek("key"), before);
}

#[test]
fn a_quota_that_cannot_be_enforced_is_an_error_before_anything_is_asked() {
    let (limiter, _) = limiter(Quota::per_second(5));
    let error = |quota: Quota| limiter.with_quota(&quota).err();
    assert_eq!(error(Quota::per_second(1).burst(0)), Some(QuotaError::ZeroBurst));
    assert_eq!(error(Quota::new(1, Duration::ZERO)), Some(QuotaError::ZeroPeriod));
    assert_eq!(error(Quota::per_second(2_000_000_000)), Some(QuotaError::RateTooHigh));
    assert_eq!(error(Quota::per_day(1).burst(10_000)), Some(QuotaError::BurstTooLong));
    assert_eq!(limiter.peek("key").remaining(), 5);
}

#[test]
fn blocked_and_unlimited_are_given_too() {
    let (limiter, _) = limiter(Quota::per_second(5));
    let (blocked, unlimited) = (Quota::blocked(), Quota::unlimited());
    let [blocked, unlimited] = [&blocked, &unlimited].map(|it| limiter.with_quota(it).unwrap());
    assert_eq!(blocked.reserve("key", 1).unwrap_err().retry_after(), None);
    assert_eq!(blocked.enqueue("key", 1, SECOND).unwrap_err().retry_after(), None);
    let charged = blocked.charge("key", 3);
    assert_eq!(charged, blocked.peek("key"));
    let figures =
        (charged.limit(), charged.remaining(), charged.retry_after(), charged.reset_after());
    assert_eq!(
        (charged.is_allowed(), figures),
        (true, (0, 0, Some(Duration::ZERO), Duration::ZERO))
    );
    assert_eq!(limiter.live().count(), 0);
    assert!(unlimited.reserve("key", u64::MAX).unwrap().commit(7).is_allowed());
    assert!(unlimited.enqueue("key", u64::MAX, SECOND).unwrap().keep().is_allowed());
    assert!(unlimited.charge("key", u64::MAX).is_allowed());
    let mut decisions = Vec::new();
    for (given, allowed) in [(blocked, false), (unlimited, true)] {
        given.check_many(&["key", "other"], &mut decisions);
        assert!(decisions.len() == 2 && decisions.iter().all(|it| it.is_allowed() == allowed));
    }
    unlimited.refund("key", u64::MAX);
    assert_eq!(limiter.peek("key").remaining(), 5);
    assert_eq!(limiter.live().count(), 0);
}

/// Debt is a duration: five units of a second each are fifty of a tenth of one.
#[test]
fn quotas_on_one_key_share_its_debt() {
    let (limiter, clock) = limiter(Quota::per_second(1).burst(10));
    let fast = Quota::per_second(10).burst(100);
    let given = limiter.with_quota(&fast).unwrap();
    assert!(limiter.check_n("key", 5).is_allowed());
    assert_eq!(given.peek("key").remaining(), 50);
    let reserved = given.reserve("key", 30).unwrap();
    assert_eq!(limiter.peek("key").remaining(), 2);
    clock.advance(SECOND);
    assert_eq!(reserved.commit(10).remaining(), 50);
    given.refund("key", 10);
    assert_eq!(limiter.peek("key").reset_after(), 4 * SECOND);
    assert!(given.charge("key", 70).reset_after() == 11 * SECOND);
    assert_eq!(limiter.check("key").retry_after(), Some(2 * SECOND));
    given.reset("key");
    assert_eq!(limiter.peek("key").reset_after(), Duration::ZERO);
    assert_eq!(given.quota(), fast);
}

/// A function that loads a plan returns what was reserved under it.
#[test]
fn a_reservation_and_a_turn_outlive_the_quota() {
    fn reserve(limiter: &Plain) -> (Reservation<'_>, Turn<'_, Plain>) {
        let plan = Quota::per_second(10).burst(10);
        let given = limiter.with_quota(&plan).unwrap();
        (given.reserve("key", 8).unwrap(), given.enqueue("other", 4, SECOND).unwrap())
    }
    let (limiter, _) = limiter(Quota::per_second(1));
    let (reserved, turn) = reserve(&limiter);
    assert_eq!(reserved.commit(3).remaining(), 7);
    assert!(turn.cancel());
    assert!(limiter.live().all(|(key, _)| key == limiter.hash("key")));
}

/// What is denied is charged by the bursts of the quota that denied it, also a reservation and a
/// set.
#[test]
fn denials_are_charged_by_the_quota_that_was_given() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(Quota::per_second(1)).charge_denied(1).capacity(1);
    let limiter = builder.clock(clock.clone()).build().unwrap();
    let plan = Quota::per_second(1).burst(5);
    let given = limiter.with_quota(&plan).unwrap();
    assert!(given.check_n("key", 5).is_allowed());
    let denied = given.reserve("key", 2).unwrap_err();
    assert_eq!(denied.retry_after(), Some(4 * SECOND));
    let denied = LimitSet::new([given.ask("key", 2), given.ask("other", 1)]).check();
    assert_eq!(denied.retry_after(), Some(6 * SECOND));
    assert_eq!(given.peek("other").remaining(), 5);
    for _ in 0..9 {
        assert!(!given.check("key").is_allowed());
    }
    assert_eq!(given.peek("key").reset_after(), 10 * SECOND);
    let mut decisions = Vec::new();
    given.check_many(&["other"; 40], &mut decisions);
    assert_eq!(decisions.iter().filter(|decision| decision.is_allowed()).count(), 5);
    assert_eq!(decisions[39].reset_after(), 10 * SECOND);
}

#[test]
fn a_quota_is_given_to_a_limiter_whose_own_one_changes() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(LiveQuota::new(Quota::per_second(600_000_000).burst(1)));
    let limiter = builder.capacity(1).clock(clock.clone()).build().unwrap();
    let plan = Quota::per_second(1_000).burst(10);
    let given = limiter.with_quota(&plan).unwrap();
    let (before, turn) =
        (given.reserve("key", 4).unwrap(), given.enqueue("key", 9, SECOND).unwrap());
    // The unit of time is 5/3 ns.
    assert!((2_999..=3_000).contains(&turn.start().since(clock.now()).as_micros()));
    limiter.set_quota(Quota::per_second(1), Inheritance::Keep).unwrap();
    // A place given up after a change lapses, and what was reserved before it stays charged.
    assert!(!turn.cancel());
    before.cancel();
    assert!((12_999..=13_000).contains(&given.peek("key").reset_after().as_micros()));
    clock.advance(Duration::from_millis(14));
    given.reserve("key", 10).unwrap().cancel();
    let turn = given.enqueue("key", 10, SECOND).unwrap();
    assert!(turn.cancel());
    let asks = [given.ask("key", 4), given.ask("key", 6)];
    assert!(LimitSet::new(asks).check().is_allowed());
    given.refund("key", 3);
    assert_eq!(given.charge("key", 1).remaining(), 2);
}

/// Making a new view is an error then.
#[test]
fn a_view_kept_across_a_change_denies_what_cannot_be_enforced_after_it() {
    // Units of 5/3 ns, then of 1 ns: six years of burst exceed the longest.
    let builder = Limiter::builder(LiveQuota::new(Quota::per_second(600_000_000).burst(1)));
    let limiter = builder.capacity(1).clock(ManualClock::new()).build().unwrap();
    let plan = Quota::per_second(1).burst(200_000_000);
    let kept = limiter.with_quota(&plan).unwrap();
    assert_eq!(kept.check("key").remaining(), 199_999_999);
    limiter.set_quota(Quota::per_second(1), Inheritance::Keep).unwrap();
    let denied = kept.check("key");
    assert!(!denied.is_allowed() && denied.retry_after().is_none());
    assert_eq!(limiter.with_quota(&plan).err(), Some(QuotaError::BurstTooLong));
}

/// The limiter's own quota, one given with the call, and one in force after a change.
#[test]
fn a_look_at_a_cost_says_what_a_check_of_it_would() {
    let plan = Quota::per_hour(20).burst(6);
    let build = || {
        let builder = Limiter::builder(LiveQuota::new(Quota::per_hour(5)));
        let limiter = builder.capacity(1).clock(ManualClock::new()).build().unwrap();
        limiter.set_quota(Quota::per_hour(10), Inheritance::Keep).unwrap();
        assert!(limiter.check_n("key", 3).is_allowed());
        limiter
    };
    let limiter = build();
    for cost in [0, 1, 3, 6, 7, 8, 11, u64::MAX] {
        let twin = build();
        let pairs = [
            (limiter.peek_n("key", cost), twin.check_n("key", cost)),
            (limiter.with_quota(&plan).unwrap().peek_n("key", cost), {
                build().with_quota(&plan).unwrap().check_n("key", cost)
            }),
        ];
        for (peeked, check) in pairs {
            assert_eq!(peeked.is_allowed(), check.is_allowed(), "{cost}");
            assert_eq!(peeked.retry_after(), check.retry_after(), "{cost}");
            let taken = if check.is_allowed() { cost } else { 0 };
            assert_eq!(peeked.remaining(), check.remaining() + taken, "{cost}");
        }
    }
}
