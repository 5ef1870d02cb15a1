//! Handles that keep their limits alive, for tasks and threads of their own.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_engine::counter::SubWindowCounter;
use tidegate_engine::set::Ask;
use tidegate_engine::{
    Decision, DirectLimiter, Limit, LimitSet, Limiter, ManualClock, Queue, Quota,
};

const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_mins(1);

fn limiter(quota: Quota) -> Arc<Limiter<Quota, ManualClock>> {
    let builder = Limiter::builder(quota).capacity(1).clock(ManualClock::new());
    Arc::new(builder.build().unwrap())
}

#[test]
fn a_set_goes_with_a_thread() {
    let keyed = limiter(Quota::per_second(1).burst(10));
    let single = Arc::new(
        DirectLimiter::builder(Quota::per_second(9)).clock(ManualClock::new()).build().unwrap(),
    );
    let counter = SubWindowCounter::with_clock(8, SECOND, ManualClock::new()).unwrap();
    let counter: Arc<dyn Limit> = Arc::new(counter);
    let asks = [
        keyed.ask_owned("key", 4),
        single.ask_owned(5).named("single"),
        Ask::owned(Arc::clone(&counter), "any", 6),
    ];
    let reserved = LimitSet::new(asks).reserve().unwrap();
    assert_eq!((keyed.peek("key").remaining(), single.peek().remaining()), (6, 4));
    let weak = [Arc::downgrade(&keyed)];
    drop((keyed, counter));
    let left = thread::spawn(move || reserved.commit([1, 2, 3])).join().unwrap();
    assert_eq!(left.map(|left| left.remaining()), Some(5));
    assert_eq!(single.peek().remaining(), 7);
    assert!(weak[0].upgrade().is_none());
}

#[test]
fn a_set_that_is_denied_or_dropped_charges_nothing() {
    let (one, other) = (limiter(Quota::per_second(1).burst(5)), limiter(Quota::per_second(2)));
    let asks = |cost| [one.ask_owned("key", 3), other.ask_owned("key", cost).named("other")];
    let denied = LimitSet::new(asks(3)).reserve().unwrap_err();
    assert_eq!(denied.blocked().map(|blocked| blocked.name()), Some("other"));
    drop(LimitSet::new(asks(2)).reserve().unwrap());
    // Asks of one key add up, owned or not.
    let twice = [one.ask_owned("key", 3), one.ask("key", 3)];
    assert!(!LimitSet::new(twice).check().is_allowed());
    assert_eq!((one.peek("key").remaining(), other.peek("key").remaining()), (5, 2));
}

#[test]
fn what_ends_within_the_call_is_that_of_the_quota_given_with_it() {
    let limiter = limiter(Quota::per_second(1));
    let plan = Quota::per_second(1).burst(9);
    let given = limiter.with_quota_owned(&plan).unwrap();
    let mut decisions = Vec::new();
    given.check_many_n(&[("key", 7), ("key", 3), ("other", 9), ("key", 2)], &mut decisions);
    let allowed: Vec<_> = decisions.iter().map(Decision::is_allowed).collect();
    assert_eq!(allowed, [true, false, true, true]);
    drop(given.reserve("another", 9).unwrap());
    assert_eq!(given.peek("another").remaining(), 9);
}

#[test]
fn a_turn_goes_with_a_thread_and_gives_up_its_place() {
    let limiter = limiter(Quota::per_second(1).burst(1));
    let queue = Queue::with_clock(Quota::per_second(1).burst(1), ManualClock::new()).unwrap();
    let queue = Arc::new(queue);
    for _ in 0..2 {
        let _ = limiter.enqueue_owned("key", 1, PATIENCE).unwrap().keep();
        let _ = queue.enqueue_owned(1, PATIENCE).unwrap().keep();
    }
    let before = (limiter.peek("key"), queue.peek());
    let key = limiter.enqueue_owned("key", 1, PATIENCE).unwrap();
    let line = queue.enqueue_owned(1, PATIENCE).unwrap();
    assert_eq!((limiter.waiters(), queue.waiters()), (1, 1));
    assert_eq!((key.delay(), line.delay()), (2 * SECOND, 2 * SECOND));
    assert_eq!(limiter.enqueue_owned("key", 2, PATIENCE).unwrap_err().retry_after(), None);
    thread::spawn(move || (drop(key), assert!(line.cancel()))).join().unwrap();
    assert_eq!((limiter.waiters(), queue.waiters()), (0, 0));
    assert_eq!((limiter.peek("key"), queue.peek()), before);
    let at_once = limiter.enqueue_owned("other", 1, PATIENCE).unwrap();
    assert_eq!((limiter.waiters(), Arc::strong_count(&limiter)), (0, 2));
    assert!(at_once.block().is_allowed());
    assert_eq!(Arc::strong_count(&limiter), 1);
}

#[test]
fn what_a_quota_given_with_the_call_hands_out_goes_with_a_thread() {
    static PLAN: Quota = Quota::per_second(10).burst(10);
    let (limiter, other) = (limiter(Quota::per_second(1)), limiter(Quota::per_second(9)));
    let (reserved, turn) = {
        let plan = PLAN;
        let given = limiter.with_quota_owned(&plan).unwrap();
        assert_eq!(Arc::strong_count(&limiter), 1);
        let _ = given.enqueue("line", 10, PATIENCE).unwrap().keep();
        (given.reserve("key", 8).unwrap(), given.enqueue("line", 4, PATIENCE).unwrap())
    };
    assert_eq!((limiter.waiters(), Arc::strong_count(&limiter)), (1, 3));
    let set = [
        limiter.with_quota_owned(&PLAN).unwrap().ask("set", 7).named("planned"),
        other.ask_owned("set", 9),
    ];
    let set = LimitSet::new(set).reserve().unwrap();
    let given = limiter.with_quota(&PLAN).unwrap();
    assert_eq!((given.peek("key").remaining(), given.peek("set").remaining()), (2, 3));
    let weak = Arc::downgrade(&limiter);
    drop(limiter);
    let settle = move || {
        let wait = turn.delay();
        assert!(turn.cancel());
        (wait, reserved.commit(5).remaining(), set.commit([2, 3]).map(|left| left.remaining()))
    };
    let settled = thread::spawn(settle).join().unwrap();
    assert_eq!(settled, (4 * SECOND / 10, 5, Some(6)));
    assert!(weak.upgrade().is_none());
}

#[test]
fn what_a_quota_given_with_the_call_denies_keeps_nothing_alive() {
    let limiter = limiter(Quota::per_second(1));
    let (plan, never) = (Quota::per_second(10).burst(10), Quota::per_second(1).burst(0));
    assert!(limiter.with_quota_owned(&never).is_err());
    let given = limiter.with_quota_owned(&plan).unwrap();
    assert_eq!(given.reserve("key", 11).unwrap_err().retry_after(), None);
    assert_eq!(given.enqueue("key", 11, PATIENCE).unwrap_err().retry_after(), None);
    assert!(!LimitSet::new([given.ask("key", 6), given.ask("key", 5)]).check().is_allowed());
    assert_eq!((Arc::strong_count(&limiter), limiter.live().count()), (1, 0));
}
