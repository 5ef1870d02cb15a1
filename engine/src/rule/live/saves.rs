//! Snapshots of debts under a quota that changes: in terms of the quota in force when they are
//! read.

use core::time::Duration;

use crate::rule::algorithm::Saves;
use crate::rule::saved::{SavedState, SnapshotKind};
use crate::time::Timestamp;

use super::LiveGcra;
use super::epoch::instant;

impl Saves for LiveGcra {
    fn kind(&self) -> SnapshotKind {
        SnapshotKind::Debts
    }

    /// At a `now` from before the last change, the debt is what the change left, plus the time
    /// until the change.
    fn save(&self, value: u64, now: Timestamp) -> Option<SavedState> {
        let epoch = self.epoch();
        let tat = epoch.tat(value);
        let debt = tat.saturating_sub(epoch.time.point(now));
        let nanos = || Duration::from_nanos(epoch.time.scale.to_nanos(debt));
        (tat > instant(epoch.time, now)).then(|| SavedState::Debt(nanos()))
    }

    fn load(&self, state: SavedState, downtime: Duration, now: Timestamp) -> Option<u64> {
        let epoch = self.epoch();
        epoch.gcra.load_at(state, downtime, instant(epoch.time, now))
    }

    fn raise(&self, value: u64, now: u64, other: u64) -> Option<u64> {
        let epoch = self.epoch();
        epoch.gcra.raise(epoch.tat(value), now.max(epoch.time.floor), epoch.tat(other))
    }
}
