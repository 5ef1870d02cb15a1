//! An observer of debt is notified of every change that a call makes to what a key owes:
//! replayed on a key of its own, the changes give the same debt.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::rule::Inheritance;
use tidegate_engine::wait::Turn;
use tidegate_engine::{
    Clock as _, Decision, KeyHash, LimitSet, Limiter, LiveQuota, ManualClock, Observer, Quota,
    observer,
};

const KEY: &str = "user:42";

/// The theoretical arrival time of one key, by what was observed of its changes.
#[derive(Clone)]
struct Replica {
    clock: ManualClock,
    tat: Arc<Mutex<i128>>,
}

impl Replica {
    fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), tat: Arc::default() }
    }

    fn now(&self) -> i128 {
        self.clock.now().as_nanos().into()
    }

    fn debt(&self) -> i128 {
        (*self.tat.lock().unwrap() - self.now()).max(0)
    }
}

impl Observer for Replica {
    fn on_decision(&self, _: observer::ObservedKey<'_>, _: u64, _: &Decision) {}

    fn observes_decisions(&self) -> bool {
        false
    }

    fn observes_debt(&self) -> bool {
        true
    }

    fn on_debt_change(&self, _: KeyHash, by: i64) {
        let mut tat = self.tat.lock().unwrap();
        *tat = (*tat).max(self.now()) + i128::from(by);
    }
}

/// A call, with a number of its own.
type Step = (u8, u64, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let nanos = prop_oneof![2 => Just(0_u64), 2 => 0_u64..100, 2 => 0_u64..3_000_000];
    prop::collection::vec((0_u8..22, 0_u64..6, nanos), 1..80)
}

fn call(limiter: &Limiter<Quota, ManualClock, Replica>, (kind, cost, _): Step) {
    let plan = Quota::per_second(700).burst(9);
    let planned = limiter.with_quota(&plan).unwrap();
    let mut decisions = Vec::new();
    match kind {
        0..=2 => drop(limiter.check_n(KEY, cost)),
        3 => drop(limiter.check_at(KEY, cost, limiter.clock().now())),
        4 => drop(limiter.check_with_headroom(KEY, cost, 2)),
        5 => drop(limiter.check_up_to(KEY, cost)),
        6 => limiter.check_many_n(&[(KEY, cost), ("other", 0), (KEY, 1)], &mut decisions),
        7 => drop(limiter.charge(KEY, cost)),
        8 => limiter.refund(KEY, cost),
        9 if cost == 0 => limiter.reset(KEY),
        10 => drop(limiter.reserve(KEY, cost)),
        11 => drop(limiter.reserve(KEY, 3).map(|it| it.commit(cost))),
        12 => drop(LimitSet::new([limiter.ask(KEY, cost), limiter.ask(KEY, 1)]).check()),
        // Denied, so that the first is given back or never taken.
        13 => drop(LimitSet::new([limiter.ask(KEY, cost), planned.ask(KEY, 10)]).check()),
        14 => drop(limiter.enqueue(KEY, cost, Duration::from_secs(1)).map(Turn::keep)),
        15 => drop(limiter.enqueue(KEY, cost, Duration::from_secs(1))),
        16 => drop(planned.check_n(KEY, cost)),
        17 => drop(planned.charge(KEY, cost)),
        18 => planned.refund(KEY, cost),
        19 => planned.check_many(&[KEY, KEY], &mut decisions),
        20 => drop(planned.reserve(KEY, 3).map(|it| it.commit(cost))),
        _ => drop(limiter.peek_n(KEY, cost)),
    }
}

fn follow(quota: Quota, denied_bursts: u64, slack: i128, steps: Vec<Step>) {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1));
    let replica = Replica::new(&clock);
    let builder = Limiter::builder(quota).capacity(64).charge_denied(denied_bursts);
    let limiter = builder.clock(clock.clone()).observer(replica.clone()).build().unwrap();
    for step @ (_, _, nanos) in steps {
        call(&limiter, step);
        let debt = i128::try_from(limiter.debt(KEY).as_nanos()).unwrap();
        assert!((debt - replica.debt()).abs() <= slack, "{step:?}: {debt} {}", replica.debt());
        clock.advance(Duration::from_nanos(nanos));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_change_of_a_key_is_reported(burst in 1_u64..8, denied in 0_u64..3, steps in steps()) {
        follow(Quota::per_second(1_000).burst(burst), denied, 0, steps);
    }

    /// The emission interval is 1.67 ns.
    #[test]
    fn changes_are_reported_to_a_nanosecond(burst in 1_u64..8, steps in steps()) {
        let slack = 2 * i128::try_from(steps.len()).unwrap();
        follow(Quota::per_second(600_000_000).burst(burst), 0, slack, steps);
    }
}

#[test]
fn what_comes_from_elsewhere_is_not_reported() {
    let clock = ManualClock::new();
    let replica = Replica::new(&clock);
    let builder = Limiter::builder(Quota::per_hour(10)).capacity(64).clock(clock.clone());
    let limiter = builder.observer(replica.clone()).build().unwrap();
    assert!(limiter.check(KEY).is_allowed());
    limiter.charge_debt(KEY, Duration::from_secs(900), clock.now());
    limiter.raise_debt(KEY, Duration::from_secs(2_000));
    limiter.lower_debt(KEY, Duration::from_secs(10));
    assert_eq!((limiter.debt(KEY).as_secs(), replica.debt()), (1_990, 360_000_000_000));
    assert_eq!(limiter.burst_tolerance(), Duration::from_hours(1));
    assert_eq!(limiter.unit_debt(), Duration::from_mins(6));
}

#[test]
fn changes_under_a_live_quota_are_reported_and_changes_of_the_quota_are_not() {
    let clock = ManualClock::new();
    let replica = Replica::new(&clock);
    let builder = Limiter::builder(LiveQuota::new(Quota::per_second(10))).capacity(64);
    let limiter = builder.clock(clock.clone()).observer(replica.clone()).build().unwrap();
    assert!(limiter.check_n(KEY, 4).is_allowed());
    assert_eq!(replica.debt(), 400_000_000);
    limiter.set_quota(Quota::per_second(20), Inheritance::Keep).unwrap();
    assert_eq!(limiter.burst_tolerance(), Duration::from_secs(1));
    assert_eq!(replica.debt(), 400_000_000);
    assert!(limiter.check_n(KEY, 2).is_allowed());
    assert_eq!(replica.debt(), 500_000_000);
    limiter.refund(KEY, 1);
    assert_eq!(replica.debt(), 450_000_000);
    limiter.reset(KEY);
    assert_eq!(replica.debt(), 0);
}

#[test]
fn an_optional_observer_follows_where_there_is_one() {
    let clock = ManualClock::new();
    let replica = Replica::new(&clock);
    for observer in [None, Some(replica.clone())] {
        let builder = Limiter::builder(Quota::per_second(1_000)).clock(clock.clone());
        let observes = observer.observes_debt();
        let limiter = builder.lease_units(512).observer((observer, ())).build().unwrap();
        assert!(limiter.check(KEY).is_allowed());
        assert_eq!(replica.debt(), if observes { 1_000_000 } else { 0 });
        // Nothing else shows what threads use of a lease.
        assert!(!observes || limiter.lease_units() == 0);
    }
}
