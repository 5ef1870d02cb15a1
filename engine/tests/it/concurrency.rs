//! Permits: one by one, in line, and between threads and tasks.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::Concurrency;
use tidegate_engine::concurrency::{MAX_CONCURRENCY, Permit};
use tidegate_engine::wait::{ThreadTimer, Timer};

use crate::waiting::{ManualTimer, Task, block_on};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
enum Operation {
    Try(u64),
    /// A task waits for this many units.
    Wait(u64),
    /// The permit or the task at this place in the list is dropped.
    Return(usize),
    GiveUp(usize),
    Limit(u64),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        3 => (0_u64..5).prop_map(Operation::Try),
        4 => (1_u64..5).prop_map(Operation::Wait),
        4 => any::<usize>().prop_map(Operation::Return),
        2 => any::<usize>().prop_map(Operation::GiveUp),
        1 => (0_u64..8).prop_map(Operation::Limit),
    ];
    prop::collection::vec(operation, 1..200)
}

/// The expected state: units in flight, and the costs of the waiters, in order.
struct Oracle {
    limit: u64,
    in_flight: u64,
    waiting: Vec<(usize, u64)>,
}

impl Oracle {
    /// The next waiter to be answered, and whether it is granted.
    fn next(&mut self) -> Option<(usize, bool)> {
        let &(task, cost) = self.waiting.first()?;
        let fits = cost <= self.limit.saturating_sub(self.in_flight);
        if !fits && cost <= self.limit {
            return None;
        }
        self.waiting.remove(0);
        self.in_flight += if fits { cost } else { 0 };
        Some((task, fits))
    }
}

type Outcome<'p> = Result<Permit<'p>, tidegate_engine::Decision>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Permits and waiters against a list: which are granted, which are denied, and in which order.
    #[test]
    fn permits_go_to_the_waiters_of_the_oracle(limit in 1_u64..6, operations in operations()) {
        let (permits, timer) = (Concurrency::new(limit), ManualTimer::new());
        let mut oracle = Oracle { limit, in_flight: 0, waiting: Vec::new() };
        let mut held: Vec<Permit<'_>> = Vec::new();
        let mut tasks: Vec<(usize, Task<'_, Outcome<'_>>)> = Vec::new();
        for (number, operation) in operations.into_iter().enumerate() {
            match operation {
                Operation::Try(cost) => {
                    let free = oracle.limit.saturating_sub(oracle.in_flight);
                    let fits = cost == 0 || (cost <= free && oracle.waiting.is_empty());
                    let outcome = permits.try_acquire(cost);
                    prop_assert_eq!(outcome.is_ok(), fits);
                    match outcome {
                        Ok(permit) => {
                            let left = permit.decision().remaining();
                            prop_assert_eq!(left, free.saturating_sub(cost));
                            oracle.in_flight += cost;
                            held.push(permit);
                        }
                        Err(denied) => {
                            prop_assert_eq!(denied.retry_after().is_none(), cost > oracle.limit);
                            prop_assert_eq!(denied.remaining(), free);
                        }
                    }
                }
                Operation::Wait(cost) => {
                    let mut task = Task::new(permits.acquire_on(&timer, cost, SECOND));
                    if let Some(outcome) = task.poll() {
                        let free = oracle.limit.saturating_sub(oracle.in_flight);
                        let fits = oracle.waiting.is_empty() && cost <= free;
                        prop_assert_eq!(outcome.is_ok(), fits);
                        prop_assert!(fits || cost > oracle.limit);
                        oracle.in_flight += if fits { cost } else { 0 };
                        held.extend(outcome);
                    } else {
                        oracle.waiting.push((number, cost));
                        tasks.push((number, task));
                    }
                }
                Operation::Return(index) if !held.is_empty() => {
                    let permit = held.swap_remove(index % held.len());
                    oracle.in_flight -= permit.cost();
                    drop(permit);
                }
                Operation::GiveUp(index) if !tasks.is_empty() => {
                    let (number, task) = tasks.remove(index % tasks.len());
                    drop(task);
                    oracle.waiting.retain(|(task, _)| *task != number);
                }
                Operation::Limit(limit) => {
                    oracle.limit = limit;
                    permits.set_limit(limit);
                }
                Operation::Return(_) | Operation::GiveUp(_) => {}
            }
            while let Some((task, granted)) = oracle.next() {
                let index = tasks.iter().position(|(number, _)| *number == task).unwrap();
                let outcome = tasks.remove(index).1.poll_if_woken();
                let outcome = outcome.expect("the next waiter has been woken");
                prop_assert_eq!(outcome.is_ok(), granted);
                held.extend(outcome);
            }
            prop_assert!(tasks.iter().all(|(_, task)| !task.is_woken()));
            prop_assert_eq!(permits.in_flight(), oracle.in_flight);
            prop_assert_eq!(permits.waiters(), oracle.waiting.len() as u64);
        }
        drop((held, tasks));
        prop_assert_eq!((permits.in_flight(), permits.waiters()), (0, 0));
    }
}

#[test]
fn a_decision_states_the_limit_and_what_is_left() {
    let permits = Concurrency::new(5);
    let three = permits.try_acquire(3).unwrap();
    let decision = three.decision();
    assert_eq!((three.cost(), decision.limit(), decision.remaining()), (3, 5, 2));
    assert_eq!(decision.reset_after(), Duration::ZERO);
    let denied = permits.try_acquire(3).unwrap_err();
    assert_eq!((denied.limit(), denied.remaining()), (5, 2));
    assert_eq!(denied.retry_after(), Some(Duration::from_nanos(1)));
    assert_eq!(permits.try_acquire(6).unwrap_err().retry_after(), None);
    assert_eq!(permits.try_acquire(u64::MAX).unwrap_err().retry_after(), None);
    assert!(permits.peek().is_allowed());
    let _two = permits.try_acquire(2).unwrap();
    assert!(!permits.peek().is_allowed());
    assert_eq!(permits.in_flight(), 5);
    assert!(permits.try_acquire(0).is_ok());
    drop(three);
    assert_eq!((permits.in_flight(), permits.peek().remaining()), (2, 3));
}

#[test]
fn a_forgotten_permit_stays_in_flight_and_an_owned_one_comes_back() {
    let permits = Arc::new(Concurrency::new(3));
    permits.try_acquire(1).unwrap().forget();
    let owned = permits.try_acquire_owned(2).unwrap();
    assert_eq!((owned.cost(), owned.decision().remaining(), permits.in_flight()), (2, 0, 3));
    std::thread::spawn(move || drop(owned)).join().unwrap();
    assert_eq!(permits.in_flight(), 1);
    permits.try_acquire_owned(1).unwrap().forget();
    assert_eq!((permits.in_flight(), Arc::strong_count(&permits)), (2, 1));
}

#[test]
fn a_lowered_limit_takes_nothing_back_and_a_raised_one_grants() {
    let permits = Concurrency::new(3);
    let held: Vec<_> = (0..3).map(|_| permits.try_acquire(1).unwrap()).collect();
    permits.set_limit(1);
    assert_eq!((permits.in_flight(), permits.limit(), permits.peek().remaining()), (3, 1, 0));
    let timer = ManualTimer::new();
    let mut one = Task::begun(permits.acquire_on(&timer, 1, SECOND));
    drop(held);
    let one = one.poll_if_woken().unwrap().unwrap();
    let mut two = Task::begun(permits.acquire_on(&timer, 1, SECOND));
    permits.set_limit(2);
    let two = two.poll_if_woken().unwrap().unwrap();
    drop((one, two));
    permits.set_limit(u64::MAX);
    assert_eq!(permits.limit(), MAX_CONCURRENCY);
    let all = permits.try_acquire(MAX_CONCURRENCY).unwrap();
    assert_eq!((permits.in_flight(), all.decision().remaining()), (MAX_CONCURRENCY, 0));
    assert!(permits.try_acquire(1).is_err());
    permits.set_limit(0);
    assert_eq!(permits.try_acquire(1).unwrap_err().retry_after(), None);
}

/// Trap: a waiter for more than the limit waits for ever, also when the limit falls while it waits.
#[test]
fn a_waiter_for_more_than_the_limit_is_denied_and_blocks_no_other() {
    let (permits, timer) = (Concurrency::new(3), ManualTimer::new());
    let one = permits.try_acquire(2).unwrap();
    assert!(Task::new(permits.acquire_on(&timer, 4, SECOND)).poll().unwrap().is_err());
    let mut three = Task::begun(permits.acquire_on(&timer, 3, SECOND));
    let mut two = Task::begun(permits.acquire_on(&timer, 2, SECOND));
    permits.set_limit(2);
    assert_eq!(three.poll_if_woken().unwrap().unwrap_err().retry_after(), None);
    drop(one);
    assert!(two.poll_if_woken().unwrap().is_ok());
}

#[test]
fn no_caller_passes_a_waiter() {
    let (permits, timer) = (Concurrency::new(3), ManualTimer::new());
    let held = permits.try_acquire(1).unwrap();
    let mut large = Task::begun(permits.acquire_on(&timer, 3, SECOND));
    let mut small = Task::begun(permits.acquire_on(&timer, 1, SECOND));
    assert!(
        permits.try_acquire(1).is_err(),
        "two units are free, but reserved for the first waiter"
    );
    assert!(!permits.peek().is_allowed());
    drop(held);
    assert!(!small.is_woken());
    drop(large.poll_if_woken().unwrap());
    assert!(small.poll_if_woken().unwrap().is_ok());
}

/// A future is dropped at each possible point.
#[test]
fn trap_waiters_freeze_on_cancel() {
    let (permits, timer) = (Concurrency::new(1), ManualTimer::new());
    let acquire = || permits.acquire_on(&timer, 1, SECOND);
    drop(Task::new(acquire()));
    drop(Task::new(acquire()).poll());
    assert_eq!(permits.in_flight(), 0);

    let held = permits.try_acquire(1).unwrap();
    let waiting = Task::begun(acquire());
    let granted = Task::begun(acquire());
    let mut last = Task::begun(acquire());
    drop(waiting);
    assert_eq!((permits.waiters(), timer.sleeping()), (2, 2));
    drop(held);
    assert!(granted.is_woken() && !last.is_woken());
    drop(granted);
    let permit = last.poll_if_woken().unwrap().unwrap();
    assert_eq!((permits.in_flight(), permits.waiters()), (1, 0));
    drop(permit);
    assert_eq!((permits.in_flight(), timer.sleeping()), (0, 0));
}

#[test]
fn a_waiter_at_its_deadline_is_denied_unless_it_was_just_granted() {
    let (permits, timer) = (Concurrency::new(1), ManualTimer::new());
    let held = permits.try_acquire(1).unwrap();
    let mut waiting = Task::begun(permits.acquire_on(&timer, 1, SECOND));
    timer.advance(Duration::from_nanos(999_999_999));
    assert!(!waiting.is_woken());
    timer.advance(Duration::from_nanos(1));
    assert!(waiting.poll_if_woken().unwrap().unwrap_err().retry_after().is_some());
    let mut waiting = Task::begun(permits.acquire_on(&timer, 1, SECOND));
    timer.advance(SECOND);
    drop(held);
    assert!(waiting.poll_if_woken().unwrap().is_ok());
    assert_eq!(permits.waiters(), 0);
}

/// Never wakes, and keeps no waker.
struct Never;

impl Timer for Never {
    type Sleep = std::future::Pending<()>;

    fn sleep(&self, _: Duration) -> std::future::Pending<()> {
        std::future::pending()
    }
}

/// Calls back into the limit when the last of its wakers is dropped, like a waker that keeps a task
/// alive.
struct Reentrant(Arc<Concurrency>);

impl Wake for Reentrant {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Reentrant {
    fn drop(&mut self) {
        self.0.set_limit(1);
    }
}

#[test]
fn a_waker_that_comes_back_when_it_is_dropped_meets_no_lock() {
    let permits = Arc::new(Concurrency::new(1));
    let reentrant = || Waker::from(Arc::new(Reentrant(Arc::clone(&permits))));
    let _held = permits.try_acquire(1).unwrap();
    let timer = ManualTimer::new();
    let _other = Task::begun(permits.acquire_on(&timer, 1, SECOND));
    let mut left = Box::pin(permits.acquire_on(&Never, 1, SECOND));
    let mut poll = |waker: Waker| left.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(poll(reentrant()).is_pending());
    assert!(poll(reentrant()).is_pending());
    drop(left);
    assert_eq!(permits.waiters(), 1);
}

/// A waker whose clones call back into the limit while they are made: `data` is a leaked
/// `Concurrency`.
static RETURNS_WHEN_CLONED: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: `returns_when_cloned` made it of a reference that is valid for ever.
        let permits = unsafe { &*data.cast::<Concurrency>() };
        permits.set_limit(permits.limit());
        RawWaker::new(data, &RETURNS_WHEN_CLONED)
    },
    |_| (),
    |_| (),
    |_| (),
);

fn returns_when_cloned(permits: &'static Concurrency) -> Waker {
    // SAFETY: the functions of the table only read data that is valid for ever and `Sync`.
    unsafe { Waker::new(ptr::from_ref(permits).cast(), &RETURNS_WHEN_CLONED) }
}

#[test]
fn a_waker_that_comes_back_when_it_is_cloned_meets_no_lock() {
    let permits: &'static Concurrency = Box::leak(Box::new(Concurrency::new(1)));
    let held = permits.try_acquire(1).unwrap();
    let mut waiting = Box::pin(permits.acquire_on(&Never, 1, SECOND));
    let mut poll = |waker: &Waker| waiting.as_mut().poll(&mut Context::from_waker(waker));
    assert!(poll(&returns_when_cloned(permits)).is_pending());
    assert!(poll(Waker::noop()).is_pending());
    assert!(poll(&returns_when_cloned(permits)).is_pending());
    drop(held);
    assert!(poll(Waker::noop()).is_ready());
}

/// A waiter that is not polled does not time out: it stays in line until it is dropped.
#[test]
fn a_future_that_is_polled_once_keeps_its_place_until_it_is_dropped() {
    let (permits, timer) = (Concurrency::new(1), ManualTimer::new());
    let held = permits.try_acquire(1).unwrap();
    let idle = Task::begun(permits.acquire_on(&timer, 1, SECOND));
    let mut behind = Task::begun(permits.acquire_on(&timer, 1, 60 * SECOND));
    timer.advance(2 * SECOND);
    drop(held);
    assert!(idle.is_woken() && !behind.is_woken());
    drop(idle);
    assert!(behind.poll_if_woken().unwrap().is_ok());
}

#[test]
fn as_many_wait_as_may_and_none_without_a_timeout() {
    let (permits, timer) = (Concurrency::new(1).max_waiters(1), ManualTimer::new());
    let _held = permits.try_acquire(1).unwrap();
    let acquire = |wait| permits.acquire_on(&timer, 1, wait);
    assert!(Task::new(acquire(Duration::ZERO)).poll().unwrap().is_err());
    assert!(permits.acquire_blocking(1, Duration::ZERO).is_err());
    let first = Task::begun(acquire(SECOND));
    assert_eq!(permits.waiters(), 1);
    assert!(Task::new(acquire(SECOND)).poll().unwrap().is_err());
    drop(first);
    let _second = Task::begun(acquire(SECOND));
}

/// Never more in flight than the limit, and none is lost, however they are acquired.
#[test]
fn threads_never_hold_more_than_the_limit() {
    const LIMIT: u64 = 3;
    const ROUNDS: u64 = 3_000;
    let (permits, in_flight) = (Concurrency::new(LIMIT), AtomicU64::new(0));
    let hold = |permit: Permit<'_>| {
        let now = in_flight.fetch_add(permit.cost(), Ordering::SeqCst) + permit.cost();
        assert!(now <= LIMIT, "{now} in flight");
        std::thread::yield_now();
        in_flight.fetch_sub(permit.cost(), Ordering::SeqCst);
    };
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let (permits, hold) = (&permits, &hold);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let cost = 1 + (thread + round) % LIMIT;
                    match (thread + round) % 4 {
                        0 => drop(permits.try_acquire(cost).map(hold)),
                        1 => hold(permits.acquire_blocking(cost, 60 * SECOND).unwrap()),
                        2 => hold(block_on(permits.acquire(cost, 60 * SECOND)).unwrap()),
                        _ => drop(Task::new(permits.acquire_on(&ThreadTimer, 1, SECOND)).poll()),
                    }
                }
            });
        }
    });
    assert_eq!((permits.in_flight(), permits.waiters()), (0, 0));
    assert!(permits.try_acquire(LIMIT).is_ok());
}

struct Tokio;

impl Timer for Tokio {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(duration)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_tokio_take_turns() {
    let permits = Arc::new(Concurrency::new(2));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let permits = Arc::clone(&permits);
            tokio::spawn(async move {
                let permit = permits.acquire_on(&Tokio, 1, 60 * SECOND).await.unwrap();
                tokio::task::yield_now().await;
                drop(permit);
                let both = permits.acquire_owned(2, 60 * SECOND).await.unwrap();
                tokio::task::yield_now().await;
                drop(both);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((permits.in_flight(), permits.waiters()), (0, 0));
}
