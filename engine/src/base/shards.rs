//! Counters that many threads add to and few read.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | N1 counters, all accesses | relaxed | none: statistics | - | - |

use alloc::boxed::Box;

use crossbeam_utils::CachePadded;

use crate::base::sync::{AtomicU64, Ordering};

/// `N` counters a shard; each thread adds to its own shard, so threads seldom share a cache line.
#[derive(Debug)]
pub(crate) struct Shards<const N: usize> {
    shards: Box<[CachePadded<[AtomicU64; N]>]>,
}

/// A power of two; one in models, which have few objects to spare.
const SHARDS: usize = if cfg!(any(loom, interleave)) { 1 } else { 16 };

impl<const N: usize> Shards<N> {
    pub(crate) fn new() -> Self {
        let shard = || CachePadded::new(core::array::from_fn(|_| AtomicU64::new(0)));
        Self { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// Adds one to a counter, which wraps after 2^64.
    pub(crate) fn count(&self, counter: usize) {
        // N1
        self.shards[shard()][counter].fetch_add(1, Ordering::Relaxed);
    }

    /// The sum of a counter over all shards, which are read one after another.
    pub(crate) fn sum(&self, counter: usize) -> u64 {
        // N1
        let counts = self.shards.iter().map(|shard| shard[counter].load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }

    /// Every atomic of these counters.
    #[cfg(all(test, interleave))]
    pub(crate) fn atomics(&self) -> impl Iterator<Item = &AtomicU64> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }
}

/// The calling thread's shard, by the address of its stack.
fn shard() -> usize {
    /// Stacks are at least this far apart, and one call chain seldom spans more.
    const STACK_BYTES_LOG2: u32 = 16;
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let here = 0_u8;
    let stack = core::ptr::from_ref(&here).addr() as u64 >> STACK_BYTES_LOG2;
    (stack.wrapping_mul(SPREAD) >> 32) as usize % SHARDS
}
