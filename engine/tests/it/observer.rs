//! An observer is notified of each decision once, and of nothing else.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use tidegate_engine::observer::{Counts, DecisionCounts, OverflowCounts};
use tidegate_engine::{
    Clock as _, Decision, DirectLimiter, KeyHash, LimitSet, Limiter, ManualClock, Observer,
    OverflowPolicy, Quota,
};

/// Records every notification.
#[derive(Default)]
struct Recorder(RefCell<Vec<(KeyHash, u64, Decision)>>);

impl Recorder {
    /// Notifications since the last call.
    fn notified(&self) -> Vec<(KeyHash, u64, Decision)> {
        self.0.take()
    }
}

impl Observer for Recorder {
    fn decided(&self, key: KeyHash, cost: u64, decision: &Decision) {
        self.0.borrow_mut().push((key, cost, *decision));
    }
}

/// Every operation that decides, with and without leases; `repeats` checks make the key hot.
fn each_operation_reports_once(leases: u64, repeats: usize) {
    let quota = Quota::per_hour(100_000);
    let limiter = Limiter::builder(quota).lease_units(leases).capacity(1).clock(ManualClock::new());
    let limiter = limiter.observer(Recorder::default()).build().unwrap();
    assert_eq!(limiter.lease_units() > 0, leases > 0);
    let (key, now) = (limiter.hash("a"), limiter.clock().now());
    let inline = Quota::per_minute(1);
    for _ in 0..repeats {
        let decision = limiter.check("a");
        assert_eq!(limiter.observer().notified(), [(key, 1, decision)]);
    }
    let decision = limiter.check_n("a", 7);
    assert_eq!(limiter.observer().notified(), [(key, 7, decision)]);
    let grant = limiter.check_up_to("a", 3);
    assert_eq!(limiter.observer().notified(), [(key, 3, grant.decision())]);
    let decision = limiter.check_n("a", 100_001);
    assert!(!decision.is_allowed());
    assert_eq!(limiter.observer().notified(), [(key, 100_001, decision)]);
    let decision = limiter.check_at("a", 2, now);
    assert_eq!(limiter.observer().notified(), [(key, 2, decision)]);
    let decision = limiter.peek("a");
    assert_eq!(limiter.observer().notified(), [(key, 0, decision)]);
    for cost in [1, 100_001] {
        let decision = limiter.peek_n("a", cost);
        assert_eq!(decision.is_allowed(), cost == 1);
        assert_eq!(limiter.observer().notified(), [(key, 0, decision)]);
    }
    let decision = limiter.check_with("a", 3, &inline).unwrap();
    assert!(!decision.is_allowed());
    assert_eq!(limiter.observer().notified(), [(key, 3, decision)]);
    assert!(limiter.check_with("a", 3, &inline.burst(0)).is_err());
    assert_eq!(limiter.observer().notified(), [], "nothing was decided");
    let decision = limiter.charge("a", 200_000);
    assert_eq!(limiter.observer().notified(), [(key, 0, decision)], "a charge ends with a peek");
    for (cost, told) in [(0, 0), (1, 1), (9, 1)] {
        let grant = limiter.check_up_to("a", cost);
        assert_eq!(grant.units(), 0);
        assert_eq!(limiter.observer().notified(), [(key, told, grant.decision())]);
    }
    limiter.refund("a", 1);
    limiter.reset("a");
    assert_eq!(limiter.observer().notified(), []);
    // More keys than are prefetched, some of them twice.
    let (keys, mut decisions) = ((0..100_u64).map(|n| n % 60).collect::<Vec<_>>(), Vec::new());
    limiter.check_many(&keys, &mut decisions);
    let expected: Vec<_> = keys
        .iter()
        .zip(&decisions)
        .map(|(key, &decision)| (limiter.hash(key), 1, decision))
        .collect();
    assert_eq!(limiter.observer().notified(), expected);
    let checks: Vec<_> = keys.iter().map(|key| (key, key % 3)).collect();
    limiter.check_many_n(&checks, &mut decisions);
    let expected: Vec<_> = checks
        .iter()
        .zip(&decisions)
        .map(|((key, cost), &decision)| (limiter.hash(key), *cost, decision))
        .collect();
    assert_eq!(limiter.observer().notified(), expected);
}

#[test]
fn each_operation_is_reported_exactly_once() {
    each_operation_reports_once(0, 3);
}

#[test]
fn each_operation_is_reported_exactly_once_beside_leases() {
    each_operation_reports_once(64, 1_000);
}

#[test]
fn keys_without_a_place_are_reported_too() {
    for policy in [OverflowPolicy::Deny, OverflowPolicy::Allow, OverflowPolicy::EvictLeastDebt] {
        let limiter = Limiter::builder(Quota::per_hour(1)).capacity(1).clock(ManualClock::new());
        let limiter =
            limiter.overflow_policy(policy).observer(Recorder::default()).build().unwrap();
        for key in 0..40_000_u64 {
            let decision = limiter.check(key);
            assert_eq!(limiter.observer().notified(), [(limiter.hash(key), 1, decision)]);
        }
        assert_ne!(limiter.overflow(), OverflowCounts::default(), "{policy:?}");
    }
}

#[test]
fn counts_tell_allowed_denied_and_looks_apart() {
    let limiter = Limiter::builder(Quota::per_hour(4)).capacity(1).clock(ManualClock::new());
    let limiter = limiter.observer(Counts::new()).build().unwrap();
    for cost in [3, 2, 1, 1, 9, 0, 0] {
        let _ = limiter.check_n("a", cost);
    }
    let counts = limiter.observer().sum();
    assert_eq!((counts.allowed, counts.denied, counts.looks), (2, 3, 2));
}

#[test]
fn threads_share_a_counter_and_nothing_is_lost() {
    const THREADS: u64 = 8;
    const CHECKS: u64 = 1_000;
    let counts = Arc::new(Counts::new());
    let limiters = [(); 2].map(|()| {
        let limiter = Limiter::builder(Quota::per_hour(700)).capacity(1).clock(ManualClock::new());
        limiter.observer(Arc::clone(&counts)).build().unwrap()
    });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let limiter = &limiters[thread as usize % 2];
            scope.spawn(|| (0..CHECKS).for_each(|_| assert!(limiter.check("a").limit() == 700)));
        }
    });
    let DecisionCounts { allowed, denied, looks, .. } = counts.sum();
    assert_eq!((allowed, denied, looks), (1_400, THREADS * CHECKS - 1_400, 0));
}

#[test]
fn two_may_listen_in_their_order() {
    struct Named<'l>(&'static str, &'l Mutex<Vec<&'static str>>);
    impl Observer for Named<'_> {
        fn decided(&self, _: KeyHash, _: u64, _: &Decision) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let log = Mutex::new(Vec::new());
    let (first, second) = (Named("first", &log), Named("second", &log));
    let limiter = Limiter::builder(Quota::per_hour(1)).capacity(1).clock(ManualClock::new());
    let limiter = limiter.observer((&first, ((), second))).build().unwrap();
    assert!(limiter.check("a").is_allowed());
    assert_eq!(*log.lock().unwrap(), ["first", "second"]);
}

/// Decisions without keys are observed once, as of one key.
#[test]
fn a_limiter_without_keys_tells_each_decision_once() {
    let builder = DirectLimiter::builder(Quota::per_hour(9)).observer(Recorder::default());
    let single = builder.clock(ManualClock::new()).build().unwrap();
    let notified = || single.observer().notified();
    let key = KeyHash::from_bits(0);
    let decision = single.check();
    assert_eq!(notified(), [(key, 1, decision)]);
    let decision = single.check_at(9, single.clock().now());
    assert!(!decision.is_allowed());
    assert_eq!(notified(), [(key, 9, decision)]);
    let decision = single.peek();
    assert_eq!(notified(), [(key, 0, decision)]);
    let decision = single.charge(2);
    assert_eq!(notified(), [(key, 0, decision)], "a charge ends with a peek");
    single.refund(1);
    single.reset();
    assert_eq!(notified(), []);
}

#[test]
fn sets_and_reservations_tell_a_limiter_without_keys() {
    let clock = ManualClock::new();
    let builder = DirectLimiter::builder(Quota::per_hour(3)).observer(Counts::new());
    let single = builder.clock(clock.clone()).build().unwrap();
    let full = DirectLimiter::builder(Quota::per_hour(1)).clock(clock).build().unwrap();
    let counts = || {
        let counts = single.observer().sum();
        (counts.allowed, counts.denied, counts.looks)
    };
    assert!(LimitSet::new([single.ask(1), full.ask(1)]).check().is_allowed());
    assert_eq!(counts(), (1, 0, 0));
    assert!(!LimitSet::new([single.ask(1), full.ask(1)]).check().is_allowed());
    assert_eq!(counts(), (1, 0, 1), "what fitted while the set did not was only peeked at");
    let reserved = single.reserve(2);
    assert!(single.reserve(1).is_err());
    assert_eq!(counts(), (2, 1, 1));
    assert!(reserved.is_ok_and(|reserved| reserved.commit(1).is_allowed()));
    assert_eq!(counts(), (2, 1, 1));
}

/// Without an observer nothing is called: the branch is decided when the limiter is compiled.
#[test]
fn nobody_is_no_listener() {
    const { assert!(!<() as Observer>::LISTENS) };
    const { assert!(!<((), ()) as Observer>::LISTENS) };
    const { assert!(!<&() as Observer>::LISTENS) };
    const { assert!(!<Arc<()> as Observer>::LISTENS) };
    const { assert!(<((), Counts) as Observer>::LISTENS) };
    const { assert!(<&Counts as Observer>::LISTENS) };
    let plain = Limiter::builder(Quota::per_hour(1)).capacity(1).clock(ManualClock::new());
    let plain = size_of_val(&plain.build().unwrap());
    let unobserved = Limiter::builder(Quota::per_hour(1)).capacity(1).clock(ManualClock::new());
    assert_eq!(size_of_val(&unobserved.observer(((), ())).build().unwrap()), plain);
    let plain = DirectLimiter::builder(Quota::per_hour(1)).build().unwrap();
    let unobserved = DirectLimiter::builder(Quota::per_hour(1)).observer(((), ())).build().unwrap();
    assert_eq!(size_of_val(&unobserved), size_of_val(&plain));
}
