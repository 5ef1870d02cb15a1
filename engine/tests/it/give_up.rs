//! Callers that give up their places: those behind them move up.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::rule::Inheritance;
use tidegate_engine::wait::{Line, Turn};
use tidegate_engine::{Clock, Decision, Limiter, LiveQuota, ManualClock, Queue, Quota};

use crate::waiting::{ManualTimer, Task};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

fn limiter(quota: Quota, timer: &ManualTimer) -> Limiter<Quota, ManualClock> {
    Limiter::builder(quota).capacity(100).clock(timer.clock.clone()).build().unwrap()
}

fn queue(quota: Quota, timer: &ManualTimer) -> Queue<ManualClock> {
    Queue::with_clock(quota, timer.clock.clone()).unwrap()
}

/// What a crowd of callers came to.
struct Crowd {
    /// Units admitted, and the time of each admission.
    admitted: Vec<(Timestamp, u64)>,
    /// Calls, and wakes of all of them.
    calls: u64,
    wakes: u64,
}

/// 60 callers for 3 seconds, in steps of a millisecond: each acquires again and again, and gives up
/// after `patience`.
fn crowd<'t>(
    timer: &ManualTimer,
    patience: Duration,
    cost: impl Fn(u64) -> u64,
    acquire: impl Fn(u64) -> Task<'t, Decision>,
) -> Crowd {
    let mut crowd = Crowd { admitted: Vec::new(), calls: 0, wakes: 0 };
    let mut callers: Vec<Option<(Task<'t, Decision>, u64, Timestamp)>> =
        (0..60).map(|_| None).collect();
    for _ in 0..3_000 {
        let now = timer.clock.now();
        for caller in &mut callers {
            let mut done = None;
            if let Some((task, cost, since)) = caller {
                done = task.poll_if_woken().map(|decision| (decision, *cost));
                if done.is_none() && now.since(*since) >= patience {
                    crowd.wakes += task.wakes();
                    *caller = None;
                }
            }
            if let Some((decision, cost)) = done {
                assert!(decision.is_allowed());
                crowd.admitted.push((now, cost));
                crowd.wakes += caller.take().map_or(0, |(task, ..)| task.wakes());
            }
            if caller.is_none() {
                let cost = cost(crowd.calls);
                crowd.calls += 1;
                let mut task = acquire(cost);
                match task.poll() {
                    Some(decision) if decision.is_allowed() => crowd.admitted.push((now, cost)),
                    Some(_) => {}
                    None => *caller = Some((task, cost, now)),
                }
            }
        }
        timer.advance(MILLISECOND);
    }
    crowd
}

impl Crowd {
    fn units(&self) -> u64 {
        self.admitted.iter().map(|(_, cost)| cost).sum()
    }

    /// The bound on what starts in any interval.
    fn keeps(&self, quota: Quota) {
        let interval = quota.debt_of(1).as_nanos() as u64;
        let mut tat = 0;
        for (start, cost) in &self.admitted {
            tat = tat.max(start.as_nanos()) + cost * interval;
            let debt = tat - start.as_nanos();
            assert!(debt <= quota.burst_size() * interval, "too much at {start:?}");
        }
    }
}

/// 100 a second for 3 seconds.
const POSSIBLE: u64 = 300;

/// Clients that hang up, timeouts that fire, `select!` that moves on.
#[test]
fn places_given_up_serve_those_behind_them() {
    for (burst, most) in [(1, 1), (10, 1), (10, 4)] {
        let quota = Quota::per_second(100).burst(burst);
        for patience in [20, 50, 100, 150, 300, 700] {
            let patience = Duration::from_millis(patience);
            let cost = |call: u64| 1 + call % most;
            let (timer, key) = (ManualTimer::new(), "key");
            let limiter = limiter(quota, &timer);
            let keyed = crowd(&timer, patience, cost, |cost| {
                Task::new(limiter.acquire_on(&timer, key, cost, SECOND))
            });
            let timer = ManualTimer::new();
            let queue = queue(quota, &timer);
            let keyless = crowd(&timer, patience, cost, |cost| {
                Task::new(queue.acquire_on(&timer, cost, SECOND))
            });
            for crowd in [keyed, keyless] {
                let units = crowd.units();
                assert!(
                    units * 100 >= POSSIBLE * 95,
                    "{units} of {POSSIBLE}, burst {burst}, costs to {most}, {patience:?}",
                );
                crowd.keeps(quota);
                // To move up costs one wake, to start another one.
                let (wakes, calls) = (crowd.wakes, crowd.calls);
                assert!(wakes <= 2 * calls, "{wakes} wakes of {calls} calls");
            }
        }
    }
}

#[test]
fn turns_that_are_all_dropped_leave_nothing() {
    let quota = Quota::per_second(100).burst(1);
    let timer = ManualTimer::new();
    let (limiter, queue) = (limiter(quota, &timer), queue(quota, &timer));
    let keyed: Vec<_> = (0..500).map(|_| limiter.enqueue("key", 1, 5 * SECOND).unwrap()).collect();
    let keyless: Vec<_> = (0..500).map(|_| queue.enqueue(1, 5 * SECOND).unwrap()).collect();
    drop((keyed, keyless));
    assert_eq!((limiter.waiters(), queue.waiters()), (0, 0));
    assert_eq!(limiter.enqueue("key", 1, SECOND).unwrap().delay(), Duration::ZERO);
    assert_eq!(queue.enqueue(1, SECOND).unwrap().delay(), Duration::ZERO);
}

/// One that is not polled any more costs those behind it at most what they have moved up.
#[test]
fn a_caller_that_is_not_polled_stops_no_other() {
    let timer = ManualTimer::new();
    let limiter = limiter(Quota::per_second(1).burst(1), &timer);
    assert!(limiter.check("key").is_allowed());
    let wait = || Task::begun(limiter.acquire_on(&timer, "key", 1, 60 * SECOND));
    let (first, stalled, mut third, mut fourth) = (wait(), wait(), wait(), wait());
    drop(first);
    for _ in 0..3 {
        timer.advance(SECOND);
        assert!(third.poll_if_woken().is_none_or(|decision| decision.is_allowed()));
    }
    timer.advance(SECOND);
    assert!(fourth.poll_if_woken().unwrap().is_allowed());
    drop(stalled);
    assert_eq!(limiter.waiters(), 0);
}

#[test]
fn a_blocked_thread_moves_up() {
    let clock = ManualClock::new();
    let queue = Queue::with_clock(Quota::new(1, 1_000 * SECOND).burst(1), clock.clone()).unwrap();
    assert!(queue.check().is_allowed());
    let first = queue.enqueue(1, 3_000 * SECOND).unwrap();
    std::thread::scope(|scope| {
        let behind = queue.enqueue(1, 3_000 * SECOND).unwrap();
        let blocked = scope.spawn(move || behind.block());
        clock.advance(MILLISECOND * 999_999);
        // It sleeps for 1,000 seconds of real time, unless it is woken.
        drop(first);
        clock.advance(MILLISECOND);
        assert!(blocked.join().unwrap().is_allowed());
    });
}

/// What is refunded while callers wait does not make them keep their places.
#[test]
fn places_given_up_after_a_refund_serve_those_behind_them() {
    let timer = ManualTimer::new();
    let limiter = limiter(Quota::per_second(1).burst(2), &timer);
    let wait = || limiter.enqueue("key", 1, 60 * SECOND).unwrap();
    assert!(limiter.check_n("key", 2).is_allowed());
    let [first, second] = [wait(), wait()];
    limiter.refund("key", 1);
    let third = wait();
    assert_eq!((second.delay(), third.delay()), (2 * SECOND, 2 * SECOND));
    assert!(first.cancel());
    assert_eq!((second.delay(), third.delay()), (SECOND, SECOND));
    let _ = (second.keep(), third.keep());
}

/// Callers that sleep are notified that they have moved up, whatever is in front of them.
#[test]
fn callers_behind_fixed_and_held_places_move_up_one_by_one() {
    for held in [false, true] {
        let timer = ManualTimer::new();
        let queue = queue(Quota::per_second(1).burst(1), &timer);
        assert!(queue.check().is_allowed());
        let front: Vec<_> = (0..40).map(|_| queue.enqueue(1, 600 * SECOND).unwrap()).collect();
        let front: Vec<_> = if held {
            front
        } else {
            for turn in front {
                let _ = turn.keep();
            }
            Vec::new()
        };
        let wait = || Task::begun(queue.acquire_on(&timer, 1, 600 * SECOND));
        let leaving: Vec<_> = (0..10).map(|_| wait()).collect();
        let mut staying: Vec<_> = (0..10).map(|_| Some(wait())).collect();
        drop(leaving);
        let mut starts = Vec::new();
        for second in 0..70_u64 {
            for task in &mut staying {
                if task.as_mut().is_some_and(|task| task.poll_if_woken().is_some()) {
                    *task = None;
                    starts.push(second);
                }
            }
            timer.advance(SECOND);
        }
        assert_eq!(starts, (41..51).collect::<Vec<_>>(), "held: {held}");
        drop(front);
        assert_eq!(queue.waiters(), 0);
    }
}

/// A place is given up just as others start behind it: what they were charged for is not taken off.
#[test]
fn a_late_give_up_leaves_those_that_have_started() {
    struct Late {
        clock: ManualClock,
        late: std::sync::atomic::AtomicBool,
    }

    impl Clock for Late {
        fn now(&self) -> Timestamp {
            if self.late.swap(false, std::sync::atomic::Ordering::Relaxed) {
                let before = self.clock.now();
                self.clock.advance(SECOND * 3 / 2);
                return before;
            }
            self.clock.now()
        }
    }

    // The start comes at 1 s. The reading before the word is of 0.9 or 1 s, the one after it of 2.4
    // or 2.5 s, when half of the unit or more has drained.
    for (tenths, taken, left) in [(10, true, 0), (9, false, 6)] {
        let clock = Late { clock: ManualClock::new(), late: false.into() };
        let queue = Queue::with_clock(Quota::per_second(1).burst(2), clock).unwrap();
        assert!(queue.check_n(2).is_allowed());
        let first = queue.enqueue(1, 60 * SECOND).unwrap();
        queue.clock().clock.advance(SECOND * tenths / 10);
        queue.clock().late.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(first.cancel(), taken);
        assert_eq!(queue.peek().reset_after(), SECOND * left / 10);
    }
}

/// An eviction wipes what was charged for the places of a key; later waiters keep theirs.
#[test]
fn a_place_given_up_after_an_eviction_takes_nothing_from_others() {
    for waits in [false, true] {
        let timer = ManualTimer::new();
        let limiter = limiter(Quota::per_second(1).burst(2), &timer);
        let wait = || limiter.enqueue("key", 1, 60 * SECOND).unwrap();
        assert!(limiter.check_n("key", 2).is_allowed());
        let turns = [wait(), wait()];
        for other in 0_u64.. {
            if limiter.peek("key").remaining() == 2 {
                break;
            }
            let _ = limiter.charge(other, 100);
        }
        assert!(limiter.check_n("key", 2).is_allowed());
        let behind = waits.then(wait);
        drop(turns);
        let left = limiter.peek("key").reset_after();
        assert_eq!(left, SECOND * (2 + u32::from(waits)), "waits: {waits}");
        assert!(behind.is_none_or(|turn| turn.delay() == SECOND));
    }
}

/// Two calls whose start has passed are given up one after the other: the second takes back what is
/// left of the interval that it has then.
#[test]
fn what_a_started_place_covers_moves_with_it() {
    let timer = ManualTimer::new();
    let queue = queue(Quota::per_second(1).burst(3), &timer);
    assert!(queue.check_n(3).is_allowed());
    let [first, second] = [(); 2].map(|()| queue.enqueue(1, 60 * SECOND).unwrap());
    timer.advance(3 * SECOND + SECOND / 2);
    // Half a unit has drained.
    assert!(first.cancel());
    assert_eq!(queue.peek().reset_after(), SECOND);
    assert!(queue.check_n(2).is_allowed());
    timer.advance(SECOND * 7 / 10);
    assert!(second.cancel());
    assert_eq!(queue.peek().reset_after(), 2 * SECOND);
}

/// The debt of others that came after a reset, or what a restore raised, is not taken back.
#[test]
fn a_place_given_up_takes_nothing_from_others() {
    let timer = ManualTimer::new();
    let limiter = limiter(Quota::per_second(1).burst(2), &timer);
    let wait = || limiter.enqueue("key", 1, 60 * SECOND).unwrap();
    assert!(limiter.check_n("key", 2).is_allowed());
    let turns = [wait(), wait()];
    limiter.reset("key");
    assert!(limiter.check_n("key", 2).is_allowed());
    let behind = wait();
    assert_eq!(behind.delay(), SECOND);
    drop(turns);
    assert_eq!(behind.delay(), SECOND);
    assert!(!limiter.check("key").is_allowed());
    let _ = behind.keep();
    limiter.reset("key");
    assert!(limiter.check_n("key", 2).is_allowed());

    let turns = [wait(), wait()];
    limiter.raise_debt("key", 10 * SECOND);
    drop(turns);
    assert_eq!(limiter.peek("key").reset_after(), 10 * SECOND);
    assert_eq!(limiter.waiters(), 0);
}

/// Starts that a caller knows, and has scheduled itself, do not move.
#[test]
fn a_kept_place_is_passed_by_no_waiter() {
    let timer = ManualTimer::new();
    let queue = queue(Quota::per_second(1).burst(1), &timer);
    assert!(queue.check().is_allowed());
    let wait = || queue.enqueue(1, 60 * SECOND).unwrap();
    let [first, second, third, fourth] = [wait(), wait(), wait(), wait()];
    let _ = third.keep();
    assert!(!first.cancel(), "a place that does not move is behind it");
    assert_eq!((second.delay(), fourth.delay()), (SECOND, 4 * SECOND));
    let fifth = wait();
    assert_eq!(fifth.delay(), 5 * SECOND);
    assert!(fourth.cancel());
    assert_eq!(fifth.delay(), 4 * SECOND);
    let _ = (second.keep(), fifth.keep());
}

/// A waker may run any code, also such as gives up another place.
#[test]
fn a_waker_that_drops_another_caller_does_not_lock_up() {
    type Held = Vec<Turn<'static, Limiter<Quota, ManualClock>>>;

    struct Drops(Mutex<Held>);

    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            let turns = std::mem::take(&mut *self.0.lock().unwrap());
            drop(turns);
        }
    }

    let timer: &'static ManualTimer = Box::leak(Box::new(ManualTimer::new()));
    let limiter: &'static _ = Box::leak(Box::new(limiter(Quota::per_second(1).burst(1), timer)));
    assert!(limiter.check("key").is_allowed());
    let wait = || limiter.acquire_on(timer, "key", 1, 60 * SECOND);
    let first = Task::begun(wait());
    let drops = Arc::new(Drops(Mutex::new(Vec::new())));
    let waker = Waker::from(Arc::clone(&drops));
    let mut second = std::pin::pin!(wait());
    let mut context = std::task::Context::from_waker(&waker);
    assert!(second.as_mut().poll(&mut context).is_pending());
    let turn = || limiter.enqueue("key", 1, 60 * SECOND).unwrap();
    drops.0.lock().unwrap().extend([turn(), turn()]);
    drop(first);
    assert!(drops.0.lock().unwrap().is_empty(), "the second was not woken to move up");
    assert_eq!(limiter.waiters(), 1);
}

#[test]
fn a_place_given_up_after_a_change_of_the_quota_lapses() {
    let timer = ManualTimer::new();
    let rule = LiveQuota::new(Quota::per_second(1).burst(1));
    let limiter = Limiter::builder(rule).capacity(10).clock(timer.clock.clone()).build().unwrap();
    assert!(limiter.check("key").is_allowed());
    let wait = || limiter.enqueue("key", 1, 60 * SECOND).unwrap();
    let [first, second, third] = [wait(), wait(), wait()];
    assert!(first.cancel());
    limiter.set_quota(Quota::per_second(2).burst(1), Inheritance::Keep).unwrap();
    assert_eq!((second.delay(), third.delay()), (SECOND, 2 * SECOND));
    assert!(!second.cancel());
    assert_eq!(third.delay(), 2 * SECOND);
    let fourth = wait();
    assert_eq!(fourth.delay(), 3 * SECOND);
    let fifth = wait();
    assert_eq!(fifth.delay(), 3 * SECOND + SECOND / 2);
    assert!(fourth.cancel());
    assert_eq!((third.delay(), fifth.delay()), (2 * SECOND, 3 * SECOND));
    let _ = (third.keep(), fifth.keep());
}

/// An operation on two lines of the same quota.
#[derive(Clone, Copy, Debug)]
enum Step {
    Join(u64, u64),
    GiveUp(usize),
    Keep(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u64..6, 0_u64..30).prop_map(|(cost, wait)| Step::Join(cost, wait)),
        2 => any::<usize>().prop_map(Step::GiveUp),
        1 => any::<usize>().prop_map(Step::Keep),
        2 => (0_u64..9).prop_map(Step::Advance),
    ]
}

/// The result of a step on a line whose turns are `held`.
fn run<'l, L: Line + 'l>(
    held: &RefCell<Vec<Turn<'l, L>>>,
    step: Step,
    join: impl Fn(u64, Duration) -> Result<Turn<'l, L>, Decision>,
) -> (Option<Decision>, Vec<Duration>) {
    let mut held = held.borrow_mut();
    let mut nth = |nth: usize| {
        let index = nth.checked_rem(held.len())?;
        Some(held.remove(index))
    };
    let decision = match step {
        Step::Join(cost, wait) => match join(cost, MILLISECOND * wait as u32) {
            Ok(turn) => {
                let decision = turn.decision();
                held.push(turn);
                Some(decision)
            }
            Err(denied) => Some(denied),
        },
        Step::GiveUp(index) => {
            drop(nth(index));
            None
        }
        Step::Keep(index) => nth(index).map(Turn::keep),
        Step::Advance(_) => None,
    };
    (decision, held.iter().map(Turn::delay).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Grants, starts and denials of a key's line and of a queue are the same, also where a caller
    /// comes too late or too many wait.
    #[test]
    fn a_limiter_and_a_queue_say_the_same(
        burst in 1_u64..5,
        most in 0_u64..6,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let (timer, quota) = (ManualTimer::new(), Quota::per_second(1_000).burst(burst));
        let limiter = Limiter::builder(quota).capacity(10).clock(timer.clock.clone());
        let limiter = limiter.max_waiters(most).build().unwrap();
        let queue = queue(quota, &timer).max_waiters(most);
        let (keyed, keyless) = (RefCell::default(), RefCell::default());
        for step in steps {
            if let Step::Advance(thirds) = step {
                timer.advance(MILLISECOND * thirds as u32 / 3);
            }
            let first = run(&keyed, step, |cost, wait| limiter.enqueue("key", cost, wait));
            let second = run(&keyless, step, |cost, wait| queue.enqueue(cost, wait));
            prop_assert_eq!(first, second);
            prop_assert_eq!(limiter.peek("key"), queue.peek());
            prop_assert_eq!(limiter.waiters(), queue.waiters());
        }
    }
}
