//! Mistakes that rate limiters have made with concurrent threads or many keys, each as a test.

use std::collections::HashSet;
use std::sync::Barrier;

use tidegate_engine::{Limiter, ManualClock, Quota};

/// More threads than cores, so that threads are preempted at any point. That needs enough work per
/// thread, more than a few thousand checks.
const THREADS: usize = 8;

fn limiter(quota: Quota) -> Limiter<Quota, ManualClock> {
    Limiter::builder(quota).capacity(1_000).clock(ManualClock::new()).build().unwrap()
}

/// The sum of what `act` returns on each of [`THREADS`] threads that start together.
fn together(act: impl Fn(usize) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(THREADS);
    let (act, barrier) = (&act, &barrier);
    let run = |thread| {
        barrier.wait();
        act(thread)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// Reading and charging in two steps admits once for each thread that read.
#[test]
fn trap_check_then_update() {
    const BURST: u64 = 2_000_000;
    for round in 0..3_u64 {
        let limiter = limiter(Quota::per_hour(BURST));
        let admitted = together(|_| {
            let allowed = |_: &u64| limiter.check(round).is_allowed();
            (0..2 * BURST / THREADS as u64).filter(allowed).count() as u64
        });
        assert_eq!(admitted, BURST);
    }
}

/// State in two words that are updated apart denies what fits, or never recovers.
#[test]
fn trap_two_words_updated_apart() {
    const EACH: u64 = 200_000;
    for round in 0..3_u64 {
        let limiter = limiter(Quota::per_hour(EACH * THREADS as u64));
        let denied = together(|_| {
            let denied = |_: &u64| !limiter.check(round).is_allowed();
            (0..EACH).filter(denied).count() as u64
        });
        assert_eq!(denied, 0);
        assert_eq!(limiter.peek(round).remaining(), 0);
    }
}

/// A compare-and-swap with bounded retries turns contention into an error or a denial. Here every
/// check of every thread contends for the same word, charges and gives back.
#[test]
fn trap_cas_retries_run_out() {
    const EACH: u64 = 500_000;
    let limiter = limiter(Quota::per_hour(THREADS as u64));
    let denied = together(|_| {
        let mut denied = 0;
        for _ in 0..EACH {
            // Each thread holds at most one unit at any time, so there is always room for one.
            denied += u64::from(!limiter.check("hot").is_allowed());
            limiter.refund("hot", 1);
        }
        denied
    });
    assert_eq!(denied, 0);
    assert_eq!(limiter.peek("hot").remaining(), THREADS as u64);
}

/// A key that is too long to be stored is still limited, and separately from similar keys.
#[test]
fn trap_over_long_key_silently_unlimited() {
    const LONG: usize = 1 << 20;
    let limiter = limiter(Quota::per_hour(2));
    let keys: Vec<_> = ["a", "b"].map(|end| "x".repeat(LONG) + end).to_vec();
    for key in &keys {
        let admitted = (0..5).filter(|_| limiter.check(key).is_allowed()).count();
        assert_eq!(admitted, 2);
    }
    let hashes: HashSet<_> = [0, 1, 7, 8, 16, 17, 255, 256, 65_535, 65_536, LONG]
        .into_iter()
        .map(|length| limiter.hash("x".repeat(length)))
        .collect();
    assert_eq!(hashes.len(), 11);
}

/// Keys that come once are live or were evicted: none is kept elsewhere. `allocation.rs` shows that
/// they allocate nothing.
#[test]
fn trap_unbounded_map_under_key_spray() {
    let limiter = limiter(Quota::per_hour(5));
    let capacity = limiter.capacity() as u64;
    for key in 0..capacity * 10 {
        assert!(limiter.check(key).is_allowed());
    }
    let live = limiter.live().count() as u64;
    assert!(live <= 2 * capacity, "{live}");
    assert_eq!(limiter.evicted() + live, capacity * 10);
}
