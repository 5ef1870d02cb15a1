//! Snapshots of a queue's line, and their restore.

use core::time::Duration;

use crate::base::key::KEYLESS;
use crate::base::sync::Ordering;
use crate::base::word::Update;
use crate::contract::snapshot::{RestoreError, Restored, SavedKey, Snapshot};
use crate::rule::algorithm::{Algorithm as _, Saves as _};
use crate::time::Clock;

use super::Queue;

impl<C: Clock> Queue<C> {
    /// The length of the line at this call: the debt of started and waiting calls, or nothing if it
    /// has drained. Interchangeable with the snapshot of a
    /// [`DirectLimiter`](crate::DirectLimiter::snapshot) under the quota. O(1).
    ///
    /// Waiters are charged, but are not in the snapshot: after a restart they join the line again,
    /// behind their former places. A concurrent call may be missing.
    pub fn snapshot(&self) -> Snapshot<Option<SavedKey>> {
        let now = self.clock.now();
        let state = self.gcra.save(self.tat.load(Ordering::Relaxed), now); // Q1
        Snapshot::keyless(self.gcra.kind(), state.map(SavedKey::keyless))
    }

    /// Extends the line to the length in a snapshot taken `downtime` ago, unless it is as long
    /// already; see [`Limiter::restore`](crate::Limiter::restore) and [`Snapshot`]. Starts are then
    /// those of a queue that never stopped, to within one unit of time (2 ns). Restore before any
    /// call joins: places taken before keep their starts, count as part of the restored line, and
    /// do not shorten it when they are given up.
    /// O(states of the snapshot), of which it has one.
    ///
    /// # Errors
    /// When the snapshot is one of keys, or does not hold debts; nothing is changed.
    pub fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
    ) -> Result<Restored, RestoreError> {
        let reading = self.clock.now();
        let now = self.gcra.instant(reading);
        let mut restored = Restored::default();
        for SavedKey { state, .. } in snapshot.keyless_of(self.gcra.kind())? {
            let saved = self.gcra.load(state, downtime, reading);
            let update = saved.map(|saved| self.raise(saved, now));
            if self.waiters.count() > 0 && matches!(update, Some(Update::Written { .. })) {
                self.wait_lists.fix(KEYLESS, reading);
            }
            restored.count(update);
        }
        Ok(restored)
    }

    /// If this raises the TAT, places in line become part of what is restored.
    fn raise(&self, saved: u64, now: u64) -> Update {
        if saved <= now {
            return Update::Unchanged { found: saved, now };
        }
        let found = self.tat.fetch_max(saved, Ordering::Relaxed); // Q1
        if found < saved {
            Update::Written { before: found, now }
        } else {
            Update::Unchanged { found, now }
        }
    }
}
