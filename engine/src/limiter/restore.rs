//! Snapshots of a limiter, and restoring them.

use core::time::Duration;

use crate::base::word::Update;
use crate::contract::observer::Observer;
use crate::contract::snapshot::{RestoreError, Restored, SavedKey, Snapshot};
use crate::rule::Rule;
use crate::rule::algorithm::Saves as _;
use crate::time::Clock;

use super::Limiter;

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Every key with a charge, and its state as of this call, however long the snapshot is then
    /// read: a key that is charged meanwhile shows what will not have expired by then.
    ///
    /// Not one instant of the whole table: each key is read at its own moment, while others go on
    /// checking, so of two keys that were charged one after the other the second may be missing or
    /// not. Leased units are debt. O(capacity), allocates nothing.
    pub fn snapshot(&self) -> Snapshot<impl Iterator<Item = SavedKey> + '_> {
        let now = self.clock.now();
        let keys = self.table.entries().filter_map(move |(key, value)| {
            let state = self.algorithm().save(value, now)?;
            Some(SavedKey { key, state })
        });
        Snapshot::new(self.hasher.fingerprint(), self.algorithm().kind(), keys)
    }

    /// Raises the state of keys to that of a snapshot, `downtime` after [`Limiter::snapshot`] was
    /// called; [`Duration::ZERO`] if no time is to count as passed. [`Snapshot`] states what that
    /// means under each rule, and what it guarantees across the downtime.
    ///
    /// May be applied to a running limiter, and repeatedly: it never lowers the state of a key, nor
    /// adds to it, but joins (max) it with that of the snapshot as of this call. What was admitted
    /// here before the snapshot arrived is therefore not counted in addition. Keys that find no
    /// slot follow the [`OverflowPolicy`](crate::OverflowPolicy). O(keys), allocates nothing;
    /// lock-free, but for the lists of keys that are waited for, whose starts it fixes. Not atomic:
    /// others observe the keys one by one.
    ///
    /// # Errors
    /// When the keys of the snapshot were hashed by another hasher, or its states are of another
    /// kind than those of this rule; nothing is changed.
    pub fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
    ) -> Result<Restored, RestoreError> {
        let (now, evicted) = (self.clock.now(), self.table.evicted());
        let keys = snapshot.keys_for(self.hasher.fingerprint(), self.algorithm().kind())?;
        let mut restored = Restored::default();
        for SavedKey { key, state } in keys {
            let saved = self.algorithm().load(state, downtime, now);
            let update = saved.map(|saved| {
                self.force(key, |value, now| self.algorithm().raise(value, now, saved))
            });
            if self.waiters.count() > 0 && matches!(update, Some(Update::Written { .. })) {
                self.wait_lists.fix(key, now);
            }
            restored.count(update);
        }
        restored.evicted = self.table.evicted() - evicted;
        Ok(restored)
    }
}
