//! Everything that a limiter with a quota can do, under one that changes: as under one that stays.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::{
    Clock as _, Decision, Inheritance, Limiter, LiveQuota, ManualClock, Quota, QuotaError,
    Reservation, Timestamp, Turn, Wait,
};

type Plain = Limiter<Quota, ManualClock>;
type Live = Limiter<LiveQuota, ManualClock>;

/// A limiter with the quota, and one with a quota that changes: both on one clock, under one hasher.
fn pair(quota: Quota, bursts: u64) -> (Plain, Live, ManualClock) {
    let (clock, hasher) = (ManualClock::new(), tidegate_engine::KeyHasher::rapid(9));
    clock.set(Timestamp::from_nanos(1_000_000_007));
    let plain = Limiter::builder(quota).capacity(1).hasher(hasher.clone()).clock(clock.clone());
    let live = Limiter::builder(LiveQuota::new(quota)).capacity(1).hasher(hasher);
    let live = live.clock(clock.clone()).charge_denied(bursts);
    (plain.charge_denied(bursts).build().unwrap(), live.build().unwrap(), clock)
}

#[derive(Clone, Debug)]
enum Step {
    Check(u64),
    CheckWith(u64, Quota),
    Charge(u64),
    Refund(u64),
    /// Debt in thirds of an interval, so many ago, not before a change.
    Told(u32, u32),
    Raised(u32),
    Enqueue(u64, u32),
    /// Of the places taken, one is given up.
    GiveUp(usize),
    Reserve(u64),
    /// Of the reservations, one is settled for so many units of what it took.
    Settle(usize, u64),
    /// To the same quota.
    Change,
}

fn any_quota() -> impl Strategy<Value = Quota> {
    let count = prop_oneof![1_u64..20, 1_u64..1_000_000, Just(1_000_000_000)];
    (count, 1_u64..40).prop_map(|(count, burst)| Quota::per_second(count).burst(burst))
}

/// Quotas that are exact in any scale but for an interval rounded up once: beyond 2^20 units.
fn slow_quota() -> impl Strategy<Value = Quota> {
    (1_u64..500, 1_u64..40).prop_map(|(count, burst)| Quota::per_second(count).burst(burst))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0_u64..6).prop_map(Step::Check),
        4 => (0_u64..6, slow_quota()).prop_map(|(cost, quota)| Step::CheckWith(cost, quota)),
        1 => (0_u64..50).prop_map(Step::Charge),
        1 => (0_u64..10).prop_map(Step::Refund),
        2 => (0_u32..60, 0_u32..60).prop_map(|(debt, age)| Step::Told(debt, age)),
        2 => (0_u32..60).prop_map(Step::Raised),
        4 => (0_u64..4, 0_u32..60).prop_map(|(cost, wait)| Step::Enqueue(cost, wait)),
        2 => any::<usize>().prop_map(Step::GiveUp),
        2 => (1_u64..6).prop_map(Step::Reserve),
        2 => (any::<usize>(), 0_u64..8).prop_map(|(which, used)| Step::Settle(which, used)),
        6 => Just(Step::Change),
    ]
}

/// What both limiters have handed out, and the change before which they did.
struct Open<P, L> {
    plain: P,
    live: L,
    changes: usize,
}

fn take<T>(open: &mut Vec<T>, which: usize) -> Option<T> {
    (!open.is_empty()).then(|| open.swap_remove(which % open.len()))
}

/// Settles both alike, but that of a reservation from before two changes nothing is given back.
fn settle(
    open: Open<Reservation<'_>, Reservation<'_>>,
    used: u64,
    changes: usize,
) -> (Decision, Decision) {
    let Open { plain, live, changes: before } = open;
    let lost = changes - before > 1 && used < plain.cost();
    let kept = if lost { plain.cost() } else { used };
    (plain.commit(kept), live.commit(used))
}

/// Gives up both places, but that of one from before a change nothing is taken back.
fn give_up(open: Open<Turn<'_, Plain>, Turn<'_, Live>>, changes: usize) -> (bool, bool) {
    let Open { plain, live, changes: before } = open;
    if changes == before {
        return (plain.cancel(), live.cancel());
    }
    let _ = plain.keep();
    (false, live.cancel())
}

fn listed(
    keys: impl Iterator<Item = (tidegate_engine::KeyHash, Duration)>,
) -> Vec<(u64, Duration)> {
    let mut keys: Vec<_> = keys.map(|(key, debt)| (key.to_bits(), debt)).collect();
    keys.sort_unstable();
    keys
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// A change to the same quota that keeps debt is not to be noticed by any of the calls.
    #[test]
    fn a_change_to_the_same_quota_changes_no_answer(
        quota in any_quota(),
        bursts in 0_u64..3,
        steps in prop::collection::vec((0_u64..3, 0_u32..6, 0_u64..3, step()), 1..120),
    ) {
        let (plain, live, clock) = pair(quota, bursts);
        let third = |count: u32| quota.debt_of(1) * count / 3;
        let (mut turns, mut reservations) = (Vec::new(), Vec::new());
        let (mut changes, mut changed) = (0, Timestamp::ORIGIN);
        for (key, thirds, nanos, step) in steps {
            clock.advance(third(thirds) + Duration::from_nanos(nanos));
            let now = clock.now();
            match step {
                Step::Check(cost) => {
                    prop_assert_eq!(plain.check_n(key, cost), live.check_n(key, cost));
                }
                Step::CheckWith(cost, quota) => {
                    let [ours, theirs] =
                        [plain.check_with(key, cost, &quota), live.check_with(key, cost, &quota)];
                    prop_assert_eq!(ours, theirs);
                }
                Step::Charge(cost) => {
                    prop_assert_eq!(plain.charge(key, cost), live.charge(key, cost));
                }
                Step::Refund(cost) => {
                    plain.refund(key, cost);
                    live.refund(key, cost);
                }
                Step::Told(debt, age) => {
                    let at = now.saturating_sub(third(age)).max(changed);
                    plain.charge_debt(plain.hash(key), third(debt), at);
                    live.charge_debt(live.hash(key), third(debt), at);
                }
                Step::Raised(debt) => {
                    plain.raise_debt(plain.hash(key), third(debt));
                    live.raise_debt(live.hash(key), third(debt));
                }
                Step::Enqueue(cost, wait) => {
                    let wait = Wait::at_most(third(wait));
                    match (plain.enqueue(key, cost, wait), live.enqueue(key, cost, wait)) {
                        (Ok(plain), Ok(live)) => {
                            prop_assert_eq!(plain.start(), live.start());
                            prop_assert_eq!(plain.decision(), live.decision());
                            turns.push(Open { plain, live, changes });
                        }
                        (Err(plain), Err(live)) => prop_assert_eq!(plain, live),
                        (plain, live) => prop_assert!(false, "{plain:?} {live:?}"),
                    }
                    prop_assert_eq!(plain.waiters(), live.waiters());
                }
                Step::GiveUp(which) => {
                    if let Some(open) = take(&mut turns, which) {
                        let (plain, live) = give_up(open, changes);
                        prop_assert_eq!(plain, live);
                    }
                }
                Step::Reserve(cost) => match (plain.reserve(key, cost), live.reserve(key, cost)) {
                    (Ok(plain), Ok(live)) => {
                        reservations.push(Open { plain, live, changes });
                    }
                    (Err(plain), Err(live)) => prop_assert_eq!(plain, live),
                    (plain, live) => prop_assert!(false, "{plain:?} {live:?}"),
                },
                Step::Settle(which, used) => {
                    if let Some(open) = take(&mut reservations, which) {
                        let (plain, live) = settle(open, used, changes);
                        prop_assert_eq!(plain, live);
                    }
                }
                Step::Change => {
                    live.set_quota(quota, Inheritance::Keep).unwrap();
                    (changes, changed) = (changes + 1, now);
                }
            }
            for key in 0..3_u64 {
                prop_assert_eq!(plain.peek(key), live.peek(key));
            }
        }
        prop_assert_eq!(listed(plain.live()), listed(live.live()));
        for open in turns.into_iter().map(|open| give_up(open, changes)) {
            prop_assert_eq!(open.0, open.1);
        }
        for open in reservations.into_iter().map(|open| settle(open, 0, changes)) {
            prop_assert_eq!(open.0, open.1);
        }
    }

    /// After a change to another quota, that one decides: as if it had been there from the start.
    #[test]
    fn after_a_reset_the_new_quota_is_as_any(
        first in any_quota(),
        quota in any_quota(),
        steps in prop::collection::vec((0_u32..6, 0_u64..6, 0_u32..60), 1..40),
    ) {
        let (plain, _, clock) = pair(quota, 0);
        let live = Limiter::builder(LiveQuota::new(first)).capacity(1).clock(clock.clone());
        let live = live.build().unwrap();
        let _ = live.check_n("key", 3);
        live.set_quota(quota, Inheritance::Reset).unwrap();
        for (thirds, cost, wait) in steps {
            clock.advance(quota.debt_of(1) * thirds / 3);
            prop_assert_eq!(plain.check_n("key", cost), live.check_n("key", cost));
            let wait = quota.debt_of(1) * wait / 3;
            let ours = plain.enqueue("key", cost, wait).map(|turn| turn.start());
            let theirs = live.enqueue("key", cost, wait).map(|turn| turn.start());
            prop_assert_eq!(ours, theirs);
        }
    }
}

/// A quota with the call whose interval has a fraction, in the scale of a quota that came later.
#[test]
fn a_quota_with_the_call_keeps_its_rate_through_changes_of_scale() {
    let given = Quota::per_second(30_000_007).burst(5);
    let (_, live, clock) = pair(Quota::per_second(7), 0);
    let (start, mut admitted) = (clock.now(), 0_u64);
    for change in 0..40_u64 {
        let quota = [Quota::per_second(7), Quota::per_second(1_000), Quota::per_second(999_983)];
        live.set_quota(quota[change as usize % 3], Inheritance::Keep).unwrap();
        for _ in 0..1_000 {
            clock.advance(Duration::from_nanos(33));
            admitted += u64::from(live.check_with("key", 1, &given).unwrap().is_allowed());
        }
    }
    let granted = u128::from(given.count()) * clock.now().since(start).as_nanos() / 1_000_000_000;
    // Each change may round anew by less than a unit of at most 2 ns, a sixteenth of an interval.
    assert!(u128::from(admitted) <= granted + 5 + 3, "{admitted} of {granted}");
    assert!(u128::from(admitted) + 5 >= granted, "{admitted} of {granted}");
}

#[test]
fn a_quota_with_the_call_that_can_not_be_enforced_charges_nothing() {
    let (_, live, _) = pair(Quota::per_second(5), 0);
    let refused = live.check_with("key", 1, &Quota::per_second(1).burst(0));
    assert_eq!(refused, Err(QuotaError::ZeroBurst));
    assert_eq!(live.peek("key").remaining(), 5);
    assert!(live.check_with("key", 9, &Quota::unlimited()).unwrap().is_allowed());
    assert_eq!(live.check_with("key", 1, &Quota::blocked()).unwrap().retry_after(), None);
}

/// Debt that peers tell is a duration, whatever the rule was when it was consumed.
#[test]
fn debt_that_is_told_after_a_change_drains_from_when_it_was_consumed() {
    let (_, live, clock) = pair(Quota::per_second(1).burst(10), 0);
    let at = clock.now();
    clock.advance(Duration::from_secs(2));
    live.set_quota(Quota::per_second(4).burst(30), Inheritance::Proportional).unwrap();
    clock.advance(Duration::from_secs(1));
    let key = live.hash("key");
    live.charge_debt(key, Duration::from_secs(5), at);
    assert_eq!(live.live().collect::<Vec<_>>(), [(key, Duration::from_secs(2))]);
    live.raise_debt(key, Duration::from_secs(1));
    assert_eq!(live.peek("key").reset_after(), Duration::from_secs(2));
    live.raise_debt(key, Duration::from_secs(20));
    assert_eq!(live.peek("key").reset_after(), Duration::from_secs(20));
    assert_eq!(live.check("key").retry_after(), Some(Duration::from_millis(12_750)));
}

/// The bursts up to which denials are charged are those of the quota in force.
#[test]
fn denied_checks_are_charged_by_the_quota_in_force() {
    let (_, live, _) = pair(Quota::per_second(1).burst(2), 1);
    live.set_quota(Quota::per_second(10).burst(5), Inheritance::Reset).unwrap();
    for _ in 0..30 {
        let _ = live.check("key");
    }
    assert_eq!(live.peek("key").reset_after(), Duration::from_secs(1));
    let given = Quota::per_second(10).burst(20);
    for _ in 0..60 {
        let _ = live.check_with("key", 1, &given).unwrap();
    }
    assert_eq!(live.peek("key").reset_after(), Duration::from_secs(4));
}

/// Who waits keeps the start that was told; whoever comes after a change stands behind all that is
/// charged, at the new rate.
#[test]
fn places_are_taken_behind_those_told_before_a_change() {
    let (_, live, clock) = pair(Quota::per_second(1).burst(1), 0);
    let wait = |turn: &Turn<'_, Live>| turn.start().since(clock.now()).as_millis();
    let told: Vec<_> =
        (0..4).map(|_| live.enqueue("key", 1, Duration::from_secs(9)).unwrap()).collect();
    live.set_quota(Quota::per_second(10).burst(1), Inheritance::Proportional).unwrap();
    assert_eq!(told.iter().map(wait).collect::<Vec<_>>(), [0, 1_000, 2_000, 3_000]);
    let next = live.enqueue("key", 1, Duration::from_secs(9)).unwrap();
    assert_eq!(wait(&next), 400);
    // A place from before the change lapses, a later one that nobody stands behind does not.
    assert_eq!(told.into_iter().map(Turn::cancel).collect::<Vec<_>>(), [false; 4]);
    assert!(next.cancel());
    assert_eq!(wait(&live.enqueue("key", 1, Duration::from_secs(9)).unwrap()), 400);
}
