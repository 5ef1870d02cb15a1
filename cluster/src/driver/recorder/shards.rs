//! Where records go that find no place in a table: maps behind locks that no thread waits for.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | S1 used, a shard's bit set | acquire and release | S2 | of a thread that set it after the drain's swap: it sees that the recorder waits for a wake | - |
//! | S2 used, swapped for 0 | acquire and release | S1 | as S1 | - |
//! | S3 used, loaded | relaxed | none: a drain that has left something is followed by another one | - | - |
//! | S4 counts | relaxed | none: they guard nothing | - | - |
//!
//! What the maps hold is ordered by their locks.

use std::collections::hash_map::{Entry, IntoIter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crossbeam_utils::CachePadded;
use rustc_hash::FxHashMap;

use super::table::Record;
use crate::protocol::Change;

/// Locks that the keys are spread over, one for each bit of a word.
pub(super) const SHARDS: usize = 64;
/// Unsent keys in one shard, at most; 2^20 in all.
pub(super) const MAX_SHARD_KEYS: usize = (1 << 20) / SHARDS;

type Shard = FxHashMap<(u64, u64), Change>;

#[derive(Debug)]
pub(super) struct Shards {
    maps: Box<[CachePadded<Mutex<Shard>>]>,
    /// The shards that may not be empty.
    used: AtomicU64,
    /// Records that came here.
    count: AtomicU64,
    /// Those that found no room.
    dropped: AtomicU64,
}

/// What the consumer knows of the shards.
#[derive(Debug, Default)]
pub(super) struct ShardReader {
    /// Those that this drain has not looked at.
    used: u64,
    /// What is left of the last one.
    taken: Option<IntoIter<(u64, u64), Change>>,
}

impl Shards {
    pub(super) fn new() -> Self {
        Self {
            maps: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            used: AtomicU64::new(0),
            count: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Adds a record to the first shard, from the key's own on, that is not locked and has room.
    pub(super) fn record(&self, record: Record, at: i64) {
        // S4
        self.count.fetch_add(1, Ordering::Relaxed);
        for step in 0..SHARDS {
            let index = (record.key as usize).wrapping_add(step) % SHARDS;
            let Some(mut shard) = self.try_lock(index) else { continue };
            let later = Change::new(record.debt, at);
            let is_full = shard.len() >= MAX_SHARD_KEYS;
            match shard.entry((record.limit, record.key)) {
                Entry::Occupied(mut entry) => {
                    let sum = entry.get_mut();
                    *sum = sum.then(later);
                }
                Entry::Vacant(_) if is_full => continue,
                Entry::Vacant(entry) => {
                    entry.insert(later);
                }
            }
            // S1
            self.used.fetch_or(1 << index, Ordering::AcqRel);
            return;
        }
        // S4
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn try_lock(&self, index: usize) -> Option<MutexGuard<'_, Shard>> {
        match self.maps[index].try_lock() {
            Ok(shard) => Some(shard),
            // A record leaves the map consistent even if it panics.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Begins to drain what there is, when the drain before is over.
    pub(super) fn begin_drain(&self, reader: &mut ShardReader) {
        // S2
        reader.used |= self.used.swap(0, Ordering::AcqRel);
    }

    /// Takes `most` records, at most; returns how many. The drain is over when that is fewer. What
    /// is locked is left to the next drain.
    pub(super) fn drain(
        &self,
        reader: &mut ShardReader,
        most: usize,
        mut take: impl FnMut(u64, u64, Change),
    ) -> usize {
        let mut left = most;
        while left > 0 {
            let next = reader.taken.as_mut().and_then(Iterator::next);
            if let Some(((limit, key), debt)) = next {
                take(limit, key, debt);
                left -= 1;
            } else if reader.used == 0 {
                reader.taken = None;
                break;
            } else {
                reader.taken = self.take_shard(reader).map(Shard::into_iter);
            }
        }
        most - left
    }

    /// What is in the next shard that may not be empty.
    fn take_shard(&self, reader: &mut ShardReader) -> Option<Shard> {
        let index = reader.used.trailing_zeros() as usize;
        reader.used &= reader.used - 1;
        let Some(mut shard) = self.try_lock(index) else {
            // S1
            self.used.fetch_or(1 << index, Ordering::AcqRel);
            return None;
        };
        Some(std::mem::take(&mut *shard))
    }

    /// Whether a drain has left something.
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed) != 0 // S3
    }

    pub(super) fn count(&self) -> u64 {
        // S4
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn dropped(&self) -> u64 {
        // S4
        self.dropped.load(Ordering::Relaxed)
    }

    /// Holds a shard's lock, as a thread that is stopped there.
    #[cfg(test)]
    pub(super) fn hold(&self, index: usize) -> impl Drop + '_ {
        self.maps[index].lock().expect("no thread panics with it")
    }
}
