//! A `dyn Limit` answers as the limit does that it is, and notifies its observer of the same.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::SharedClock;
use tidegate_engine::counter::{ShardedCounter, SubWindowCounter};
use tidegate_engine::limiter::LimiterBuilder;
use tidegate_engine::observer::{Counts, from_fn};
use tidegate_engine::{
    CalendarWindow, Clock, Decision, DirectLimiter, FixedWindow, KeyHasher, Limit, Limiter,
    LiveQuota, ManualClock, Observer, Quota, Reservation, Rule, SlidingWindow,
};

const SECOND: Duration = Duration::from_secs(1);
const KEYS: [&str; 2] = ["a", "b"];

/// The calls that both have. A limit without keys leaves the key out of account.
trait Calls {
    fn check(&self, key: &str) -> Decision;
    fn check_n(&self, key: &str, cost: u64) -> Decision;
    fn peek(&self, key: &str) -> Decision;
    /// `None` where the limit itself does not have it.
    fn peek_n(&self, key: &str, cost: u64) -> Option<Decision>;
    /// Whether the limit has it.
    fn refund(&self, key: &str, cost: u64) -> bool;
    fn reserve(&self, key: &str, cost: u64) -> Result<Reservation<'_>, Decision>;
}

macro_rules! calls {
    ([$($parameters:tt)*] $limit:ty, |$this:ident, $key:ident, $cost:ident| {
        $check:expr, $check_n:expr, $peek:expr, $peek_n:expr, $refund:expr, $reserve:expr
    }) => {
        impl<$($parameters)*> Calls for $limit {
            #[allow(unused_variables, reason = "some have no keys")]
            fn check(&self, $key: &str) -> Decision {
                let $this = self;
                $check
            }
            #[allow(unused_variables, reason = "some have no keys")]
            fn check_n(&self, $key: &str, $cost: u64) -> Decision {
                let $this = self;
                $check_n
            }
            #[allow(unused_variables, reason = "some have no keys")]
            fn peek(&self, $key: &str) -> Decision {
                let $this = self;
                $peek
            }
            #[allow(unused_variables, reason = "some have no keys")]
            fn peek_n(&self, $key: &str, $cost: u64) -> Option<Decision> {
                let $this = self;
                $peek_n
            }
            #[allow(unused_variables, reason = "some have no keys")]
            fn refund(&self, $key: &str, $cost: u64) -> bool {
                let $this = self;
                $refund
            }
            #[allow(unused_variables, reason = "some have no keys")]
            fn reserve(&self, $key: &str, $cost: u64) -> Result<Reservation<'_>, Decision> {
                let $this = self;
                $reserve
            }
        }
    };
}

calls!(['l] dyn Limit + 'l, |it, key, cost| {
    it.check(key), it.check_n(key, cost), it.peek(key), Some(it.peek_n(key, cost)),
    it.refund(key, cost), it.reserve(key, cost)
});
calls!([R: Rule, C: Clock + Send + Sync, O: Observer + Send + Sync] Limiter<R, C, O>,
    |it, key, cost| {
        it.check(key), it.check_n(key, cost), it.peek(key), Some(it.peek_n(key, cost)),
        { it.refund(key, cost); true }, it.reserve(key, cost)
    }
);
calls!([R: Rule, C: Clock + Send + Sync, O: Observer + Send + Sync] DirectLimiter<R, C, O>,
    |it, key, cost| {
        it.check(), it.check_n(cost), it.peek(), Some(it.peek_n(cost)),
        { it.refund(cost); true }, it.reserve(cost)
    }
);
calls!([C: Clock + Send + Sync] SubWindowCounter<C>, |it, key, cost| {
    it.check(), it.check_n(cost), it.peek(), None, false, it.reserve(cost)
});
calls!([C: Clock + Send + Sync] ShardedCounter<C>, |it, key, cost| {
    it.check(), it.check_n(cost), it.peek(), None, false, it.reserve(cost)
});

#[derive(Clone, Copy, Debug)]
enum Step {
    /// This many checks of one unit.
    Check(u32),
    CheckN(u64),
    Peek,
    PeekN(u64),
    Refund(u64),
    Reserve(u64),
    /// Commits the oldest open reservation to this many units.
    Commit(u64),
    Wait(Duration),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        4 => (1..100_u32).prop_map(Step::Check),
        4 => (0..300_u64).prop_map(Step::CheckN),
        1 => Just(Step::Peek),
        1 => (0..300_u64).prop_map(Step::PeekN),
        1 => (0..100_u64).prop_map(Step::Refund),
        2 => (0..100_u64).prop_map(Step::Reserve),
        2 => (0..150_u64).prop_map(Step::Commit),
        3 => (0..2_000_000_000_u64).prop_map(|nanos| Step::Wait(Duration::from_nanos(nanos))),
    ];
    proptest::collection::vec((0..KEYS.len(), step), 1..60)
}

/// What has been observed: key, cost and decision.
type Notified = Arc<Mutex<Vec<(String, u64, Decision)>>>;

/// All answers, in order; of `peek_n` if the limit itself has it.
fn answers<L: Calls + ?Sized>(
    limit: &L,
    peeks: bool,
    clock: &ManualClock,
    steps: &[(usize, Step)],
) -> Vec<Decision> {
    let (mut open, mut answers) = (Vec::new(), Vec::new());
    for &(key, step) in steps {
        let key = KEYS[key];
        match step {
            Step::Check(times) => answers.extend((0..times).map(|_| limit.check(key))),
            Step::CheckN(cost) => answers.push(limit.check_n(key, cost)),
            Step::Peek => answers.push(limit.peek(key)),
            Step::PeekN(cost) if peeks => answers.extend(limit.peek_n(key, cost)),
            Step::PeekN(_) => {}
            Step::Refund(cost) => {
                let _ = limit.refund(key, cost);
            }
            Step::Reserve(cost) => match limit.reserve(key, cost) {
                Ok(reserved) => {
                    answers.push(reserved.decision());
                    open.push(reserved);
                }
                Err(denied) => answers.push(denied),
            },
            Step::Commit(actual) => {
                let oldest = (!open.is_empty()).then(|| open.remove(0));
                answers.extend(oldest.map(|reserved| reserved.commit(actual)));
            }
            Step::Wait(time) => clock.advance(time),
        }
    }
    answers
}

/// Each in a thread of its own: what a thread has leased of a key depends on what it did before.
fn agree<L: Limit + Calls + 'static>(
    make: impl Fn(ManualClock, Notified) -> L + Sync,
    steps: &[(usize, Step)],
) -> Result<(), TestCaseError> {
    let run = |is_object: bool| {
        let run = || {
            let (clock, notified) = (ManualClock::new(), Notified::default());
            clock.advance(SECOND);
            let limit = make(clock.clone(), Arc::clone(&notified));
            let peeks = Calls::peek_n(&limit, "", 0).is_some();
            let answers = if is_object {
                let limit: Box<dyn Limit> = Box::new(limit);
                answers(&*limit, peeks, &clock, steps)
            } else {
                answers(&limit, peeks, &clock, steps)
            };
            let notified = std::mem::take(&mut *notified.lock().unwrap());
            (answers, notified)
        };
        thread::scope(|scope| scope.spawn(run).join().unwrap())
    };
    let ((one, one_heard), (other, other_heard)) = (run(false), run(true));
    prop_assert_eq!(one, other);
    prop_assert_eq!(one_heard, other_heard);
    Ok(())
}

/// An observer in a type that can be written.
type BoxedObserver = Box<dyn Observer + Send + Sync>;

fn recording(notified: Notified) -> impl Observer + Send + Sync + 'static {
    from_fn(move |key, cost, decision| {
        notified.lock().unwrap().push((key.to_string(), cost, *decision));
    })
}

/// Limiters of one rule, with the choices that `more` makes.
fn keyed<R: Rule>(
    rule: R,
    more: impl Fn(LimiterBuilder<R, ManualClock>) -> LimiterBuilder<R, ManualClock> + Sync,
) -> impl Fn(ManualClock, Notified) -> Limiter<R, ManualClock, BoxedObserver> + Sync {
    move |clock, notified| {
        let builder = more(Limiter::builder_with(rule, clock, KeyHasher::rapid(7)).capacity(1));
        let observer: BoxedObserver = Box::new(recording(notified));
        builder.observer(observer).build().unwrap()
    }
}

fn direct<R: Rule>(
    rule: R,
) -> impl Fn(ManualClock, Notified) -> DirectLimiter<R, ManualClock, BoxedObserver> + Sync {
    move |clock, notified| {
        let observer: BoxedObserver = Box::new(recording(notified));
        DirectLimiter::builder_with(rule, clock).initial(150).observer(observer).build().unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_object_answers_as_the_limiter_that_it_is(steps in steps()) {
        let quota = Quota::per_second(100).burst(200);
        agree(keyed(quota, |builder| builder), &steps)?;
        agree(keyed(quota, |builder| builder.charge_denied(2)), &steps)?;
        agree(keyed(LiveQuota::new(quota), |builder| builder), &steps)?;
        agree(keyed(FixedWindow::new(200, SECOND), |builder| builder), &steps)?;
        agree(keyed(SlidingWindow::new(200, SECOND), |builder| builder), &steps)?;
        agree(keyed(CalendarWindow::per_minute(200).anchored(SECOND), |builder| builder), &steps)?;
    }

    #[test]
    fn an_object_uses_leases_as_the_limiter_does(steps in steps()) {
        let hot = keyed(Quota::per_second(5_000).burst(6_000), |builder| builder.lease_units(64));
        let lease = hot(ManualClock::new(), Notified::default()).lease_units();
        prop_assume!(lease > 0);
        agree(hot, &steps)?;
    }

    #[test]
    fn an_object_without_keys_answers_as_the_limit_that_it_is(steps in steps()) {
        let quota = Quota::per_second(100).burst(200);
        agree(direct(quota), &steps)?;
        agree(direct(LiveQuota::new(quota)), &steps)?;
        agree(direct(FixedWindow::new(200, SECOND)), &steps)?;
        agree(direct(SlidingWindow::new(200, SECOND)), &steps)?;
        agree(direct(CalendarWindow::per_minute(200).anchored(SECOND)), &steps)?;
        agree(|clock, _| SubWindowCounter::with_clock(200, SECOND, clock).unwrap(), &steps)?;
        let sharded = |clock, _| {
            let builder = ShardedCounter::builder(200, SECOND).clock(clock);
            builder.shards(2).block(10).build().unwrap()
        };
        agree(sharded, &steps)?;
    }
}

/// What only the object has of a counter: it says of a cost what a check then does.
#[test]
fn a_counter_as_an_object_peeks_whether_a_cost_fits() {
    let clock = ManualClock::new();
    let limits: [Box<dyn Limit>; 2] = [
        Box::new(SubWindowCounter::with_clock(10, SECOND, clock.clone()).unwrap()),
        Box::new(ShardedCounter::with_clock(10, SECOND, clock.clone()).unwrap()),
    ];
    for limit in &limits {
        for cost in [4, 11, 7, 6, 1] {
            let (looked, left) = (limit.peek_n("", cost), limit.peek("").remaining());
            assert_eq!(looked.remaining(), left);
            let checked = limit.check_n("", cost);
            assert_eq!(looked.is_allowed(), checked.is_allowed(), "{cost}");
            assert_eq!(looked.retry_after(), checked.retry_after(), "{cost}");
        }
        assert!(!limit.refund("", 10), "without a receipt nothing is given back");
        assert!(!limit.check("").is_allowed());
        clock.advance(Duration::from_secs(2));
        drop(limit.reserve("", 10));
        assert_eq!(limit.peek("").remaining(), 10, "with a receipt it is");
    }
}

#[test]
fn a_refund_reaches_the_limit() {
    let clock = ManualClock::new();
    let limits: [Box<dyn Limit>; 2] = [
        Box::new(Limiter::builder(Quota::per_hour(3)).clock(clock.clone()).build().unwrap()),
        Box::new(DirectLimiter::builder(Quota::per_hour(3)).clock(clock).build().unwrap()),
    ];
    for limit in limits {
        assert!(limit.check_n("a", 3).is_allowed());
        assert!(limit.refund("a", 2));
        assert_eq!(limit.peek("a").remaining(), 2);
    }
}

#[test]
fn an_owned_reservation_outlives_the_callers_limit() {
    let counts = Arc::new(Counts::new());
    let builder = Limiter::builder(Quota::per_hour(5)).capacity(1).clock(ManualClock::new());
    let limit: Arc<dyn Limit> = Arc::new(builder.observer(Arc::clone(&counts)).build().unwrap());
    let (reserved, denied) = (limit.reserve_owned("a", 4), limit.reserve_owned("a", 2));
    assert!(denied.is_err());
    let counted = counts.sum();
    assert_eq!((counted.allowed, counted.denied), (1, 1));
    let weak = Arc::downgrade(&limit);
    drop(limit);
    let left = thread::spawn(move || reserved.unwrap().commit(1)).join().unwrap();
    assert_eq!(left.remaining(), 4);
    assert!(weak.upgrade().is_none());
}

/// One type for the real clock and one moved by hand.
#[test]
fn a_clock_may_be_an_object() {
    let clock = ManualClock::new();
    let shared: SharedClock = Arc::new(clock.clone());
    let boxed: Box<dyn Clock> = Box::new(Arc::clone(&shared));
    let keyed = Limiter::builder(Quota::per_second(1)).capacity(1).clock(boxed).build().unwrap();
    let single = DirectLimiter::builder(Quota::per_second(1)).clock(&*shared).build().unwrap();
    assert!(keyed.check("a").is_allowed() && single.check().is_allowed());
    assert!(!keyed.check("a").is_allowed() && !single.check().is_allowed());
    clock.advance(SECOND);
    assert!(keyed.check("a").is_allowed() && single.check().is_allowed());
    assert!(format!("{single:?}").contains("dyn Clock"));
}
