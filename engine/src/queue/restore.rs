//! Taking a line out of a queue, and putting it into another.

use core::time::Duration;

use crate::clock::Clock;
use crate::rule::{Algorithm as _, Saves as _};
use crate::snapshot::{RestoreError, Restored, SavedKey, Snapshot};
use crate::sync::Ordering;
use crate::table::Update;

use super::Queue;

impl<C: Clock> Queue<C> {
    /// How long the line is as of this call: the debt of all who started or wait, or nothing if it has drained. The same
    /// snapshot as that of a [`Single`](crate::Single::snapshot) under the quota, in which either can be restored. O(1).
    ///
    /// Who waits is charged, but is not in the snapshot: after a restart it joins the line anew, behind its former place.
    /// A call that joins beside it may be missing.
    pub fn snapshot(&self) -> Snapshot<Option<SavedKey>> {
        let now = self.clock.now();
        let state = self.gcra.save(self.tat.load(Ordering::Relaxed), now);
        Snapshot::keyless(self.gcra.kind(), state.map(SavedKey::keyless))
    }

    /// Makes the line as long as a snapshot says, `downtime` after it was taken, if it is shorter; see
    /// [`Limiter::restore`](crate::Limiter::restore) and [`Snapshot`]. Starts are then those of a queue that never stopped, to
    /// within one unit of time (2 ns). Restore before anybody lines up: places that were taken here before keep their starts and
    /// count as part of the line that is restored, and where that was no longer than they had made it, those that are given
    /// up from the end are taken out of it. O(states of the snapshot), of which it has one.
    ///
    /// # Errors
    /// When the snapshot is one of keys, or of another kind than debts; nothing is changed.
    pub fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
    ) -> Result<Restored, RestoreError> {
        let reading = self.clock.now();
        let now = self.gcra.instant(reading);
        let mut restored = Restored::default();
        for SavedKey { state, .. } in snapshot.keyless_of(self.gcra.kind())? {
            let told = self.gcra.load(state, downtime, reading);
            restored.count(told.map(|told| self.raise(told, now)));
        }
        Ok(restored)
    }

    /// Where the TAT grows, no turn that is held has made one as late: none takes back what was restored.
    fn raise(&self, told: u64, now: u64) -> Update {
        if told <= now {
            return Update::Unchanged { found: told, now };
        }
        let found = self.tat.fetch_max(told, Ordering::Relaxed); // Q1
        if found < told {
            Update::Written { before: found, now }
        } else {
            Update::Unchanged { found, now }
        }
    }
}
