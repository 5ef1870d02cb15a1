//! An observer is notified of each decision once, and of nothing else.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_engine::observer::{Counts, DecisionCounts, ObservedKey, OverflowCounts, from_fn};
use tidegate_engine::{
    Clock as _, Decision, DirectLimiter, IpKey, KeyHash, LimitSet, Limiter, ManualClock, Observer,
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
    fn on_decision(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision) {
        self.0.borrow_mut().push((key.hash(), cost, *decision));
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
    for (cost, units) in [(0, 0), (1, 1), (9, 1)] {
        let grant = limiter.check_up_to("a", cost);
        assert_eq!(grant.units(), 0);
        assert_eq!(limiter.observer().notified(), [(key, units, grant.decision())]);
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
fn each_operation_is_reported_exactly_once_with_leases() {
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
    assert_eq!((counts.allowed, counts.denied, counts.peeks), (2, 3, 2));
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
    let DecisionCounts { allowed, denied, peeks, .. } = counts.sum();
    assert_eq!((allowed, denied, peeks), (1_400, THREADS * CHECKS - 1_400, 0));
}

#[test]
fn two_may_listen_in_their_order() {
    struct Named<'l>(&'static str, &'l Mutex<Vec<&'static str>>);
    impl Observer for Named<'_> {
        fn on_decision(&self, _: ObservedKey<'_>, _: u64, _: &Decision) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let log = Mutex::new(Vec::new());
    let (first, second) = (Named("first", &log), Named("second", &log));
    let limiter = Limiter::builder(Quota::per_hour(1)).capacity(1).clock(ManualClock::new());
    let first: &dyn Observer = &first;
    let limiter = limiter.observer((first, ((), second))).build().unwrap();
    assert!(limiter.check("a").is_allowed());
    assert_eq!(*log.lock().unwrap(), ["first", "second"]);
}

/// Decisions without keys are observed once, as of one key.
#[test]
fn a_limiter_without_keys_notifies_each_decision_once() {
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
        (counts.allowed, counts.denied, counts.peeks)
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

/// Without an observer nothing is called, nor is there anything to store.
#[test]
fn no_observer_means_no_notification() {
    assert!(
        !().observes_decisions()
            && !((), ()).observes_decisions()
            && !Arc::new(()).observes_decisions()
    );
    let boxed: Box<dyn Observer + Send + Sync> = Box::new(());
    assert!(
        !boxed.observes_decisions()
            && !(&*boxed as &(dyn Observer + Send + Sync)).observes_decisions()
    );
    let counts = Counts::new();
    assert!(((), &counts).observes_decisions() && counts.observes_decisions());
    let plain = Limiter::builder(Quota::per_hour(1)).capacity(1).clock(ManualClock::new());
    let plain = size_of_val(&plain.build().unwrap());
    let unobserved = Limiter::builder(Quota::per_hour(1)).capacity(1).clock(ManualClock::new());
    assert_eq!(size_of_val(&unobserved.observer(((), ())).build().unwrap()), plain);
    let plain = DirectLimiter::builder(Quota::per_hour(1)).build().unwrap();
    let unobserved = DirectLimiter::builder(Quota::per_hour(1)).observer(((), ())).build().unwrap();
    assert_eq!(size_of_val(&unobserved), size_of_val(&plain));
}

/// What is seen of each decision, as text: the key, whether it is the key that the caller gave or
/// its hash, the cost, and whether it was allowed.
type Log = Mutex<Vec<String>>;

fn logging(log: &Log) -> impl Observer + Send + Sync {
    from_fn(|key, cost, decision| {
        let outcome = if decision.is_allowed() { "allowed" } else { "denied" };
        log.lock().unwrap().push(format!("{key:?} {cost} {outcome}"));
    })
}

#[test]
fn each_operation_notifies_the_key_as_it_was_given() {
    let log = Log::default();
    let logged =
        |expected: &[&str]| assert_eq!(std::mem::take(&mut *log.lock().unwrap()), expected);
    let limiter = Limiter::builder(Quota::per_hour(5)).capacity(1).clock(ManualClock::new());
    let limiter = Arc::new(limiter.observer(logging(&log)).build().unwrap());
    let (now, inline, second) = (limiter.clock().now(), Quota::per_hour(9), Duration::from_secs(1));
    let _ = (limiter.check("a\n"), limiter.check_n(7_u8, 2), limiter.check_at(-7, 6, now));
    logged(&["\"a\\n\" 1 allowed", "7 2 allowed", "-7 6 denied"]);
    let _ = (limiter.peek(b"b\xff"), limiter.peek_n(String::from("c"), 6));
    logged(&["\"b\\xff\" 0 allowed", "\"c\" 0 denied"]);
    let _ = limiter.check_up_to(("d", 1_u128), 9);
    logged(&["(\"d\", 1) 5 allowed"]);
    let _ = (limiter.charge(("e", "f", -1), 9), limiter.check_with("e", 10, &inline));
    logged(&["(\"e\", \"f\", -1) 0 denied", "\"e\" 10 denied"]);
    let given = limiter.with_quota(&inline).unwrap();
    let address = IpKey::from(std::net::Ipv6Addr::LOCALHOST);
    let _ = (given.check(address), given.check_at("g", 9, now), given.peek_n("g", 1));
    logged(&["::/64 1 allowed", "\"g\" 9 allowed", "\"g\" 0 denied"]);
    let _ = (given.check_up_to("h", 10), given.charge("h", 1), given.check_n("h", 1));
    logged(&["\"h\" 9 allowed", "\"h\" 0 denied", "\"h\" 1 denied"]);
    let mut decisions = Vec::new();
    limiter.check_many(&["i", "j"], &mut decisions);
    given.check_many_n(&[("k", 1), ("l", 10)], &mut decisions);
    logged(&["\"i\" 1 allowed", "\"j\" 1 allowed", "\"k\" 1 allowed", "\"l\" 10 denied"]);
    drop((limiter.reserve("m", 1), limiter.reserve("m", 5), given.reserve("m", 10)));
    logged(&["\"m\" 1 allowed", "\"m\" 5 denied", "\"m\" 10 denied"]);
    drop((limiter.enqueue("n", 5, second), given.enqueue("n", 9, second)));
    logged(&["\"n\" 5 allowed", "\"n\" 9 denied"]);
    let hash = limiter.hash("o");
    let _ = (limiter.check(hash), LimitSet::new([limiter.ask("o", 1)]).check());
    let hashed = format!("{hash:?} 1 allowed");
    logged(&[&hashed, &hashed]);
}

/// Leases and charged denials decide in turn.
#[test]
fn a_batch_beyond_the_word_notifies_each_key_once() {
    let log = Log::default();
    let quota = Quota::per_hour(100_000);
    let builder = Limiter::builder(quota).capacity(1).clock(ManualClock::new());
    let leased = builder.lease_units(64).observer(logging(&log)).build().unwrap();
    let builder = Limiter::builder(Quota::per_hour(1)).capacity(1).clock(ManualClock::new());
    let charged = builder.charge_denied(1).observer(logging(&log)).build().unwrap();
    assert!(leased.lease_units() > 0);
    let mut decisions = Vec::new();
    leased.check_many(&["a", "b"], &mut decisions);
    charged.check_many(&["c", "c"], &mut decisions);
    charged.with_quota(&quota).unwrap().check_many(&["d"], &mut decisions);
    let lines = ["\"a\" 1 allowed", "\"b\" 1 allowed", "\"c\" 1 allowed", "\"c\" 1 denied"];
    let last = ["\"d\" 1 allowed"];
    assert_eq!(*log.lock().unwrap(), [&lines[..], &last].concat());
}

#[test]
fn a_limiter_without_keys_notifies_no_key() {
    let log = Log::default();
    let single = DirectLimiter::builder(Quota::per_hour(2)).clock(ManualClock::new());
    let single = single.observer(logging(&log)).build().unwrap();
    assert!(single.check().is_allowed() && single.peek().is_allowed());
    drop(single.reserve(1));
    assert!(LimitSet::new([single.ask(1)]).check().is_allowed());
    assert_eq!(*log.lock().unwrap(), ["- 1 allowed", "- 0 allowed", "- 1 allowed", "- 1 allowed"]);
}

/// Of any type that can be written in a field: shared, boxed, borrowed, and closures of each.
#[test]
fn observers_may_be_objects() {
    fn observed<O: Observer>(observer: O) {
        let builder = Limiter::builder(Quota::per_hour(1)).capacity(1).clock(ManualClock::new());
        let limiter = builder.observer(observer).build().unwrap();
        assert!(limiter.check("a").is_allowed());
    }
    type Closure = dyn Fn(ObservedKey<'_>, u64, &Decision) + Send + Sync;
    let log = Arc::new(Log::default());
    let to_log = || {
        let log = Arc::clone(&log);
        from_fn(move |key, cost, _| log.lock().unwrap().push(format!("{key} {cost}")))
    };
    observed(to_log());
    observed(Arc::new(to_log()));
    observed(Arc::new(to_log()) as Arc<dyn Observer + Send + Sync>);
    observed(Box::new(to_log()) as Box<dyn Observer + Send + Sync>);
    observed(Box::new(to_log()) as Box<dyn Observer>);
    observed(&to_log() as &dyn Observer);
    observed(Arc::new(to_log()) as Arc<Closure>);
    observed(Box::new(to_log()) as Box<Closure>);
    let borrowed = to_log();
    observed(&borrowed);
    observed(borrowed);
    observed(|key: ObservedKey<'_>, cost: u64, decision: &Decision| {
        to_log()(key, cost, decision);
    });
    assert_eq!(*log.lock().unwrap(), ["a 1"; 11]);
}

/// The result of `observes_decisions` may change: while it is false nothing is observed.
#[test]
fn an_observer_may_be_switched_on_and_off() {
    #[derive(Default)]
    struct Switched(AtomicBool, AtomicU64);
    impl Observer for Switched {
        fn on_decision(&self, _: ObservedKey<'_>, _: u64, _: &Decision) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        fn observes_decisions(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }
    let switched = Arc::new(Switched::default());
    let both = (Counts::new(), Arc::clone(&switched));
    let builder = Limiter::builder(Quota::per_hour(9)).capacity(1).clock(ManualClock::new());
    let limiter = builder.observer(both).build().unwrap();
    let mut decisions = Vec::new();
    for (on, notified) in [(false, 0), (true, 3), (false, 3)] {
        switched.0.store(on, Ordering::Relaxed);
        assert!(limiter.check("a").is_allowed());
        limiter.check_many(&["a"], &mut decisions);
        drop(limiter.reserve("a", 1));
        assert_eq!(switched.1.load(Ordering::Relaxed), notified);
    }
    assert_eq!(limiter.observer().0.sum().allowed, 9);
}
