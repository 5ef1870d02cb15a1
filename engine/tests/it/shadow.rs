//! A limit in shadow decides and counts what it would if it were enforced, and denies nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::counter::SubWindowCounter;
use tidegate_engine::observer::ObservedKey;
use tidegate_engine::rule::AnyRule;
use tidegate_engine::set::Ask;
use tidegate_engine::{
    Decision, DirectLimiter, KeyHash, Limit, LimitSet, Limiter, ManualClock, Observer, Quota,
    Shadow,
};

const HOUR: Duration = Duration::from_secs(1).saturating_mul(3_600);

type Manual<O = ()> = Limiter<Quota, ManualClock, O>;

fn limiter(quota: Quota) -> Manual {
    Limiter::builder(quota).capacity(100).clock(ManualClock::new()).build().unwrap()
}

fn shadow(quota: Quota) -> Shadow<Manual> {
    Shadow::new(limiter(quota))
}

/// Allowed and denied.
fn counts<L>(shadow: &Shadow<L>) -> (u64, u64) {
    let counts = shadow.counts();
    assert_eq!(counts.refused, 0);
    (counts.allowed, counts.denied)
}

/// Records every notification.
#[derive(Default)]
struct Recorder(Mutex<Vec<(KeyHash, u64, Decision)>>);

impl Observer for Recorder {
    fn on_decision(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision) {
        self.0.lock().unwrap().push((key.hash(), cost, *decision));
    }
}

#[test]
fn what_does_not_fit_is_let_through_and_counted() {
    let shadow = shadow(Quota::per_hour(3));
    let left: Vec<_> = (0..5).map(|_| shadow.check("a")).collect();
    assert!(left.iter().all(Decision::is_allowed));
    assert_eq!(left.iter().map(Decision::remaining).collect::<Vec<_>>(), [2, 1, 0, 0, 0]);
    assert_eq!(left[4].limit(), 3);
    assert_eq!(left[4].reset_after(), HOUR);
    assert_eq!(counts(&shadow), (3, 2));
    // Two are left of another key, and nothing is charged of three.
    assert_eq!(shadow.check_n("b", 1).remaining(), 2);
    assert_eq!(shadow.check_n("b", 3).remaining(), 0);
    assert_eq!(shadow.limit().peek("b").remaining(), 2);
    assert_eq!(counts(&shadow), (4, 3));
}

#[test]
fn the_answer_it_would_have_given_is_at_hand() {
    let shadow = shadow(Quota::per_hour(1));
    assert!(shadow.decide("a", 1).is_allowed());
    let denied = shadow.decide("a", 1);
    assert_eq!(denied.retry_after(), Some(HOUR));
    assert_eq!(shadow.decide("a", 2).retry_after(), None);
    assert_eq!(counts(&shadow), (1, 2));
    assert!(!shadow.into_inner().check("a").is_allowed(), "what it has charged stays charged");
}

#[test]
fn looks_are_not_counted() {
    let shadow = shadow(Quota::per_hour(1));
    shadow.limit().charge("a", 2);
    for key in ["a", "b"] {
        assert!(shadow.check_n(key, 0).is_allowed());
        assert!(LimitSet::new([shadow.ask(key, 1)]).peek().is_allowed());
    }
    assert_eq!(counts(&shadow), (0, 0));
}

#[test]
fn a_set_is_not_blocked_by_it() {
    let (shadow, enforced) = (shadow(Quota::per_hour(1)), limiter(Quota::per_hour(9)));
    for left in [0, 0, 0] {
        let set = LimitSet::new([shadow.ask("a", 1), enforced.ask("a", 2)]).check();
        assert!(set.is_allowed() && set.blocked().is_none());
        assert_eq!(set.retry_after(), Some(Duration::ZERO));
        let decisions: Vec<_> = set.decisions().collect();
        assert!(decisions.iter().all(Decision::is_allowed));
        assert_eq!(decisions[0].remaining(), left);
        assert_eq!(set.tightest(), Some(decisions[1]), "that of a limit that is enforced");
    }
    assert_eq!(counts(&shadow), (1, 2));
    let alone = LimitSet::new([shadow.ask("a", 1)]).check();
    assert_eq!(alone.tightest().map(|tightest| tightest.remaining()), Some(0));
    assert_eq!((counts(&shadow), enforced.peek("a").remaining()), ((1, 3), 3));
}

#[test]
fn a_set_that_others_deny_is_neither_charged_nor_counted() {
    let (shadow, enforced) = (shadow(Quota::per_hour(2)), limiter(Quota::per_hour(1)));
    let check = |cost| LimitSet::new([shadow.ask("a", cost), enforced.ask("a", 1)]).check();
    assert!(check(1).is_allowed());
    for cost in [1, 5] {
        let denied = check(cost);
        assert_eq!(denied.blocked().map(|blocked| blocked.index()), Some(1));
    }
    assert_eq!((counts(&shadow), shadow.limit().peek("a").remaining()), ((1, 0), 1));
}

/// A set adds up the asks of one limit and key; a shadow is another limit than the one it wraps.
#[test]
fn a_set_tells_a_shadow_from_its_limit() {
    let shadow = shadow(Quota::per_hour(2));
    let set = LimitSet::new([shadow.ask("a", 3), shadow.limit().ask("a", 1)]).check();
    assert!(set.is_allowed(), "{set:?}");
    assert_eq!((counts(&shadow), shadow.limit().peek("a").remaining()), ((0, 1), 1));
}

#[test]
fn asks_of_one_key_are_one_charge() {
    let (shadow, enforced) = (shadow(Quota::per_hour(3)), limiter(Quota::per_hour(9)));
    let check = || {
        let asks = [shadow.ask("a", 2), enforced.ask("a", 1), shadow.ask("a", 1)];
        LimitSet::new(asks).check().is_allowed()
    };
    assert!(check());
    assert_eq!((counts(&shadow), shadow.limit().peek("a").remaining()), ((2, 0), 0));
    assert!(check());
    assert_eq!((counts(&shadow), enforced.peek("a").remaining()), ((2, 2), 7));
}

#[test]
fn its_observer_learns_what_it_would_have_decided() {
    let recorder = Arc::new(Recorder::default());
    let builder = Limiter::builder(Quota::per_hour(1)).clock(ManualClock::new()).capacity(9);
    let shadow = Shadow::new(builder.observer(Arc::clone(&recorder)).build().unwrap());
    let enforced = limiter(Quota::per_hour(2));
    let key = shadow.limit().hash("a");
    let notified = || std::mem::take(&mut *recorder.0.lock().unwrap());

    assert!(shadow.check("a").is_allowed());
    assert!(matches!(notified()[..], [(a, 1, allowed)] if a == key && allowed.is_allowed()));
    let hour = Some(HOUR);
    assert!(shadow.check("a").is_allowed());
    assert!(matches!(notified()[..], [(a, 1, denied)] if a == key && denied.retry_after() == hour));
    let set = || LimitSet::new([enforced.ask("a", 2), shadow.ask("a", 1)]).check().is_allowed();
    assert!(set());
    assert!(matches!(notified()[..], [(_, 1, denied)] if denied.retry_after() == hour));
    assert!(!set());
    assert!(matches!(notified()[..], [(_, 0, _)]), "others denied the set: a look");
    assert!(shadow.reserve("a", 1).is_ok());
    assert!(matches!(notified()[..], [(_, 1, denied)] if denied.retry_after() == hour));
}

#[test]
fn of_a_reservation_that_would_have_been_denied_nothing_is_charged() {
    let shadow = shadow(Quota::per_hour(10));
    let left = || shadow.limit().peek("a").remaining();
    let reserved = shadow.reserve("a", 6).unwrap();
    assert_eq!((reserved.decision().remaining(), left()), (4, 4));
    for actual in [0, 2, 6, 8] {
        let denied = shadow.reserve("a", 6).unwrap();
        assert!(denied.decision().is_allowed());
        assert_eq!((denied.decision().remaining(), denied.cost()), (0, 6));
        assert_eq!(denied.commit(actual).remaining(), 4);
        assert_eq!(left(), 4);
        shadow.reserve("a", 6).unwrap().cancel();
        let set = LimitSet::new([shadow.ask("a", 4), shadow.ask("a", 2)]).reserve().unwrap();
        assert_eq!(set.commit([actual, actual]).map(|left| left.is_allowed()), Some(true));
        drop(LimitSet::new([shadow.ask("a", 6)]).reserve());
        assert_eq!(left(), 4, "{actual}");
    }
    assert_eq!(reserved.commit(1).remaining(), 9, "what fitted is settled as usual");
    assert_eq!(
        LimitSet::new([shadow.ask("a", 9)])
            .reserve()
            .unwrap()
            .commit([11])
            .map(|left| left.remaining()),
        Some(0)
    );
    assert!(!shadow.limit().peek_n("a", 1).is_allowed(), "two units of debt");
}

#[test]
fn a_client_that_would_be_banned_is_let_through_and_stays_banned_in_shadow() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(Quota::per_second(1)).charge_denied(3).clock(clock.clone());
    let shadow = Shadow::new(builder.build().unwrap());
    for _ in 0..100 {
        clock.advance(Duration::from_millis(500));
        assert!(shadow.check("client").is_allowed());
    }
    assert_eq!(counts(&shadow), (1, 99));
}

#[test]
fn limits_without_keys_can_be_in_shadow_and_be_shared() {
    let quota = Quota::per_hour(1);
    let direct = DirectLimiter::builder(quota).clock(ManualClock::new()).build().unwrap();
    let counter = SubWindowCounter::with_clock(1, HOUR, ManualClock::new()).unwrap();
    let (direct, counter) = (Arc::new(Shadow::new(direct)), Arc::new(Shadow::new(counter)));
    let limits: [Arc<dyn Limit>; 2] = [direct.clone(), counter.clone()];
    for _ in 0..3 {
        let asks: Vec<_> = limits.iter().map(|one| Ask::owned(Arc::clone(one), "any", 1)).collect();
        assert!(LimitSet::new(asks).check().is_allowed());
    }
    assert!(direct.check("other").is_allowed());
    assert_eq!((counts(&direct), counts(&counter)), ((1, 3), (1, 2)));
}

/// What each kind of limit answers in shadow, alone and in a set, and what it denied.
fn shadowed<L>(shadow: &Shadow<L>) -> (bool, bool, u64)
where
    Shadow<L>: Limit,
{
    let limit: &dyn Limit = shadow;
    let alone = (0..3).all(|_| limit.check("a").is_allowed());
    let set = LimitSet::new([Ask::new(limit, "a", 1)]).check().is_allowed();
    (alone, set, shadow.counts().denied)
}

#[test]
fn shared_limits_and_objects_can_be_in_shadow() {
    let rule = AnyRule::from(Quota::per_hour(1));
    let of_any_kind = Shadow::new(rule.limiter(9).unwrap());
    assert!(of_any_kind.check("b").is_allowed() && of_any_kind.check("b").is_allowed());
    assert!(of_any_kind.reserve("b", 1).is_ok());
    assert_eq!(shadowed(&of_any_kind), (true, true, 5));
    assert!(!of_any_kind.into_inner().check("a").is_allowed());

    let shared = Arc::new(limiter(Quota::per_hour(1)));
    assert_eq!(shadowed(&Shadow::new(Arc::clone(&shared))), (true, true, 3));
    assert_eq!(shared.peek("a").remaining(), 0, "its charges are those of the shadow");
    let object: Arc<dyn Limit> = shared;
    assert_eq!(shadowed(&Shadow::new(object)), (true, true, 4));
    let boxed: Box<dyn Limit> = Box::new(limiter(Quota::per_hour(1)));
    assert_eq!(shadowed(&Shadow::new(boxed)), (true, true, 3));
}

#[test]
fn a_shadow_of_a_shadow_counts_in_both() {
    let outer = Shadow::new(shadow(Quota::per_hour(1)));
    assert!(outer.check("a").is_allowed() && outer.check("a").is_allowed());
    assert_eq!((counts(&outer), counts(outer.limit())), ((1, 1), (1, 1)));
}

#[test]
fn threads_count_together() {
    let shadow = shadow(Quota::per_hour(100));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| assert!(shadow.check("a").is_allowed())));
        }
    });
    assert_eq!(counts(&shadow), (100, 300));
}

#[derive(Clone, Debug)]
enum Step {
    Check(u8, u64),
    /// Reserved and settled at once.
    Settle(u8, u64, u64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_u8, 0..7_u64).prop_map(|(key, cost)| Step::Check(key, cost)),
        (0..3_u8, 1..7_u64, 0..9_u64).prop_map(|(key, cost, used)| Step::Settle(key, cost, used)),
        (0..2_000_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// A limit in shadow is charged, and counts, exactly as one that is enforced.
    #[test]
    fn it_decides_as_if_it_were_enforced(steps in proptest::collection::vec(step(), 1..60)) {
        let quota = Quota::per_second(2).burst(5);
        let clock = ManualClock::new();
        let build = || Limiter::builder(quota).capacity(100).clock(clock.clone()).build().unwrap();
        let (enforced, shadow) = (build(), Shadow::new(build()));
        let (mut allowed, mut denied) = (0, 0);
        let mut count = |cost: u64, decision: Decision| {
            allowed += u64::from(cost > 0 && decision.is_allowed());
            denied += u64::from(cost > 0 && !decision.is_allowed());
        };
        for step in steps {
            match step {
                Step::Wait(millis) => clock.advance(Duration::from_millis(millis)),
                Step::Check(key, cost) => {
                    let decision = enforced.check_n([key], cost);
                    count(cost, decision);
                    prop_assert_eq!(shadow.decide([key], cost), decision);
                }
                Step::Settle(key, cost, used) => {
                    let reserved = enforced.reserve([key], cost);
                    let let_through = shadow.reserve([key], cost).unwrap();
                    match reserved {
                        Ok(reserved) => {
                            count(cost, reserved.decision());
                            reserved.commit(used);
                        }
                        Err(denied) => count(cost, denied),
                    }
                    prop_assert!(let_through.decision().is_allowed());
                    prop_assert!(let_through.commit(used).is_allowed());
                }
            }
            for key in 0..3_u8 {
                prop_assert_eq!(shadow.limit().peek([key]), enforced.peek([key]));
            }
        }
        prop_assert_eq!(counts(&shadow), (allowed, denied));
    }
}
