//! Waiting for a key's turn on running clocks: on tokio, on a minimal executor and on threads.

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::clock::Timestamp;
use tidegate_engine::wait::{ThreadTimer, Timer};
use tidegate_engine::{Clock, Limiter, Quota};

use crate::waiting::block_on;

const SECOND: Duration = Duration::from_secs(1);

/// Each acquires on a running clock, and checks that its start has come.
async fn wait_three_times<C: Clock>(limiter: &Limiter<Quota, C>, timer: &impl Timer) {
    for _ in 0..3 {
        let turn = limiter.enqueue("key", 1, 60 * SECOND).unwrap();
        let start = turn.start();
        assert!(turn.wait_on(timer).await.is_allowed());
        assert!(limiter.clock().now() >= start);
    }
}

struct Tokio;

impl Timer for Tokio {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(duration)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_tokio_wait_by_its_timers() {
    let limiter = Limiter::builder(Quota::per_second(500).burst(1)).capacity(100).build().unwrap();
    let limiter = Arc::new(limiter);
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move { wait_three_times(&limiter, &Tokio).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(limiter.waiters(), 0);
}

#[tokio::test]
async fn a_timeout_of_tokio_gives_up_the_place() {
    let limiter = Limiter::builder(Quota::per_hour(1)).capacity(100).build().unwrap();
    assert!(limiter.check("key").is_allowed());
    let patience = Duration::from_hours(2);
    let acquire = limiter.acquire_on(&Tokio, "key", 1, patience);
    assert!(tokio::time::timeout(Duration::from_millis(5), acquire).await.is_err());
    assert_eq!(limiter.waiters(), 0);
    assert!(limiter.peek("key").reset_after() <= Duration::from_hours(1));
}

#[test]
fn any_executor_waits_by_the_timer_thread() {
    let limiter = Limiter::builder(Quota::per_second(500).burst(1)).capacity(100).build().unwrap();
    block_on(wait_three_times(&limiter, &ThreadTimer));
    assert!(block_on(limiter.acquire("key", 1, SECOND)).is_allowed());
}

/// Starts of threads that wait, with others that check: together they keep the quota.
#[test]
fn threads_that_wait_and_threads_that_check_keep_the_quota() {
    const CALLS: usize = 300;
    let interval = Duration::from_micros(20);
    let limiter = Limiter::builder(Quota::new(1, interval).burst(1)).capacity(100).build().unwrap();
    let wait = || {
        let mut starts = Vec::new();
        for call in 0..CALLS {
            let turn = limiter.enqueue("key", 1, 60 * SECOND).unwrap();
            if call % 3 == 0 {
                turn.cancel();
                continue;
            }
            // Calls before it give up their places meanwhile.
            while !turn.delay().is_zero() {
                std::thread::sleep(turn.delay());
            }
            starts.push(turn.start());
            assert!(turn.block().is_allowed());
        }
        starts
    };
    let check = || {
        let mut starts = Vec::new();
        for _ in 0..CALLS * 10 {
            let now = limiter.clock().now();
            if limiter.check_at("key", 1, now).is_allowed() {
                starts.push(now);
            }
        }
        starts
    };
    let mut starts: Vec<Timestamp> = std::thread::scope(|scope| {
        let mut threads: Vec<_> = (0..4).map(|_| scope.spawn(wait)).collect();
        threads.push(scope.spawn(check));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    starts.sort_unstable();
    for pair in starts.windows(2) {
        assert!(pair[1].since(pair[0]) >= interval, "{pair:?}");
    }
}
