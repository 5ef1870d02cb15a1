//! Snapshots of a limiter without keys, and restoring them.

use core::time::Duration;

use crate::contract::observer::Observer;
use crate::contract::snapshot::{RestoreError, Restored, SavedKey, Snapshot};
use crate::rule::Rule;
use crate::rule::algorithm::{Algorithm as _, Saves as _};
use crate::time::Clock;

use super::DirectLimiter;

impl<R: Rule, C: Clock, O: Observer> DirectLimiter<R, C, O> {
    /// The state of the limiter as of this call: a snapshot of one key, or of none if nothing is
    /// charged. O(1).
    ///
    /// A warm-up is not part of it. During one, debt is measured in the time of the rule, which
    /// passes more slowly.
    pub fn snapshot(&self) -> Snapshot<Option<SavedKey>> {
        let now = self.warped(self.clock.now());
        let state = self.algorithm.save(self.value(), now);
        Snapshot::keyless(self.algorithm.kind(), state.map(SavedKey::keyless))
    }

    /// Raises the state of the limiter to that of the snapshot, `downtime` after it was taken, as
    /// [`Limiter::restore`](crate::Limiter::restore) does for a key: the state is never lowered,
    /// and repeating it changes nothing. O(states of the snapshot), of which it has one.
    ///
    /// # Errors
    /// When the snapshot is one of keys, or its kind is not that of the states of the rule; nothing
    /// is changed.
    pub fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
    ) -> Result<Restored, RestoreError> {
        let now = self.warped(self.clock.now());
        let mut restored = Restored::default();
        for SavedKey { state, .. } in snapshot.keyless_of(self.algorithm.kind())? {
            let saved = self.algorithm.load(state, downtime, now);
            let raise = |saved| {
                let now = self.algorithm.instant(now);
                self.update(now, |value, now| self.algorithm.raise(value, now, saved))
            };
            restored.count(saved.map(raise));
        }
        Ok(restored)
    }
}
