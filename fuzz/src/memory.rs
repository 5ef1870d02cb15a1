//! How much a call allocates: what bytes from outside can make a decoder take.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes asked for since the process began; what was given back is not taken off.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// What `call` returns, and the sum of the bytes it asked the allocator for, given back or not. A
/// target runs on one thread, so that is all of it.
pub fn asked<T>(call: impl FnOnce() -> T) -> (T, usize) {
    // Relaxed, here and below: the number guards nothing else.
    let before = ASKED.load(Ordering::Relaxed);
    let value = call();
    (value, ASKED.load(Ordering::Relaxed) - before)
}

struct Counting;

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the same promises to this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.fetch_add(size.saturating_sub(layout.size()), Ordering::Relaxed);
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(block, layout) }
    }
}
