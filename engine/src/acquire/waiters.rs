//! How many callers wait at once.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | W1 count, all accesses | relaxed | none: it guards no memory, and a read-modify-write never passes the bound | - | `one-more-waits` |
//! | W2 ever, all accesses | relaxed | whoever finds a place in a key's word, by an acquire load, finds this set too: it is set before the release exchange that makes the place | - | `who-waits-is-not-remembered` |

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};

/// Callers that may wait on one limiter, queue or concurrency limit at once, unless it is told otherwise:
/// 2^16, so that those who wait take some megabytes and not all memory.
pub const DEFAULT_MAX_WAITERS: u64 = 1 << 16;

/// Counts those who wait, apart from what checks read.
#[derive(Debug)]
pub struct Waiters {
    count: CachePadded<AtomicU64>,
    max: u64,
    /// Not 0 once somebody has waited.
    ever: AtomicU64,
}

/// One who waits; leaves when dropped.
#[derive(Debug)]
pub(crate) struct Seat<'w> {
    waiters: &'w Waiters,
}

impl Waiters {
    pub(crate) fn new(max: u64) -> Self {
        Self { count: CachePadded::new(AtomicU64::new(0)), max, ever: AtomicU64::new(0) }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// Whether anybody has ever waited.
    pub(crate) fn ever(&self) -> bool {
        self.ever.load(Ordering::Relaxed) != 0 // W2
    }

    /// One fewer who waits: whose seat was held.
    pub(crate) fn leave(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// One more who waits; `None` when there are as many as may. Lock-free.
    pub(crate) fn enter(&self) -> Option<Seat<'_>> {
        let mut count = self.count.load(Ordering::Relaxed);
        while count < self.max {
            let more = count + 1;
            match self.count.compare_exchange(count, more, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.ever.store(1, Ordering::Relaxed); // W2
                    return Some(Seat { waiters: self });
                }
                Err(seen) => count = seen,
            }
        }
        None
    }
}

impl Seat<'_> {
    /// Keeps the seat until [`Waiters::leave`].
    pub(crate) fn hold(self) {
        core::mem::forget(self);
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.waiters.leave();
    }
}
