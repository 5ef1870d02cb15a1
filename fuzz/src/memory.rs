//! How much a call allocates: the memory that untrusted bytes can make a decoder take.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes requested since the process began; freed bytes are not subtracted.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// What `call` returns, and the total bytes it requested from the allocator, freed or not. A target
/// runs on one thread, so that is all of it.
pub fn asked<T>(call: impl FnOnce() -> T) -> (T, usize) {
    // Relaxed, here and below: the number guards no other memory.
    let before = ASKED.load(Ordering::Relaxed);
    let value = call();
    (value, ASKED.load(Ordering::Relaxed) - before)
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
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
