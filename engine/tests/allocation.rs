//! What a limiter allocates: little when it is built for few keys, and nothing in a check.
#![allow(clippy::incompatible_msrv, reason = "tests are built with the workspace's Rust")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tidegate_engine::{Limiter, ManualClock, Quota};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static ALLOCATED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting each thread's allocations and their bytes.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing, since
// the thread-local is a constant without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        ALLOCATED_BYTES.set(ALLOCATED_BYTES.get() + layout.size());
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

#[test]
fn a_limiter_for_64_keys_takes_at_most_8_kib() {
    let build = || Limiter::builder(Quota::per_second(10)).capacity(64).build().unwrap();
    drop(build()); // the first of a process also calibrates its clock
    let before = ALLOCATED_BYTES.get();
    let limiter = Box::new(build());
    let bytes = ALLOCATED_BYTES.get() - before;
    println!("{bytes} bytes, {} of them for keys", limiter.memory_bytes());
    assert!(bytes <= 8 * 1024, "{bytes} bytes");
    assert!(limiter.memory_bytes() < bytes && limiter.capacity() >= 64);
}

#[test]
fn a_check_with_leases_allocates_nothing() {
    let quota = Quota::per_hour(100_000);
    let limiter =
        Limiter::builder(quota).lease_units(64).clock(ManualClock::new()).build().unwrap();
    assert!(limiter.lease_units() > 0);
    let before = ALLOCATIONS.get();
    let mut admitted = 0;
    for round in 0..300_000_u64 {
        admitted += u64::from(limiter.check(round % 2).is_allowed());
        if round.is_multiple_of(10_000) {
            limiter.return_leases();
        }
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert_eq!(admitted, 200_000);
}

#[test]
fn a_check_allocates_nothing() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Quota::per_hour(2)).capacity(1).clock(clock).build().unwrap();
    let inline = Quota::per_minute(7);
    let before = ALLOCATIONS.get();
    let mut denied = 0;
    // More keys than the table has room for, so slots are claimed and live keys evicted too.
    for key in 0..100_000_u64 {
        for _ in 0..3 {
            denied += u64::from(!limiter.check(key).is_allowed());
        }
        assert!(limiter.check_with("one key for all", 0, &inline).is_ok());
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(denied > 0 && limiter.evicted() > 0);
    drop(vec![denied]);
    assert_eq!(ALLOCATIONS.get() - before, 1, "the count counts");
}
