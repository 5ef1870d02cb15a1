//! loom models of places in line: every interleaving, except where a model states a bound.
//!
//! The clock is stopped and an emission interval is 1 s, so a start is a number of seconds.

use core::time::Duration;

use loom::sync::Arc;
use loom::thread;

use crate::direct::queue::Queue;
use crate::explore::explore;
use crate::rule::quota::Quota;
use crate::time::{Clock as _, ManualClock, Timestamp};

use super::{Turn, Waiters};

/// Preemptions per run with three threads.
const TRIO: usize = 3;

const PATIENCE: Duration = Duration::from_secs(10);

fn queue() -> Arc<Queue<ManualClock>> {
    let clock = ManualClock::new();
    clock.set(Timestamp::ORIGIN.saturating_add(Duration::from_secs(100)));
    Arc::new(Queue::with_clock(Quota::per_second(1).burst(1), clock).unwrap())
}

fn wait(turn: &Turn<'_, Queue<ManualClock>>) -> u64 {
    turn.delay().as_secs()
}

/// Takes a place and keeps it; returns the wait.
fn join(queue: &Queue<ManualClock>) -> u64 {
    let start = queue.enqueue(1, PATIENCE).unwrap().schedule();
    start.since(queue.clock().now()).as_secs()
}

/// Three threads take places: the starts are 0, 1 and 2 s away. Within 3 preemptions per run.
#[test]
fn a_start_is_given_once() {
    explore(Some(TRIO), || {
        let queue = queue();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || join(&queue))
            })
            .collect();
        let mut starts = vec![join(&queue)];
        starts.extend(others.into_iter().map(|other| other.join().unwrap()));
        starts.sort_unstable();
        assert_eq!(starts, [0, 1, 2]);
    });
}

/// A thread gives up its place while two take one: kept places have different starts, and the place
/// is taken back or lapses, never both. Within 3 preemptions per run.
#[test]
fn a_place_given_up_goes_to_one_or_lapses() {
    explore(Some(TRIO), || {
        let queue = queue();
        let quitter = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.enqueue(1, PATIENCE).unwrap().cancel())
        };
        let other = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || join(&queue))
        };
        let first = join(&queue);
        let second = other.join().unwrap();
        let given_back = quitter.join().unwrap();
        assert_ne!(first, second);
        let next = queue.enqueue(1, PATIENCE).unwrap();
        assert_eq!(wait(&next), if given_back { 2 } else { 3 });
    });
}

/// Two threads give up their places concurrently: each takes back its own charge or none, and what
/// is left in line is what lapsed.
#[test]
fn two_waiters_that_give_up_take_back_no_more_than_they_charged() {
    explore(None, || {
        let queue = queue();
        let _ = queue.enqueue(1, PATIENCE).unwrap().keep();
        let other = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.enqueue(1, PATIENCE).unwrap().cancel())
        };
        let mine = queue.enqueue(1, PATIENCE).unwrap().cancel();
        let lapsed = u64::from(!mine) + u64::from(!other.join().unwrap());
        assert_eq!(wait(&queue.enqueue(1, PATIENCE).unwrap()), 1 + lapsed);
    });
}

/// Two threads try for the last place: one gets it, and it is free again afterwards.
#[test]
fn the_last_place_is_taken_once() {
    explore(None, || {
        let waiters: &'static Waiters = Box::leak(Box::new(Waiters::new(2)));
        let first = waiters.enter();
        let other = thread::spawn(|| waiters.enter());
        let mine = waiters.enter();
        let places = [first, mine, other.join().unwrap()];
        assert_eq!(places.iter().flatten().count(), 2);
        assert_eq!(waiters.count(), 2);
        drop(places);
        assert_eq!(waiters.count(), 0);
    });
}
