//! Taking what a limiter knows out of it, and putting it into another.

use core::time::Duration;

use crate::clock::Clock;
use crate::observer::Observer;
use crate::rule::{Rule, Saves as _};
use crate::snapshot::{RestoreError, Restored, SavedKey, Snapshot};

use super::Limiter;

impl<R: Rule, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Every key that has used something, with what is held against it as of this call, however long the
    /// snapshot is then read: keys that are charged meanwhile show what is not going to be over by then.
    ///
    /// Not one moment of the whole table: each key is read at its own, while others go on checking, so
    /// of two keys that were charged one after the other the second may be missing or not. Leased units
    /// are debt. O(capacity), allocates nothing.
    pub fn snapshot(&self) -> Snapshot<impl Iterator<Item = SavedKey> + '_> {
        let now = self.clock.now();
        let keys = self.table.entries().filter_map(move |(key, value)| {
            let state = self.algorithm().save(value, now)?;
            Some(SavedKey { key, state })
        });
        Snapshot::new(self.hasher.fingerprint(), self.algorithm().kind(), keys)
    }

    /// Holds what a snapshot says against its keys, `downtime` after [`Limiter::snapshot`] was called;
    /// [`Duration::ZERO`] if time is to have stood still meanwhile. What that comes to under each rule, and
    /// what it guarantees across the downtime, is said at [`Snapshot`].
    ///
    /// May be applied to a limiter that is running, and twice: it never lowers what is held against a
    /// key, nor adds to it, but raises it to the snapshot's as of this call. What was admitted here before
    /// the snapshot came is therefore not counted beside it. Keys that find no place follow the
    /// [`OverflowPolicy`](crate::OverflowPolicy). Lock-free, O(keys), allocates nothing; not atomic, others see the keys come one
    /// by one.
    ///
    /// # Errors
    /// When the snapshot's keys were hashed by another hasher, or its states are of another kind than this
    /// rule's; nothing is changed.
    pub fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
    ) -> Result<Restored, RestoreError> {
        let (now, evicted) = (self.clock.now(), self.table.evicted());
        let keys = snapshot.keys_for(self.hasher.fingerprint(), self.algorithm().kind())?;
        let mut restored = Restored::default();
        for SavedKey { key, state } in keys {
            let told = self.algorithm().load(state, downtime, now);
            restored.count(told.map(|told| {
                self.force(key, |value, now| self.algorithm().raise(value, now, told))
            }));
        }
        restored.evicted = self.table.evicted() - evicted;
        Ok(restored)
    }
}
