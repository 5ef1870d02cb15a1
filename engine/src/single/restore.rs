//! Taking what a limiter without keys knows out of it, and putting it into another.

use core::time::Duration;

use crate::clock::Clock;
use crate::observer::Observer;
use crate::rule::{Algorithm as _, Rule, Saves as _};
use crate::snapshot::{RestoreError, Restored, SavedKey, Snapshot};

use super::Single;

impl<R: Rule, C: Clock, O: Observer> Single<R, C, O> {
    /// What is held against the limiter as of this call: a snapshot of one key, or of none if there is
    /// nothing. O(1).
    ///
    /// A warm-up is not part of it. While one goes on, debt is time as the rule sees it, which passes
    /// more slowly.
    pub fn snapshot(&self) -> Snapshot<Option<SavedKey>> {
        let now = self.warped(self.clock.now());
        let state = self.algorithm.save(self.value(), now);
        Snapshot::keyless(self.algorithm.kind(), state.map(SavedKey::keyless))
    }

    /// Holds what a snapshot says against the limiter, `downtime` after it was taken, as
    /// [`Limiter::restore`](crate::Limiter::restore) does against a key: never less than before, and twice is once. O(states of
    /// the snapshot), of which it has one.
    ///
    /// # Errors
    /// When the snapshot is one of keys, or of another kind than the rule's states; nothing is changed.
    pub fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
    ) -> Result<Restored, RestoreError> {
        let now = self.warped(self.clock.now());
        let mut restored = Restored::default();
        for SavedKey { state, .. } in snapshot.keyless_of(self.algorithm.kind())? {
            let told = self.algorithm.load(state, downtime, now);
            let raise = |told| {
                let now = self.algorithm.instant(now);
                self.update(now, |value, now| self.algorithm.raise(value, now, told))
            };
            restored.count(told.map(raise));
        }
        Ok(restored)
    }
}
