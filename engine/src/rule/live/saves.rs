//! Snapshots of debts under a quota that changes: in terms of the quota in force when they are
//! read.

use core::time::Duration;

use crate::rule::algorithm::{Algorithm as _, Saves};
use crate::rule::gcra::{self, Bucket as _, TAT_MAX, View};
use crate::rule::saved::{SavedState, SnapshotKind};
use crate::time::Timestamp;

use super::LiveGcra;

impl Saves for LiveGcra {
    fn debt_change(&self, from: u64, to: u64, now: u64) -> i64 {
        // Both in terms of one quota: a change of it between them is not a change of debt.
        let epoch = self.epoch();
        let now = epoch.time.point(Timestamp::from_nanos(now));
        epoch.time.scale.to_change(epoch.tat(from).max(now), epoch.tat(to).max(now))
    }

    fn kind(&self) -> SnapshotKind {
        SnapshotKind::Debts
    }

    /// At a `now` from before the last change, the debt is what the change left, plus the time
    /// until the change.
    fn save(&self, value: u64, now: Timestamp) -> Option<SavedState> {
        let View { gcra, time, tat, now: point } = self.view(value, self.instant(now));
        (tat > point).then(|| {
            let debt = (tat - point).saturating_add(time.lead(now));
            SavedState::Debt(Duration::from_nanos(gcra.scale().to_nanos(debt)))
        })
    }

    /// Not a value, which might be one of another epoch when it is used, but the reading of the
    /// clock at which the debt has drained.
    fn load(&self, state: SavedState, downtime: Duration, now: Timestamp) -> Option<u64> {
        let SavedState::Debt(debt) = state else { return None };
        Some(now.saturating_add(debt.saturating_sub(downtime)).as_nanos())
    }

    fn raise(&self, value: u64, now: u64, other: u64) -> Option<u64> {
        let view = self.view_word(value, now);
        let other = view.time.scale.to_units(other).saturating_sub(view.time.base);
        gcra::raised(view.tat, view.now, other.min(TAT_MAX)).map(|tat| view.value(tat))
    }
}
