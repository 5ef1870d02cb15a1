//! The documented sizes of limiters without keys, which are those of x86-64.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::time::Duration;

use tidegate_engine::clock::TscClock;
use tidegate_engine::counter::{ShardedCounter, SubWindowCounter};
use tidegate_engine::{Concurrency, Queue};

const MINUTE: Duration = Duration::from_mins(1);

#[test]
fn a_queue_is_as_large_as_documented() {
    assert_eq!(size_of::<Queue>(), 640);
}

#[test]
fn a_limit_of_permits_is_as_large_as_documented() {
    assert_eq!(size_of::<Concurrency>(), 512);
}

#[test]
fn counters_are_as_large_as_documented() {
    for sub_windows in [1, 60, 1024] {
        let row = 16 * (sub_windows as usize + 1);
        let counter =
            SubWindowCounter::with_sub_windows(1_000, MINUTE, sub_windows, TscClock::new());
        assert_eq!(counter.unwrap().memory_bytes(), row + 640);
        for shards in [1, 4] {
            let builder = ShardedCounter::builder(1_000, MINUTE).sub_windows(sub_windows);
            let counter = builder.shards(shards).build().unwrap();
            assert_eq!(counter.memory_bytes(), row + 128 * shards + 768);
        }
    }
}
