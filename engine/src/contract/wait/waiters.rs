//! The number of waiters, and the shortest burst tolerance under which any has waited.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | W1 count, all accesses | relaxed | none: it guards no memory, and a read-modify-write never exceeds the bound | - | `one-more-waits` |
//! | W2 least tolerance, all accesses | relaxed | a thread that finds a place in a key's word, by an acquire load, also finds its tolerance: it is lowered, or found as low, before the release exchange that makes the place, and never rises | - | `waiter-not-remembered` |

use crossbeam_utils::CachePadded;

use crate::base::sync::{AtomicU64, Ordering};

/// Default bound on the waiters of one limiter, queue or concurrency limit: 2^16, so that they take
/// some megabytes and not all memory.
pub const DEFAULT_MAX_WAITERS: u64 = 1 << 16;

/// Counts waiters, on a cache line that checks do not read.
#[derive(Debug)]
pub struct Waiters {
    count: CachePadded<AtomicU64>,
    max: u64,
    /// The least burst tolerance under which a caller has waited, in nanoseconds; `u64::MAX` before
    /// any has.
    least_tolerance: AtomicU64,
}

/// A counted waiter; leaves when dropped.
#[derive(Debug)]
pub(crate) struct WaiterGuard<'w> {
    waiters: &'w Waiters,
}

impl Waiters {
    pub(crate) fn new(max: u64) -> Self {
        Self {
            count: CachePadded::new(AtomicU64::new(0)),
            max,
            least_tolerance: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed) // W1
    }

    /// The least burst tolerance under which a caller has waited, in nanoseconds: a key with no
    /// more debt has no waiter that starts later. `u64::MAX` before any has.
    pub(crate) fn least_tolerance(&self) -> u64 {
        self.least_tolerance.load(Ordering::Relaxed) // W2
    }

    /// Records that a caller will wait under this burst tolerance, in nanoseconds; called before
    /// the place is taken. Lock-free.
    pub(crate) fn waits_under(&self, tolerance: u64) {
        // Usually it is recorded already, and the cache line stays shared.
        if tolerance < self.least_tolerance() {
            self.least_tolerance.fetch_min(tolerance, Ordering::Relaxed); // W2
        }
    }

    /// Removes a waiter whose place was held.
    pub(crate) fn leave(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed); // W1
    }

    /// Adds a waiter; `None` at the maximum. Lock-free.
    pub(crate) fn enter(&self) -> Option<WaiterGuard<'_>> {
        let mut count = self.count.load(Ordering::Relaxed); // W1
        while count < self.max {
            let more = count + 1;
            // W1
            match self.count.compare_exchange(count, more, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(WaiterGuard { waiters: self }),
                Err(seen) => count = seen,
            }
        }
        None
    }
}

impl WaiterGuard<'_> {
    /// Keeps the place until [`Waiters::leave`].
    pub(crate) fn hold(self) {
        core::mem::forget(self);
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.waiters.leave();
    }
}
