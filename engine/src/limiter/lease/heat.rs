//! Which of the keys that share an entry is hot, and how much it may lease.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | B1 heat, all accesses | relaxed | none: a hint by which no unit is admitted; exchanges lose none of each other's steps by modification order | - | - |

use crate::base::key::KeyHash;
use crate::base::sync::{AtomicU64, Ordering};

/// Units that must have been admitted for each unit that may be leased: at most this share of what
/// is admitted can expire in leases unused.
const BACKING: u64 = 16;

const COUNT_BITS: u32 = u64::BITS - crate::base::key::TAG_BITS;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The largest lease, in units, that a count can back.
pub(super) const MOST: u64 = COUNT_MASK / BACKING / 2;

/// The key that most checks of an entry came for, with a count of them (Boyer and Moore's majority
/// vote): a check of the key adds one, of another key takes one away, and at zero the next key
/// replaces it.
///
/// ```text
/// key tag (47) | count (17)
/// ```
///
/// Relaxed, and checks are counted by a load and a store, because the counts are statistics:
/// threads that share an entry may lose updates, and only the size of leases depends on them.
#[derive(Debug)]
pub(super) struct Heat(AtomicU64);

impl Heat {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The units that `key` may lease.
    #[inline]
    pub(super) fn backed(&self, key: KeyHash) -> u64 {
        let (tag, count) = self.load();
        if tag == key.tag() { count / BACKING } else { 0 }
    }

    /// Counts one admitted check of `key`.
    #[inline]
    pub(super) fn admitted(&self, key: KeyHash) {
        let (tag, count) = self.load();
        if tag == key.tag() {
            self.store(tag, count + 1);
        } else if count > 1 {
            self.store(tag, count - 1);
        } else {
            self.store(key.tag(), 1);
        }
    }

    /// Counts the units of a new lease as admitted.
    pub(super) fn leased(&self, key: KeyHash, units: u64) {
        let (tag, count) = self.load();
        if tag == key.tag() {
            self.store(tag, count + units);
        }
    }

    /// Takes back what [`Heat::leased`] counted of units that are lost, and what backed them, so
    /// that no use backs two of them.
    pub(super) fn lost(&self, key: KeyHash, units: u64) {
        self.cool(key, units * (BACKING + 1));
    }

    /// Takes back what [`Heat::leased`] counted of units that a refund has recalled, and as much
    /// again: a lease of which more is recalled than used is not worth its cost.
    pub(super) fn recalled(&self, key: KeyHash, units: u64) {
        self.cool(key, 2 * units);
    }

    /// Takes back what was counted of units that are refunded: they count as never admitted.
    pub(super) fn refunded(&self, key: KeyHash, units: u64) {
        self.cool(key, units);
    }

    /// By compare-and-swap, so that threads that do so at once lose nothing of it.
    fn cool(&self, key: KeyHash, by: u64) {
        loop {
            // B1
            let heat = self.0.load(Ordering::Relaxed);
            let (tag, count) = Self::parts(heat);
            if tag != key.tag() {
                return;
            }
            let cooler = Self::whole(tag, count.saturating_sub(by));
            // B1
            let (one, other) = (Ordering::Relaxed, Ordering::Relaxed);
            if self.0.compare_exchange(heat, cooler, one, other).is_ok() {
                return;
            }
        }
    }

    #[inline]
    fn load(&self) -> (u64, u64) {
        // B1
        Self::parts(self.0.load(Ordering::Relaxed))
    }

    #[inline]
    fn store(&self, tag: u64, count: u64) {
        /// Backs the largest lease and no more, so that a key that is no longer hot is outvoted
        /// soon.
        const COUNT_MAX: u64 = MOST * BACKING;
        // B1
        self.0.store(Self::whole(tag, count.min(COUNT_MAX)), Ordering::Relaxed);
    }

    const fn parts(heat: u64) -> (u64, u64) {
        (heat >> COUNT_BITS, heat & COUNT_MASK)
    }

    const fn whole(tag: u64, count: u64) -> u64 {
        (tag << COUNT_BITS) | count
    }
}

#[cfg(all(test, loom))]
impl Heat {
    /// Makes `key` one that may lease `units`.
    pub(super) fn back(&self, key: KeyHash, units: u64) {
        self.store(key.tag(), units * BACKING);
    }
}
