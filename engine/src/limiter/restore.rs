//! Taking what a limiter knows out of it, and putting it into another.

use core::time::Duration;

use crate::clock::Clock;
use crate::observer::Observer;
use crate::rule::{Rule, Saves};
use crate::snapshot::{RestoreError, Restored, SavedKey, Snapshot};
use crate::table::Update;

use super::Limiter;

impl<R: Rule<Algorithm: Saves>, C: Clock, O: Observer> Limiter<R, C, O> {
    /// Every key that has debt, with the debt it has as of this call, however long the snapshot is
    /// then read: keys that are charged meanwhile show what is not going to have drained by then.
    ///
    /// Not one moment of the whole table: each key is read at its own, while others go on checking, so
    /// of two keys that were charged one after the other the second may be missing or not. Leased units
    /// are debt. O(capacity), allocates nothing.
    pub fn snapshot(&self) -> Snapshot<impl Iterator<Item = SavedKey> + '_> {
        let now = self.instant_now();
        let keys = self.table.entries().filter_map(move |(key, value)| {
            let debt = self.algorithm().save(value, now)?;
            Some(SavedKey { key, debt })
        });
        Snapshot::new(self.hasher.fingerprint(), keys)
    }

    /// Holds the debts of a snapshot against their keys, of which `downtime` has drained since
    /// [`Limiter::snapshot`] was called; [`Duration::ZERO`] if time is to have stood still meanwhile. With the true
    /// downtime every decision is as if there had been none, to within one unit of time (2 ns), under the same rule.
    ///
    /// Debt is a duration: under a quota with another rate or burst a key waits as long for it as it
    /// would have. It may exceed the burst then, and even a cost of 1 waits.
    ///
    /// May be applied to a limiter that is running, and twice: it never lowers the debt that a key
    /// has, nor adds to it, but raises it to the snapshot's as of this call. What was admitted here before
    /// the snapshot came is therefore not counted beside it. Keys that find no place follow the
    /// [`OverflowPolicy`](crate::OverflowPolicy). Lock-free, O(keys), allocates nothing; not atomic, others see the keys come one
    /// by one.
    ///
    /// # Errors
    /// When the snapshot's keys were hashed by another hasher; nothing is changed.
    pub fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
    ) -> Result<Restored, RestoreError> {
        if snapshot.fingerprint() != self.hasher.fingerprint() {
            return Err(RestoreError::OtherHasher);
        }
        let (start, evicted) = (self.instant_now(), self.table.evicted());
        let mut restored = Restored::default();
        for SavedKey { key, debt } in snapshot {
            let debt = debt.saturating_sub(downtime);
            let told = self.algorithm().load(debt, start);
            let update = self.force(key, |value, now| self.algorithm().raise(value, now, told));
            match update {
                Update::Written { .. } => restored.raised += 1,
                Update::Unchanged { .. } => restored.unchanged += 1,
                Update::Full { .. } => restored.dropped += 1,
            }
        }
        restored.evicted = self.table.evicted() - evicted;
        Ok(restored)
    }
}
