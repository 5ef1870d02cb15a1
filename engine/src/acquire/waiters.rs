//! How many callers wait at once, and under how short a burst anybody has.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | W1 count, all accesses | relaxed | none: it guards no memory, and a read-modify-write never passes the bound | - | `one-more-waits` |
//! | W2 least tolerance, all accesses | relaxed | whoever finds a place in a key's word, by an acquire load, finds its tolerance too: it is lowered, or found as low, before the release exchange that makes the place, and never rises | - | `who-waits-is-not-remembered` |

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
    /// The least burst tolerance under which anybody has waited, in nanoseconds; `u64::MAX` before anybody has.
    least_tolerance: AtomicU64,
}

/// One who waits; leaves when dropped.
#[derive(Debug)]
pub(crate) struct Seat<'w> {
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
        self.count.load(Ordering::Relaxed)
    }

    /// The least burst tolerance under which anybody has waited, in nanoseconds: a key that owes no more has nobody
    /// who starts later. `u64::MAX` before anybody has.
    pub(crate) fn least_tolerance(&self) -> u64 {
        self.least_tolerance.load(Ordering::Relaxed) // W2
    }

    /// Somebody is to wait under this burst tolerance, in nanoseconds. Before the place is taken. Lock-free.
    pub(crate) fn waits_under(&self, tolerance: u64) {
        // Mostly it is known, and the line stays shared.
        if tolerance < self.least_tolerance() {
            self.least_tolerance.fetch_min(tolerance, Ordering::Relaxed); // W2
        }
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
                Ok(_) => return Some(Seat { waiters: self }),
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
