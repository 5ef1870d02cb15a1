//! All that can be asked under a quota given with the call, against exact oracles and limiters of that quota.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::{
    Clock as _, Inheritance, LimitSet, Limiter, LiveQuota, ManualClock, Quota, QuotaError,
    Reservation, Turn,
};

mod exact;
mod waiting;
use exact::Oracle;
use waiting::line;

/// Nanoseconds by which two units of time, rounded both ways, differ at most.
const SLACK_NANOS: i128 = 8;
const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_mins(1);

type Plain = Limiter<Quota, ManualClock>;

fn on(clock: &ManualClock, quota: Quota) -> Plain {
    Limiter::builder(quota).capacity(1).clock(clock.clone()).build().unwrap()
}

fn limiter(quota: Quota) -> (Plain, ManualClock) {
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

/// What is asked, after a gap in thirds of an emission interval and nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Step {
    Check(u64),
    /// So many times, at one reading of the clock.
    CheckMany(usize),
    Charge(u64),
    Refund(u64),
    Reset,
    Reserve(u64),
    /// The nth of the reservations that are open.
    Settle(usize, u64),
    /// With a wait in thirds of an emission interval.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A quota of whole nanoseconds, on limiters that count in nanoseconds: every answer is that of a limiter of its own.
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
                    match (own.reserve("key", cost), given.reserve("key", cost)) {
                        (Ok(own), Ok(given)) => reserved.push([own, given]),
                        (Err(own), Err(given)) => prop_assert_eq!(own, given),
                        (own, given) => prop_assert!(false, "{own:?} {given:?}"),
                    }
                }
                Step::Settle(which, used) => {
                    if let Some([own, given]) = take(&mut reserved, which) {
                        prop_assert_eq!(own.commit(used), given.commit(used));
                    }
                }
                Step::Enqueue(cost, thirds) => {
                    let wait = quota.debt_of(1) * thirds / 3;
                    match (own.enqueue("key", cost, wait), given.enqueue("key", cost, wait)) {
                        (Ok(own), Ok(given)) => {
                            prop_assert_eq!(own.start(), given.start());
                            prop_assert_eq!(own.decision(), given.decision());
                            turns.push([own, given]);
                        }
                        (Err(own), Err(given)) => prop_assert_eq!(own, given),
                        (own, given) => prop_assert!(false, "{own:?} {given:?}"),
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

    /// Whatever is charged and given back, and however often, what a key owes is what it owes in rational arithmetic but for
    /// some nanoseconds: nothing adds up.
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
        let mut oracle = Oracle::new(&quota);
        let exact = |units: u64| i128::from(units) * i128::try_from(quota.period().as_nanos()).unwrap();
        let mut decisions = Vec::new();
        // With the oracle's TAT that the charge left.
        let mut reserved: Vec<(Reservation<'_>, i128)> = Vec::new();
        for (thirds, nanos, step) in steps {
            clock.advance(quota.debt_of(1) * thirds / 3 + Duration::from_nanos(nanos));
            let now = clock.now().as_nanos();
            let at = oracle.at(i128::from(now));
            match step {
                Step::Check(cost) => {
                    let missing = oracle.missing(now, cost);
                    let decision = given.check_n("key", cost);
                    if cost > 0 && decision.is_allowed() {
                        prop_assert!(missing <= oracle.at(SLACK_NANOS), "{missing} too early");
                        oracle.admit(now, cost);
                    } else if cost > 0 && cost <= burst {
                        prop_assert!(missing + oracle.at(SLACK_NANOS) > 0, "{missing} too late");
                    }
                }
                Step::CheckMany(count) => {
                    given.check_many(&vec!["key"; count], &mut decisions);
                    for decision in &decisions {
                        let missing = oracle.missing(now, 1);
                        if decision.is_allowed() {
                            prop_assert!(missing <= oracle.at(SLACK_NANOS), "{missing} too early");
                            oracle.admit(now, 1);
                        } else {
                            prop_assert!(missing + oracle.at(SLACK_NANOS) > 0, "{missing} too late");
                        }
                    }
                }
                Step::Charge(cost) => {
                    let _ = given.charge("key", cost);
                    oracle.admit(now, cost);
                }
                Step::Refund(cost) => {
                    given.refund("key", cost);
                    oracle.tat = oracle.tat.min((oracle.tat - exact(cost)).max(at));
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
                    if used > cost {
                        oracle.admit(now, used - cost);
                    } else {
                        let counted = exact(cost - used).min((charged - at).max(0));
                        oracle.tat = oracle.tat.min((oracle.tat - counted).max(at));
                    }
                }
                Step::Enqueue(..) | Step::GiveUp(_) => {}
            }
            let owed = (oracle.tat - at).max(0);
            let told = oracle.at(given.peek("key").reset_after().as_nanos().cast_signed());
            prop_assert!((told - owed).abs() <= oracle.at(SLACK_NANOS), "{told} for {owed}");
        }
        for (reservation, _) in reserved {
            let cost = reservation.cost();
            let _ = reservation.commit(cost);
        }
    }

    #[test]
    fn who_waits_starts_when_the_oracle_says(
        own in prop_oneof![Just(Quota::per_second(1)), Just(Quota::per_second(1_000))],
        interval in 1_u64..3_000_000,
        burst in 1_u64..6,
        steps in line::steps(),
    ) {
        let (limiter, clock) = limiter(own);
        let quota = Quota::new(1, Duration::from_nanos(interval)).burst(burst);
        let given = limiter.with_quota(&quota).unwrap();
        line::agrees_with_the_oracle(&quota, &clock, steps, |cost, wait| given.enqueue("key", cost, wait))?;
    }

    /// Also where the emission interval has a fraction: never more than the quota, and those told to wait are not told too
    /// long.
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
                    prop_assert!((wait - missing).abs() <= oracle.at(SLACK_NANOS), "{wait} for {missing}");
                    let _ = turn.keep();
                    oracle.admit(now, cost);
                }
                Err(denied) => prop_assert!(cost > burst && denied.retry_after().is_none()),
            }
        }
    }
}

/// A unit of 33.3 ns: what is rounded when it is reserved comes back when it is cancelled.
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
fn a_quota_that_can_not_be_enforced_is_an_error_before_anything_is_asked() {
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
    let told = (charged.limit(), charged.remaining(), charged.retry_after(), charged.reset_after());
    assert_eq!((charged.is_allowed(), told), (true, (0, 0, Some(Duration::ZERO), Duration::ZERO)));
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

/// A function that loads a plan hands out what was reserved under it.
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

#[test]
fn a_set_charges_all_or_nothing_under_the_plans_of_its_keys() {
    let clock = ManualClock::new();
    let (users, tokens) = (on(&clock, Quota::per_second(1)), on(&clock, Quota::per_second(1)));
    let (few, many) = (Quota::per_second(1).burst(2), Quota::per_hour(3_600_000).burst(500));
    let set = |cost| {
        let user = users.with_quota(&few).unwrap().ask("user", 1);
        let tokens = tokens.with_quota(&many).unwrap().ask("user", cost);
        LimitSet::new([user.named("user"), tokens.named("tokens")]).check()
    };
    assert!(set(400).is_allowed());
    let denied = set(200);
    assert_eq!(denied.blocked().unwrap().name(), "tokens");
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
    assert!(set(100).is_allowed());
    assert_eq!(set(0).blocked().unwrap().name(), "user");
    let asks = [
        users.with_quota(&few).unwrap().ask("b", 2),
        tokens.with_quota(&many).unwrap().ask("b", 300),
    ];
    let left = LimitSet::new(asks).reserve().unwrap().commit([1, 200]).unwrap();
    assert_eq!((left.limit(), left.remaining()), (2, 1));
    assert_eq!(tokens.with_quota(&many).unwrap().peek("b").remaining(), 300);
}

/// A key under two quotas in one set: neither is exceeded, and nothing is charged if one denies. Each fits alone,
/// so the look allows both; the second is decided beside the first, so their order matters.
#[test]
fn a_set_may_ask_one_key_under_two_quotas() {
    let (limiter, clock) = limiter(Quota::per_second(1));
    let (slow, fast) = (Quota::per_second(1).burst(2), Quota::per_second(10).burst(12));
    let ask = |slow_units, fast_units| {
        let slow = limiter.with_quota(&slow).unwrap().ask("key", slow_units);
        LimitSet::new([slow, limiter.with_quota(&fast).unwrap().ask("key", fast_units)])
    };
    let reversed = |slow_units, fast_units| {
        let fast = limiter.with_quota(&fast).unwrap().ask("key", fast_units);
        LimitSet::new([fast, limiter.with_quota(&slow).unwrap().ask("key", slow_units)])
    };
    for units in [3_u32, 10] {
        for waits in 0..2 {
            assert!(
                ask(1, units.into()).peek().is_allowed()
                    && reversed(1, units.into()).peek().is_allowed()
            );
            let denied = ask(1, units.into()).check();
            assert_eq!(denied.blocked().map(|blocked| blocked.index()), Some(1), "{waits}");
            // The key is fresh, and the wait for the second quota beside the first one never ends.
            assert_eq!(denied.retry_after(), Some(SECOND / 10 * (units - 2)));
            assert_eq!(limiter.live().count(), 0);
            clock.advance(SECOND);
        }
        assert!(reversed(1, units.into()).check().is_allowed());
        assert_eq!(limiter.peek("key").reset_after(), SECOND + SECOND / 10 * units);
        limiter.reset("key");
    }
    let left = ask(1, 2).reserve().unwrap().commit([0, 1]);
    assert_eq!(left.map(|left| (left.limit(), left.remaining())), Some((2, 1)));
    assert_eq!(limiter.peek("key").reset_after(), SECOND / 10);
}

/// Asks under one quota are one charge, whatever stands between them, and each charge is settled by itself.
#[test]
fn a_set_adds_up_the_asks_of_a_key_under_each_quota() {
    let (limiter, _) = limiter(Quota::per_second(1));
    let (slow, fast) = (Quota::per_second(1).burst(4), Quota::per_second(10).burst(30));
    let (slow, fast) = (limiter.with_quota(&slow).unwrap(), limiter.with_quota(&fast).unwrap());
    let asks = [slow.ask("key", 1), fast.ask("key", 5), slow.ask("key", 1), fast.ask("key", 5)];
    let checked = LimitSet::new(asks.clone()).check();
    let left: Vec<_> = checked.decisions().map(|decision| decision.remaining()).collect();
    assert_eq!(left, [2, 0, 2, 0]);
    limiter.reset("key");
    let left = LimitSet::new(asks.clone()).reserve().unwrap().commit([0, 3, 1, 4]);
    assert_eq!(left.map(|left| (left.limit(), left.remaining())), Some((4, 2)));
    assert_eq!(limiter.peek("key").reset_after(), SECOND + 7 * SECOND / 10);
    limiter.reset("key");
    LimitSet::new(asks).reserve().unwrap().cancel();
    assert_eq!(limiter.live().count(), 0);
}

/// What is denied is charged by the bursts of the quota that denied it, also a reservation and a set.
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
    // A place lapses that is given up after a change, and what was reserved before it stays charged.
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

/// What is made anew is an error then.
#[test]
fn a_view_kept_across_a_change_denies_what_can_not_be_enforced_after_it() {
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

/// The limiter's own quota, one given with the call, and one that is in force after a change.
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
        let looks = [
            (limiter.peek_n("key", cost), twin.check_n("key", cost)),
            (limiter.with_quota(&plan).unwrap().peek_n("key", cost), {
                build().with_quota(&plan).unwrap().check_n("key", cost)
            }),
        ];
        for (look, check) in looks {
            assert_eq!(look.is_allowed(), check.is_allowed(), "{cost}");
            assert_eq!(look.retry_after(), check.retry_after(), "{cost}");
            let taken = if check.is_allowed() { cost } else { 0 };
            assert_eq!(look.remaining(), check.remaining() + taken, "{cost}");
        }
    }
}
