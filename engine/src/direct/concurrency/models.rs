//! loom models of permits: every interleaving, except where a model states a bound.

use core::task::{Poll, Waker};
use core::time::Duration;
use std::task::Wake;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::explore::explore;

use super::line::Waiting;
use super::{Concurrency, Joined, Permit};

/// Preemptions per run with three threads.
const TRIO: usize = 3;

const PATIENCE: Duration = Duration::from_secs(1);

/// A waker that counts its wakes.
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counter() -> (std::sync::Arc<Counter>, Waker) {
    let counter = std::sync::Arc::new(Counter(AtomicUsize::new(0)));
    (std::sync::Arc::clone(&counter), Waker::from(counter))
}

/// What a permit protects: loom detects concurrent accesses, and accesses that do not see an
/// earlier one.
struct World {
    permits: Concurrency,
    protected: UnsafeCell<u64>,
}

// SAFETY: what is protected is reached only through the single permit.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self { permits: Concurrency::new(1), protected: UnsafeCell::new(0) })
    }

    fn use_up(&self, permit: Permit<'_>) {
        // SAFETY: the holder of the only permit has exclusive access, which the models show.
        self.protected.with_mut(|count| unsafe { *count += 1 });
        drop(permit);
    }

    /// Uses the permit if it is free; returns whether it was.
    fn attempt(&self) -> bool {
        self.permits.try_acquire(1).map(|permit| self.use_up(permit)).is_ok()
    }

    /// Waits for the permit like a task: polls, and polls again once woken.
    fn wait(&self) {
        let mut waiting = match self.permits.join(1, PATIENCE).unwrap() {
            Joined::Granted(permit) => return self.use_up(permit),
            Joined::Waiting(waiting) => waiting,
        };
        let (wakes, waker) = counter();
        loop {
            if let Poll::Ready(permit) = waiting.poll(&waker) {
                return self.use_up(permit.unwrap());
            }
            while wakes.0.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
        }
    }

    fn done(&self, used: u64) {
        assert_eq!((self.permits.in_flight(), self.permits.waiters()), (0, 0));
        assert!(!self.permits.load().has_waiters());
        let permit = self.permits.try_acquire(1).unwrap();
        // SAFETY: as in `use_up`.
        self.protected.with(|count| assert_eq!(unsafe { *count }, used));
        drop(permit);
    }
}

fn spawn<T: 'static>(
    world: &Arc<World>,
    act: impl FnOnce(&World) -> T + 'static,
) -> thread::JoinHandle<T> {
    let world = Arc::clone(world);
    thread::spawn(move || act(&world))
}

fn waiting(permits: &Concurrency) -> Waiting<'_> {
    match permits.join(1, PATIENCE).unwrap() {
        Joined::Waiting(waiting) => waiting,
        Joined::Granted(_) => unreachable!("there is no permit"),
    }
}

/// Three threads try for one permit: never two hold it, and it is not lost. Within 3 preemptions
/// per run.
#[test]
fn one_permit_has_one_holder() {
    explore(Some(TRIO), || {
        let world = World::new();
        let others = [spawn(&world, World::attempt), spawn(&world, World::attempt)];
        let mut used = u64::from(world.attempt());
        for other in others {
            used += u64::from(other.join().unwrap());
        }
        assert!(used > 0);
        world.done(used);
    });
}

/// A permit is returned while another thread joins the list: the waiter gets it.
#[test]
fn a_waiter_sees_what_comes_back_meanwhile() {
    explore(None, || {
        let world = World::new();
        let other = spawn(&world, World::wait);
        let mine = u64::from(world.attempt());
        other.join().unwrap();
        world.done(1 + mine);
    });
}

/// Two threads wait for a permit that a third returns: each gets it. Within 3 preemptions per run.
#[test]
fn a_permit_from_a_waiter_is_handed_on() {
    explore(Some(TRIO), || {
        let world = World::new();
        let permit = world.permits.try_acquire(1).unwrap();
        let others = [spawn(&world, World::wait), spawn(&world, World::wait)];
        world.use_up(permit);
        for other in others {
            other.join().unwrap();
        }
        world.done(3);
    });
}

/// A waiter gives up while a permit is returned: it goes to the next waiter.
#[test]
fn a_waiter_that_gives_up_hands_on_what_was_granted() {
    explore(None, || {
        let world = World::new();
        let permit = world.permits.try_acquire(1).unwrap();
        let mut first = waiting(&world.permits);
        assert!(first.poll(Waker::noop()).is_pending());
        let mut second = waiting(&world.permits);
        let (wakes, waker) = counter();
        assert!(second.poll(&waker).is_pending());
        permit.forget();
        let other = spawn(&world, |world| world.permits.give_back(1));
        drop(first);
        other.join().unwrap();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        let Poll::Ready(Ok(permit)) = second.poll(&waker) else { panic!("the permit is lost") };
        drop((permit, second));
        world.done(0);
    });
}

/// A waiter times out while the permit is returned: the waiter gets it or it is free.
#[test]
fn a_waiter_that_gives_up_too_late_has_the_permit_or_frees_it() {
    explore(None, || {
        let world = World::new();
        world.permits.try_acquire(1).unwrap().forget();
        let mut waiting = waiting(&world.permits);
        assert!(waiting.poll(Waker::noop()).is_pending());
        let other = spawn(&world, |world| world.permits.give_back(1));
        let used = waiting.give_up().map(|permit| world.use_up(permit));
        other.join().unwrap();
        world.done(u64::from(used.is_ok()));
    });
}

/// A permit is returned while its only waiter leaves and a third thread tries for it: what its
/// holder did is visible, whichever way it is returned. Within 3 preemptions per run.
#[test]
fn a_return_that_meets_a_leaving_waiter_is_seen_whole() {
    explore(Some(TRIO), || {
        let world = World::new();
        let permit = world.permits.try_acquire(1).unwrap();
        let quitter = spawn(&world, |world| {
            if let Joined::Waiting(mut waiting) = world.permits.join(1, PATIENCE).unwrap() {
                drop(waiting.poll(Waker::noop()));
            }
        });
        let other = spawn(&world, World::attempt);
        world.use_up(permit);
        quitter.join().unwrap();
        let used = 1 + u64::from(other.join().unwrap());
        world.done(used);
    });
}

/// The limit is raised while a thread joins the list: the waiter gets a permit.
#[test]
fn a_waiter_sees_a_limit_that_is_raised_meanwhile() {
    explore(None, || {
        let world = World::new();
        let permit = world.permits.try_acquire(1).unwrap();
        let other = spawn(&world, |world| world.permits.set_limit(2));
        if let Joined::Waiting(mut second) = world.permits.join(1, PATIENCE).unwrap() {
            let first = second.poll(Waker::noop());
            other.join().unwrap();
            assert!(first.is_ready() || second.poll(Waker::noop()).is_ready());
        } else {
            other.join().unwrap();
        }
        drop(permit);
        world.done(0);
    });
}
