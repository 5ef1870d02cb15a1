//! Collects admissions until the next flush.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use tidegate_engine::KeyHash;
use tokio::sync::Notify;

use crate::limits::LimitId;
use crate::protocol::{Delta, Nanos, nanos};

/// Locks that the keys are spread over.
const SHARDS: usize = 64;
/// Unsent keys in one shard, at most; 2^20 in all.
const MAX_SHARD_KEYS: usize = (1 << 20) / SHARDS;

type Shard = HashMap<(u64, u64), Nanos>;

/// Sums admissions by key until the next flush takes them.
#[derive(Debug)]
pub(crate) struct Recorder {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// Something may have been recorded since the last `take`.
    filled: CachePadded<AtomicBool>,
    wake: Notify,
    dropped: AtomicU64,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            filled: CachePadded::new(AtomicBool::new(false)),
            wake: Notify::new(),
            dropped: AtomicU64::new(0),
        }
    }

    pub(crate) fn record(&self, limit: LimitId, key: KeyHash, debt: Duration) {
        let debt = nanos(debt);
        if debt == 0 {
            return;
        }
        let bits = key.to_bits();
        let shard = &self.shards[bits as usize % SHARDS];
        {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let full = shard.len() >= MAX_SHARD_KEYS;
            match shard.entry((limit.to_bits(), bits)) {
                Entry::Occupied(mut entry) => {
                    let sum = entry.get_mut();
                    *sum = sum.saturating_add(debt);
                }
                Entry::Vacant(_) if full => {
                    // Relaxed: a counter that guards nothing.
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Entry::Vacant(entry) => {
                    entry.insert(debt);
                }
            }
        }
        // Relaxed: the shard's lock orders this after `take`'s clearing of the flag whenever `take`
        // came to the shard first, and otherwise `take` has seen the entry. Loading first keeps a
        // busy node's threads from writing to one line.
        if !self.filled.load(Ordering::Relaxed) && !self.filled.swap(true, Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    /// Waits until something has been recorded since the last `take`.
    pub(super) async fn filled(&self) {
        self.wake.notified().await;
    }

    pub(super) fn take(&self, into: &mut Vec<Delta>) {
        // Relaxed: see `record`.
        self.filled.store(false, Ordering::Relaxed);
        for shard in &self.shards {
            let taken = std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner));
            into.extend(taken.into_iter().map(|((limit, key), debt)| Delta { limit, key, debt }));
        }
        into.sort_unstable_by_key(|delta| (delta.limit, delta.key));
    }

    pub(super) fn dropped(&self) -> u64 {
        // Relaxed: a counter that guards nothing.
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
