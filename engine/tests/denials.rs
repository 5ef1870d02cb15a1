//! A denial writes nothing: the memory of a limiter that denies can be read-only.
#![allow(clippy::incompatible_msrv, reason = "tests are built with the workspace's Rust")]
#![cfg(target_os = "linux")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::without_provenance_mut;

use tidegate_engine::{
    DirectLimiter, FixedWindow, Limiter, ManualClock, Quota, Rule, SlidingWindow,
};

/// Large enough to distinguish it from other allocations, with whole pages that belong to the table
/// alone.
const CAPACITY: usize = 200_000;

thread_local! {
    /// This thread's last zeroed allocation for a table.
    static TABLE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// The system's allocator, recording where tables are.
struct Noting;

// SAFETY: every call goes to the system's allocator unchanged; recording allocates nothing, since
// the thread-local is a constant without a destructor.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if layout.size() >= CAPACITY * size_of::<u64>() {
            TABLE.set((memory.addr(), layout.size()));
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static NOTING: Noting = Noting;

/// Begins at a page boundary for any page size of Linux, and occupies whole pages.
#[repr(align(65536))]
struct Paged<T>(T);

fn page_bytes() -> usize {
    // SAFETY: the call only returns a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("pages have a size")
}

/// Whole pages that are read-only while this exists: a write to them ends the process.
struct ReadOnly {
    first: usize,
    bytes: usize,
}

impl ReadOnly {
    /// The whole pages in `bytes` bytes from `first`.
    fn within(first: usize, bytes: usize) -> Self {
        let page = page_bytes();
        let end = (first + bytes) / page * page;
        let first = first.next_multiple_of(page);
        assert!(first < end, "no whole page");
        let pages = Self { first, bytes: end - first };
        pages.protect(libc::PROT_READ);
        pages
    }

    fn protect(&self, protection: i32) {
        // SAFETY: the pages are mapped and belong to the test, which does not write to them while
        // they are read-only.
        let result =
            unsafe { libc::mprotect(without_provenance_mut(self.first), self.bytes, protection) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        self.protect(libc::PROT_READ | libc::PROT_WRITE);
    }
}

/// Exhausts a limit, and is denied while its memory is read-only.
fn is_denied_read_only<R: Rule>(rule: R) {
    const KEYS: u64 = 1_000;
    let limiter = Limiter::builder(rule).capacity(CAPACITY).clock(ManualClock::new()).build();
    let limiter = Box::new(Paged(limiter.expect("a valid rule")));
    let (first, bytes) = TABLE.take();
    let keys: Vec<u64> = (0..KEYS).collect();
    for key in &keys {
        while limiter.0.check(key).is_allowed() {}
    }

    let table = ReadOnly::within(first, bytes);
    let limiter_pages = ReadOnly::within((&raw const *limiter).addr(), size_of_val(&*limiter));
    let mut denied = 0;
    for _ in 0..300 {
        for key in &keys {
            denied += u64::from(!limiter.0.check(key).is_allowed());
            assert_eq!(limiter.0.peek(key).remaining(), 0);
        }
    }
    let mut decisions = Vec::new();
    limiter.0.check_many(&keys, &mut decisions);
    denied += decisions.iter().filter(|decision| !decision.is_allowed()).count() as u64;
    drop((table, limiter_pages));
    assert_eq!(denied, 301 * KEYS);
}

#[test]
fn a_denied_check_writes_nothing() {
    is_denied_read_only(Quota::per_hour(3));
    is_denied_read_only(Quota::per_hour(100).burst(2));
    is_denied_read_only(FixedWindow::per_hour(3));
    is_denied_read_only(SlidingWindow::per_hour(3));
}

#[test]
fn a_denied_check_of_one_limit_writes_nothing() {
    let single = DirectLimiter::builder(Quota::per_hour(3)).clock(ManualClock::new()).build();
    let single = Box::new(Paged(single.expect("a valid quota")));
    while single.0.check().is_allowed() {}
    let pages = ReadOnly::within((&raw const *single).addr(), size_of_val(&*single));
    let denied = (0..1_000).filter(|_| !single.0.check().is_allowed()).count();
    drop(pages);
    assert_eq!(denied, 1_000);
}
