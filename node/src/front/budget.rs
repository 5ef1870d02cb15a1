//! Memory that connections share: for Redis commands and HTTP bodies that have not arrived in full
//! or wait, for queued commands of transactions, and for replies that are not sent.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | M1 bytes left, all accesses | relaxed | none: the number guards no memory; what is taken is never more than there was by modification order | - | - |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that connections share.
#[derive(Debug)]
pub struct Budget {
    bytes: usize,
    left: AtomicUsize,
}

impl Budget {
    pub const fn new(bytes: usize) -> Self {
        Self { bytes, left: AtomicUsize::new(bytes) }
    }
}

/// The bytes of a budget that one connection holds; returned when dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    held: usize,
}

impl Share {
    pub const fn new(budget: Arc<Budget>) -> Self {
        Self { budget, held: 0 }
    }

    /// Changes what is held to `bytes`. False, and unchanged, when the budget has too few left.
    pub fn resize(&mut self, bytes: usize) -> bool {
        if bytes <= self.held {
            self.give_back(self.held - bytes);
            return true;
        }
        let more = bytes - self.held;
        // M1
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let left = &self.budget.left;
        let taken = left.fetch_update(set, fetch, |left| left.checked_sub(more)).is_ok();
        if taken {
            self.held = bytes;
        }
        taken
    }

    /// The bytes that are held.
    pub const fn held(&self) -> usize {
        self.held
    }

    /// What all connections may hold.
    pub fn budget_bytes(&self) -> usize {
        self.budget.bytes
    }

    /// Whether connections hold more than half of the budget.
    pub fn is_scarce(&self) -> bool {
        // M1
        self.budget.left.load(Ordering::Relaxed) < self.budget.bytes / 2
    }

    fn give_back(&mut self, bytes: usize) {
        if bytes > 0 {
            // M1
            self.budget.left.fetch_add(bytes, Ordering::Relaxed);
            self.held -= bytes;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.held);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Budget, Share};

    #[test]
    fn what_is_given_back_can_be_had_again() {
        let budget = Arc::new(Budget::new(10));
        let mut one = Share::new(Arc::clone(&budget));
        let mut other = Share::new(budget);
        assert!(one.resize(6));
        assert!(!other.resize(5));
        assert!(other.resize(4));
        assert!(!other.resize(5));
        assert!(one.resize(5));
        assert!(other.resize(5));
        drop(one);
        assert!(other.resize(10));
        assert!(!other.resize(11));
    }
}
