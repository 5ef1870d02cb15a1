//! Values as debts: what they owe, and snapshots of that.

use core::time::Duration;

use crate::rule::algorithm::Saves;
use crate::rule::saved::{SavedState, SnapshotKind};
use crate::time::Timestamp;

use super::{Gcra, raised};

impl Saves for Gcra {
    #[inline]
    fn debt_change(&self, from: u64, to: u64, now: u64) -> i64 {
        self.scale.to_change(from.max(now), to.max(now))
    }

    fn kind(&self) -> SnapshotKind {
        SnapshotKind::Debts
    }

    fn save(&self, tat: u64, now: Timestamp) -> Option<SavedState> {
        let debt = tat.saturating_sub(self.scale.instant(now));
        (debt > 0).then(|| SavedState::Debt(Duration::from_nanos(self.scale.to_nanos(debt))))
    }

    fn load(&self, state: SavedState, downtime: Duration, now: Timestamp) -> Option<u64> {
        self.load_at(state, downtime, self.scale.instant(now))
    }

    fn raise(&self, tat: u64, now: u64, to: u64) -> Option<u64> {
        raised(tat, now, to)
    }
}
