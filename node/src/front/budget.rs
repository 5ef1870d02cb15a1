//! Memory that connections share: for Redis commands and HTTP bodies that have not arrived in full
//! or wait, for queued commands of transactions, and for replies that are not sent.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | M1 bytes left, all accesses | relaxed | none: the number guards no memory; what is taken is never more than there was by modification order | - | - |
//! | M2 holders, all accesses | relaxed | none: a statistic, by which connections give way | - | - |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that connections share.
#[derive(Debug)]
pub struct Budget {
    bytes: usize,
    left: AtomicUsize,
    /// The connections that hold some.
    holders: AtomicUsize,
}

impl Budget {
    pub const fn new(bytes: usize) -> Self {
        Self { bytes, left: AtomicUsize::new(bytes), holders: AtomicUsize::new(0) }
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
            if self.held == 0 {
                // M2
                self.budget.holders.fetch_add(1, Ordering::Relaxed);
            }
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

    /// Whether the budget is scarce, and this connection holds more than `least` and than its part:
    /// half of the budget, divided among those that hold some. While it is scarce one of them holds
    /// more than its part.
    pub fn exceeds_its_part(&self, least: usize) -> bool {
        // M2
        let holders = self.budget.holders.load(Ordering::Relaxed).max(1);
        self.held > least.max(self.budget.bytes / 2 / holders) && self.is_scarce()
    }

    fn give_back(&mut self, bytes: usize) {
        if bytes > 0 {
            // M1
            self.budget.left.fetch_add(bytes, Ordering::Relaxed);
            self.held -= bytes;
            if self.held == 0 {
                // M2
                self.budget.holders.fetch_sub(1, Ordering::Relaxed);
            }
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

    /// Those that fill the budget are, and not those behind them.
    #[test]
    fn who_exceeds_its_part_while_room_is_scarce() {
        let budget = Arc::new(Budget::new(120));
        let shares = [30, 21, 9, 0].map(|bytes| {
            let mut share = Share::new(Arc::clone(&budget));
            assert!(share.resize(bytes));
            share
        });
        let exceed = |least| shares.each_ref().map(|share| share.exceeds_its_part(least));
        assert_eq!(exceed(0), [false; 4]);
        let mut other = Share::new(budget);
        (0..3).for_each(|_| assert!(other.resize(1) && other.resize(0)));
        assert!(other.resize(1));
        // A part is 15.
        assert_eq!(exceed(0), [true, true, false, false]);
        assert_eq!(exceed(21), [true, false, false, false]);
        other.resize(0);
        assert_eq!(exceed(0), [false; 4]);
    }

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
