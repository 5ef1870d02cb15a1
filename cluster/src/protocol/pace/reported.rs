//! What other nodes reported lately, key by key: it uses up the refill that would cover what this
//! node keeps to itself.
//!
//! Others report a key whether this node's use of it waits at that moment or not. So what they
//! reported is kept until the node's part of the refill has made up for it: where it was forgotten
//! between two waits, a node that consumes little and a node that consumes much would together
//! exceed a limit for as long as they like, and neither would see it.

use rustc_hash::FxHashMap;

use crate::protocol::delta::{KeyId, signed};
use crate::protocol::time::{Nanos, SECOND};

/// Keys of which it is known, at most: about 1 MiB.
pub(super) const MAX_KEYS: usize = 1 << 13;
/// How often keys of which nothing is left make room, at most.
const SWEEP_EVERY: Nanos = SECOND / 10;
/// Where there is no room, a key of which nothing was reported for this long makes some, whatever
/// is left of it: one report may be of years.
const KEEP: Nanos = 60 * SECOND;
/// The share of what refills, as a divisor, that need not be sent.
const COVERED_DIVISOR: u64 = 2;
/// After a key found no room, nothing is covered for this long.
pub(super) const UNKNOWN: Nanos = SECOND;

#[derive(Debug, Default)]
pub(super) struct Reported {
    /// By word.
    keys: FxHashMap<KeyId, NodeShare>,
    sweep_at: Nanos,
    /// Until then something may have been reported that is not known.
    unknown_until: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct NodeShare {
    /// What was reported, divided by the nodes, and not made up for.
    debt: i64,
    /// Up to when the refill was counted.
    counted: Nanos,
}

impl Reported {
    /// Another node has reported that it consumed this.
    pub(super) fn add(&mut self, now: Nanos, word: KeyId, debt: i64, nodes: usize) {
        let share = debt.max(0) / i64::try_from(nodes.max(1)).unwrap_or(i64::MAX);
        if let Some(part) = self.keys.get_mut(&word) {
            *part = NodeShare { debt: part.left(now, nodes).saturating_add(share), counted: now };
            return;
        }
        if share == 0 {
            return;
        }
        if self.keys.len() >= MAX_KEYS && self.sweep_at <= now {
            self.sweep_at = now.saturating_add(SWEEP_EVERY);
            let least = now.saturating_sub(KEEP);
            self.keys.retain(|_, part| part.left(now, nodes) > 0 && part.counted >= least);
        }
        if self.keys.len() < MAX_KEYS {
            self.keys.insert(word, NodeShare { debt: share, counted: now });
        } else {
            self.unknown_until = now.saturating_add(UNKNOWN);
        }
    }

    /// This node's part of what has refilled since a time, less what others reported. What they
    /// reported since then has been [added](Self::add).
    pub(super) fn rest(&self, (since, now): (Nanos, Nanos), word: KeyId, nodes: usize) -> i64 {
        if now < self.unknown_until {
            return 0;
        }
        let used = self.keys.get(&word).map_or(0, |p| p.left(since, nodes) - p.left(now, nodes));
        refill(now.saturating_sub(since), nodes) - used
    }
}

impl NodeShare {
    /// What is left of it at a time.
    fn left(&self, at: Nanos, nodes: usize) -> i64 {
        (self.debt - refill(at.saturating_sub(self.counted), nodes)).max(0)
    }
}

/// A node's part of what refills in some time and need not be sent.
fn refill(passed: Nanos, nodes: usize) -> i64 {
    signed(passed / (COVERED_DIVISOR * nodes.max(1) as u64))
}
