//! A check of a key that may be leased, and how it reads the key's word.

use crate::base::key::KeyHash;
use crate::base::word::{State, Update};
use crate::rule::gcra::Gcra;
use crate::table::Table;

use super::block::Block;
use super::entry::{Entry, Lease};
use super::magazine::CachedUnits;

/// A block of which a check has used some units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    /// Before the use.
    pub(super) block: Block,
    /// Its units after the use.
    pub(super) left: u64,
}

/// A check that may use or take leases. `now` and `reread` are as in
/// [`Home::update`](crate::table::Home::update).
pub(crate) struct LeasedCheck<'l, S, R> {
    pub(crate) gcra: &'l Gcra,
    pub(crate) table: &'l Table<S>,
    pub(crate) key: KeyHash,
    pub(crate) cost: u64,
    pub(crate) now: u64,
    pub(crate) reread: R,
}

impl<S: State, R: Fn() -> u64> LeasedCheck<'_, S, R> {
    #[inline]
    pub(super) fn update(&self, decide: impl Fn(u64, u64) -> Option<u64>) -> Update {
        self.table.home(self.key).update(self.now, &self.reread, decide)
    }

    /// The key's word, if it covers a block; else the block is void, and the check uses nothing of
    /// it.
    #[inline]
    pub(super) fn word_of(&self, block: Block) -> Option<u64> {
        let tat = tat_of(self.table, self.key, self.now);
        block.is_covered(tat).then_some(tat)
    }

    /// Notes what has expired of a block that was used.
    #[inline]
    pub(super) fn settle(&self, entry: &Entry, used: Used) {
        let expired = used.block.units - used.left - self.cost;
        if expired > 0 {
            note_lost(entry, self.key, expired);
        }
    }

    /// The units the check would leave of a lease of its key, whose word is `tat`; `None` if it may
    /// not use the lease.
    #[inline]
    pub(super) fn left_of(&self, lease: Lease, tat: u64, now: u64) -> Option<u64> {
        if !lease.block.is_covered(tat) {
            return None;
        }
        lease.block.take(self.gcra, self.cost, now)
    }
}

/// Notes that leased units of `key` are lost.
#[cold]
#[inline(never)]
pub(super) fn note_lost(entry: &Entry, key: KeyHash, units: u64) {
    if units > 0 {
        entry.heat.lost(key, units);
        CachedUnits::lost(key);
    }
}

/// Reads the key's word; 0 where there is none.
#[inline]
pub(crate) fn tat_of<S: State>(table: &Table<S>, key: KeyHash, now: u64) -> u64 {
    match table.home(key).value() {
        Some(tat) => tat,
        None => tat_beyond_home(table, key, now),
    }
}

/// [`tat_of`] for a key that is not settled in its home line.
#[inline(never)]
fn tat_beyond_home<S: State>(table: &Table<S>, key: KeyHash, now: u64) -> u64 {
    match table.home(key).update(now, || now, |_, _| None) {
        Update::Unchanged { found, .. } => found,
        Update::Written { before, .. } => before,
        // Without a charge no slot is claimed.
        Update::Full { .. } => 0,
    }
}
