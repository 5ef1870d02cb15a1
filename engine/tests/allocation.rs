//! A check allocates nothing, whatever its result.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tidegate_engine::{Limiter, ManualClock, Quota};

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
