//! What recording allocates: nothing, once a thread has its table.
#![allow(clippy::incompatible_msrv, reason = "tests are built with the workspace's Rust")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use tidegate_cluster::{Cluster, Config, Secret};
use tidegate_engine::Quota;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting each thread's allocations.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing, since
// the thread-local is a constant without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Fewer than a thread's table has slots, as the driver may not run until the test ends.
const KEYS: u64 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn checks_and_refunds_of_a_cluster_allocate_nothing() {
    let secret = Secret::from_bytes(b"a secret of the tests of memory").unwrap();
    let config = Config::new("127.0.0.1:0".parse().unwrap(), secret);
    let cluster = Cluster::start(config).await.unwrap();
    let limit = cluster.limit("api", Quota::per_day(100)).unwrap();
    assert!(limit.check("the first of this thread").is_allowed());
    let before = ALLOCATIONS.get();
    for key in 0..KEYS {
        // Used once, used again, and given back.
        assert!(limit.check(key).is_allowed());
        assert!(key % 2 == 0 || limit.check_n(key, 2).is_allowed());
        limit.refund(key, key % 3);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    cluster.leave(Duration::from_secs(1)).await;
}
