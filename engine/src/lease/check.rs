//! One check of a key that may be leased, and what it sees of the key's word.

use crate::gcra::{Gcra, Tat};
use crate::key::KeyHash;
use crate::table::{Table, Update};

use super::block::Block;
use super::entry::{Entry, Lease};
use super::hand::Held;

/// Units of which a check has used some.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    /// As they were before.
    pub(super) block: Block,
    pub(super) left: u64,
}

/// A check that may use or take leases. `now` and `reread` are as in
/// [`Home::update`](crate::table::Home::update).
pub(crate) struct Check<'l, R> {
    pub(crate) gcra: &'l Gcra,
    pub(crate) table: &'l Table<Tat>,
    pub(crate) key: KeyHash,
    pub(crate) cost: u64,
    pub(crate) now: u64,
    pub(crate) reread: R,
}

impl<R: Fn() -> u64> Check<'_, R> {
    #[inline]
    pub(super) fn update(&self, decide: impl Fn(u64, u64) -> Option<u64>) -> Update {
        self.table.home(self.key).update(self.now, &self.reread, decide)
    }

    /// The key's word, if it counts as charged what has been used; else that is void, and as good as unused. It is read
    /// after the use, so that looking for it overlaps with what comes next.
    #[inline]
    pub(super) fn word_of(&self, used: Block) -> Option<u64> {
        let tat = look(self.table, self.key, self.now);
        used.is_covered(tat).then_some(tat)
    }

    /// The same of units of which some may have drained.
    #[inline]
    pub(super) fn settle(&self, entry: &Entry, used: Used) -> Option<u64> {
        let tat = self.word_of(used.block)?;
        let drained = used.block.units - used.left - self.cost;
        if drained > 0 {
            note_drained(entry, self.key, drained);
        }
        Some(tat)
    }

    /// What the check would leave of a lease of its key, whose word is `tat`; `None` if it may not
    /// use it.
    #[inline]
    pub(super) fn left_of(&self, lease: Lease, tat: u64, now: u64) -> Option<u64> {
        if !lease.block.is_covered(tat) {
            return None;
        }
        lease.block.take(self.gcra, self.cost, now)
    }
}

#[cold]
#[inline(never)]
fn note_drained(entry: &Entry, key: KeyHash, units: u64) {
    entry.heat.drained(key, units);
    Held::lost(key);
}

/// The key's word, only looked at; 0 where there is none.
#[inline]
pub(crate) fn look(table: &Table<Tat>, key: KeyHash, now: u64) -> u64 {
    match table.home(key).value() {
        Some(tat) => tat,
        None => look_further(table, key, now),
    }
}

/// [`look`] for a key that was not found at once.
#[inline(never)]
fn look_further(table: &Table<Tat>, key: KeyHash, now: u64) -> u64 {
    match table.home(key).update(now, || now, |_, _| None) {
        Update::Unchanged { found, .. } => found,
        Update::Written { before, .. } => before,
        // A look asks for no place.
        Update::Full { .. } => 0,
    }
}
