//! Records that one thread, their *owner*, makes one after another, and which one *consumer* reads
//! in that order: those of keys that are used once between two drains. A slot of the
//! [`Table`](super::table::Table) would be in no cache for such a key; here the next record is
//! always in the line of the one before, or in the next one.
//!
//! A ring: the owner writes at `head`, the consumer reads from `done` to `head`. Neither waits: a
//! record that finds the ring full goes to a slot. Whether a key was used in this epoch is known by
//! its mark, which another key may overwrite: then it counts as used once again.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | Q1 head, store | release | Q2 | a record that is not written yet, or one that was taken before | `single-head-relaxed` |
//! | Q2 head, load | acquire | Q1 | as Q1 | `single-head-read-relaxed` |
//! | Q3 done, store | release | Q4 | the consumer reads a record that is overwritten; loom sees no load that moves behind a later store, so this pair rests on the argument | - |
//! | Q4 done, load | acquire | Q3 | as Q3 | - |
//! | Q5 a record's words | relaxed | none: Q1 publishes them, Q3 gives them back | - | - |
//! | Q6 known keys; head, loaded by the owner | relaxed | none: only the owner writes them, or reads them so | - | - |

use crossbeam_utils::CachePadded;

use crate::protocol::Change;
use crate::sync::{AtomicU64, Ordering};

/// The number of marks as a power of two, at most: 8 KiB, which stay in the cache.
const MARK_BITS: u32 = 10;

#[derive(Debug)]
pub(crate) struct Singles {
    /// The owner's alone; none without a ring.
    recent: Box<[AtomicU64]>,
    ring: Box<[Single]>,
    /// Records that were made; the owner's.
    head: CachePadded<AtomicU64>,
    /// Records that were taken; the consumer's.
    done: CachePadded<AtomicU64>,
}

#[derive(Debug, Default)]
#[cfg_attr(not(test), derive(bytemuck::Zeroable))]
#[cfg_attr(not(test), repr(C))]
struct Single {
    limit: AtomicU64,
    key: AtomicU64,
    debt: AtomicU64,
    date: AtomicU64,
}

/// What a drain reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DrainRange {
    next: u64,
    head: u64,
}

impl Singles {
    /// Room for 2^`bits` records, or for none.
    pub(crate) fn new(bits: Option<u32>) -> Self {
        Self {
            recent: zeroed(bits.map_or(0, |bits| 1 << bits.min(MARK_BITS))),
            ring: zeroed(bits.map_or(0, |bits| 1 << bits)),
            head: CachePadded::new(AtomicU64::new(0)),
            done: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Whether the owner has used the key in this epoch, most likely; also where there is no ring.
    #[inline]
    pub(crate) fn is_recent(&self, limit: u64, key: u64, epoch: u64) -> bool {
        let known = self.known(key);
        // Q6
        known.is_none_or(|known| known.load(Ordering::Relaxed) == mark(limit, key, epoch))
    }

    /// Adds the first record of a key in an epoch; only the owner may. Whether there was room.
    #[inline]
    pub(crate) fn push(&self, epoch: u64, (limit, key): (u64, u64), change: Change) -> bool {
        if let Some(known) = self.known(key) {
            // Q6
            known.store(mark(limit, key, epoch), Ordering::Relaxed);
        }
        // Q6
        let head = self.head.load(Ordering::Relaxed);
        // Q4
        let done = self.done.load(Ordering::Acquire);
        if head.wrapping_sub(done) >= self.ring.len() as u64 {
            return false;
        }
        let single = self.at(head);
        single.limit.store(limit, Ordering::Relaxed); // Q5
        single.key.store(key, Ordering::Relaxed); // Q5
        single.debt.store(change.debt as u64, Ordering::Relaxed); // Q5
        single.date.store(change.date as u64, Ordering::Relaxed); // Q5
        self.head.store(head.wrapping_add(1), Ordering::Release); // Q1
        true
    }

    /// Begins to drain what there is; only the consumer may, when the drain before is over.
    pub(crate) fn begin_drain(&self, taken: &mut DrainRange) {
        // Q2
        taken.head = self.head.load(Ordering::Acquire);
    }

    /// Takes `most` records, at most; returns how many.
    pub(crate) fn drain(
        &self,
        taken: &mut DrainRange,
        most: usize,
        mut take: impl FnMut(u64, u64, Change),
    ) -> usize {
        let count = (taken.head.wrapping_sub(taken.next) as usize).min(most);
        for _ in 0..count {
            let single = self.at(taken.next);
            let limit = single.limit.load(Ordering::Relaxed); // Q5
            let key = single.key.load(Ordering::Relaxed); // Q5
            let debt = single.debt.load(Ordering::Relaxed) as i64; // Q5
            let date = single.date.load(Ordering::Relaxed) as i64; // Q5
            take(limit, key, Change::new(debt, date));
            taken.next = taken.next.wrapping_add(1);
        }
        if count > 0 {
            // Q3
            self.done.store(taken.next, Ordering::Release);
        }
        count
    }

    /// The mark of a key, or of another one; `None` without a ring.
    #[inline]
    fn known(&self, key: u64) -> Option<&AtomicU64> {
        self.recent.get(key as usize & self.recent.len().wrapping_sub(1))
    }

    fn at(&self, number: u64) -> &Single {
        &self.ring[number as usize & (self.ring.len() - 1)]
    }
}

/// What distinguishes a key in an epoch from others that have the same place.
#[inline]
fn mark(limit: u64, key: u64, epoch: u64) -> u64 {
    limit ^ key.rotate_left(7) ^ epoch << 32
}

/// Zeros, of which only those that are used take memory.
#[cfg(not(test))]
pub(crate) fn zeroed<T: bytemuck::Zeroable>(len: usize) -> Box<[T]> {
    bytemuck::zeroed_slice_box(len)
}

#[cfg(test)]
pub(crate) fn zeroed<T: Default>(len: usize) -> Box<[T]> {
    (0..len).map(|_| T::default()).collect()
}
