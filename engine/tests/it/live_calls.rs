//! Every operation of a limiter under a quota that changes: the same results as under a fixed
//! quota.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::Inheritance;
use tidegate_engine::wait::{Turn, Wait};
use tidegate_engine::{
    Clock as _, Decision, Limiter, LiveQuota, ManualClock, Quota, QuotaError, Reservation,
};

use crate::pairs::both;

type Plain = Limiter<Quota, ManualClock>;
type Live = Limiter<LiveQuota, ManualClock>;

/// A limiter with the quota, and one with a quota that changes: both on one clock, with one hasher.
fn pair(quota: Quota, bursts: u64) -> (Plain, Live, ManualClock) {
    let (clock, hasher) = (ManualClock::new(), tidegate_engine::KeyHasher::rapid(9));
    clock.set(Timestamp::from_nanos(1_000_000_007));
    let plain = Limiter::builder(quota).capacity(1).hasher(hasher.clone()).clock(clock.clone());
    let live = Limiter::builder(LiveQuota::new(quota)).capacity(1).hasher(hasher);
    let live = live.clock(clock.clone()).charge_denied(bursts);
    (plain.charge_denied(bursts).build().unwrap(), live.build().unwrap(), clock)
}

/// A call that leaves nothing open.
#[derive(Clone, Debug)]
enum Call {
    Check(u64),
    CheckWith(u64, Quota),
    Charge(u64),
    Refund(u64),
    /// Debt in thirds of an interval, as of thirds of an interval ago, not before a change.
    Remote(u32, u32),
    Raised(u32),
}

#[derive(Clone, Debug)]
enum Step {
    Call(Call),
    Enqueue(u64, u32),
    /// One of the places taken is given up.
    GiveUp(usize),
    Reserve(u64),
    /// One of the reservations is settled for this many of the units it took.
    Settle(usize, u64),
    /// A change to the same quota.
    Change,
}

fn any_quota() -> impl Strategy<Value = Quota> {
    let count = prop_oneof![1_u64..20, 1_u64..1_000_000, Just(1_000_000_000)];
    (count, 1_u64..40).prop_map(|(count, burst)| Quota::per_second(count).burst(burst))
}

/// Quotas that are exact in any scale except for one rounding of the interval: above 2^20 units.
fn slow_quota() -> impl Strategy<Value = Quota> {
    (1_u64..500, 1_u64..40).prop_map(|(count, burst)| Quota::per_second(count).burst(burst))
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        12 => (0_u64..6).prop_map(Call::Check),
        4 => (0_u64..6, slow_quota()).prop_map(|(cost, quota)| Call::CheckWith(cost, quota)),
        1 => (0_u64..50).prop_map(Call::Charge),
        1 => (0_u64..10).prop_map(Call::Refund),
        2 => (0_u32..60, 0_u32..60).prop_map(|(debt, age)| Call::Remote(debt, age)),
        2 => (0_u32..60).prop_map(Call::Raised),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        22 => call().prop_map(Step::Call),
        4 => (0_u64..4, 0_u32..60).prop_map(|(cost, wait)| Step::Enqueue(cost, wait)),
        2 => any::<usize>().prop_map(Step::GiveUp),
        2 => (1_u64..6).prop_map(Step::Reserve),
        2 => (any::<usize>(), 0_u64..8).prop_map(|(which, used)| Step::Settle(which, used)),
        6 => Just(Step::Change),
    ]
}

/// What both limiters have handed out, and before which change.
struct Open<P, L> {
    plain: P,
    live: L,
    changes: usize,
}

fn take<T>(open: &mut Vec<T>, which: usize) -> Option<T> {
    (!open.is_empty()).then(|| open.swap_remove(which % open.len()))
}

/// Settles both alike, except that of a reservation from before two changes nothing is given back.
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

/// Gives up both places, except that of one from before a change nothing is taken back.
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

/// Two limiters, and what both have handed out.
struct Twins<'l> {
    quota: Quota,
    plain: &'l Plain,
    live: &'l Live,
    turns: Vec<Open<Turn<'l, Plain>, Turn<'l, Live>>>,
    reservations: Vec<Open<Reservation<'l>, Reservation<'l>>>,
    changes: usize,
    /// When the last change was made.
    changed: Timestamp,
}

impl<'l> Twins<'l> {
    fn new(quota: Quota, plain: &'l Plain, live: &'l Live) -> Self {
        let (turns, reservations) = (Vec::new(), Vec::new());
        Self { quota, plain, live, turns, reservations, changes: 0, changed: Timestamp::ORIGIN }
    }

    /// A duration in thirds of an interval.
    fn third(&self, count: u32) -> Duration {
        self.quota.debt_of(1) * count / 3
    }

    fn step(&mut self, key: u64, step: &Step, now: Timestamp) -> Result<(), TestCaseError> {
        let (plain, live, changes) = (self.plain, self.live, self.changes);
        match *step {
            Step::Enqueue(cost, wait) => {
                let wait = Wait::at_most(self.third(wait));
                let (plain_turn, live_turn) =
                    (plain.enqueue(key, cost, wait), live.enqueue(key, cost, wait));
                if let Some((plain, live)) = both(plain_turn, live_turn)? {
                    prop_assert_eq!(plain.start(), live.start());
                    prop_assert_eq!(plain.decision(), live.decision());
                    self.turns.push(Open { plain, live, changes });
                }
                prop_assert_eq!(plain.waiters(), live.waiters());
            }
            Step::GiveUp(which) => {
                if let Some(open) = take(&mut self.turns, which) {
                    let (plain, live) = give_up(open, changes);
                    prop_assert_eq!(plain, live);
                }
            }
            Step::Reserve(cost) => {
                let reserved = both(plain.reserve(key, cost), live.reserve(key, cost))?;
                let open = reserved.map(|(plain, live)| Open { plain, live, changes });
                self.reservations.extend(open);
            }
            Step::Settle(which, used) => {
                if let Some(open) = take(&mut self.reservations, which) {
                    let (plain, live) = settle(open, used, changes);
                    prop_assert_eq!(plain, live);
                }
            }
            Step::Change => {
                live.set_quota(self.quota, Inheritance::Keep).unwrap();
                (self.changes, self.changed) = (changes + 1, now);
            }
            Step::Call(ref call) => self.call(key, call, now)?,
        }
        Ok(())
    }

    fn call(&self, key: u64, call: &Call, now: Timestamp) -> Result<(), TestCaseError> {
        let (plain, live) = (self.plain, self.live);
        match *call {
            Call::Check(cost) => {
                prop_assert_eq!(plain.check_n(key, cost), live.check_n(key, cost));
            }
            Call::CheckWith(cost, ref quota) => {
                let [ours, theirs] =
                    [plain.check_with(key, cost, quota), live.check_with(key, cost, quota)];
                prop_assert_eq!(ours, theirs);
            }
            Call::Charge(cost) => {
                prop_assert_eq!(plain.charge(key, cost), live.charge(key, cost));
            }
            Call::Refund(cost) => {
                plain.refund(key, cost);
                live.refund(key, cost);
            }
            Call::Remote(debt, age) => {
                let at = now.saturating_sub(self.third(age)).max(self.changed);
                plain.charge_debt(plain.hash(key), self.third(debt), at);
                live.charge_debt(live.hash(key), self.third(debt), at);
            }
            Call::Raised(debt) => {
                plain.raise_debt(plain.hash(key), self.third(debt));
                live.raise_debt(live.hash(key), self.third(debt));
            }
        }
        Ok(())
    }

    /// Gives up the places still held, and the reservations.
    fn close(self) -> Result<(), TestCaseError> {
        for open in self.turns {
            let (plain, live) = give_up(open, self.changes);
            prop_assert_eq!(plain, live);
        }
        for open in self.reservations {
            let (plain, live) = settle(open, 0, self.changes);
            prop_assert_eq!(plain, live);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// A change to the same quota that keeps debt affects none of the calls.
    #[test]
    fn a_change_to_the_same_quota_changes_no_answer(
        quota in any_quota(),
        bursts in 0_u64..3,
        steps in prop::collection::vec((0_u64..3, 0_u32..6, 0_u64..3, step()), 1..120),
    ) {
        let (plain, live, clock) = pair(quota, bursts);
        let mut twins = Twins::new(quota, &plain, &live);
        for (key, thirds, nanos, step) in steps {
            clock.advance(quota.debt_of(1) * thirds / 3 + Duration::from_nanos(nanos));
            twins.step(key, &step, clock.now())?;
            for key in 0..3_u64 {
                prop_assert_eq!(plain.peek(key), live.peek(key));
            }
        }
        prop_assert_eq!(listed(plain.live()), listed(live.live()));
        twins.close()?;
    }

    /// After a change to another quota, that one decides, as if it had been in force from the
    /// start.
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

/// A quota given with the call, whose interval has a fraction, in the scale of a later quota.
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
    // Each change may round again by less than a unit of at most 2 ns, a sixteenth of an interval.
    assert!(u128::from(admitted) <= granted + 5 + 3, "{admitted} of {granted}");
    assert!(u128::from(admitted) + 5 >= granted, "{admitted} of {granted}");
}

#[test]
fn a_quota_with_the_call_that_cannot_be_enforced_charges_nothing() {
    let (_, live, _) = pair(Quota::per_second(5), 0);
    let refused = live.check_with("key", 1, &Quota::per_second(1).burst(0));
    assert_eq!(refused, Err(QuotaError::ZeroBurst));
    assert_eq!(live.peek("key").remaining(), 5);
    assert!(live.check_with("key", 9, &Quota::unlimited()).unwrap().is_allowed());
    assert_eq!(live.check_with("key", 1, &Quota::blocked()).unwrap().retry_after(), None);
}

/// Remote debt is a duration, whatever the rule was when it was consumed.
#[test]
fn remote_debt_after_a_change_drains_from_when_it_was_consumed() {
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

/// A waiter keeps its start; a caller after a change waits for all that is charged, at the new
/// rate.
#[test]
fn places_are_taken_behind_those_of_before_a_change() {
    let (_, live, clock) = pair(Quota::per_second(1).burst(1), 0);
    let wait = |turn: &Turn<'_, Live>| turn.start().since(clock.now()).as_millis();
    let waiting: Vec<_> =
        (0..4).map(|_| live.enqueue("key", 1, Duration::from_secs(9)).unwrap()).collect();
    live.set_quota(Quota::per_second(10).burst(1), Inheritance::Proportional).unwrap();
    assert_eq!(waiting.iter().map(wait).collect::<Vec<_>>(), [0, 1_000, 2_000, 3_000]);
    let next = live.enqueue("key", 1, Duration::from_secs(9)).unwrap();
    assert_eq!(wait(&next), 400);
    // A place from before the change lapses; a later one at the end of the line does not.
    assert_eq!(waiting.into_iter().map(Turn::cancel).collect::<Vec<_>>(), [false; 4]);
    assert!(next.cancel());
    assert_eq!(wait(&live.enqueue("key", 1, Duration::from_secs(9)).unwrap()), 400);
}
