//! The state of a key in a snapshot, independent of any clock: durations and counts.

use core::time::Duration;

/// The state of a key at the moment of a [`Snapshot`](crate::snapshot::Snapshot).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedState {
    /// Of [`SnapshotKind::Debts`]: the key's debt, a duration. Its meaning under another rate is up
    /// to the [`Quota`](crate::Quota) that restores it.
    Debt(Duration),
    /// Of [`SnapshotKind::FixedWindows`] and [`SnapshotKind::SlidingWindows`]: the counts.
    Window {
        /// Time left in the current window.
        left: Duration,
        /// Units counted in the current window.
        current: u64,
        /// Units counted in the window before; 0 for fixed windows.
        previous: u64,
    },
    /// Of calendar windows: the count of a period of the wall clock.
    Period {
        /// End of the period, in seconds since 1970-01-01 00:00 UTC.
        ends: i64,
        /// Units counted in the period.
        count: u64,
    },
    /// Of [`SnapshotKind::SubWindows`] and [`SnapshotKind::SlidingLogs`]: the units that expire at
    /// one time. The single key has one state per expiry time.
    Units {
        /// Time until they expire.
        left: Duration,
        /// Number of units.
        units: u64,
    },
}

/// The kind of the states of a [`Snapshot`](crate::snapshot::Snapshot), which is restored only
/// under rules of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SnapshotKind {
    /// Debts of a [`Quota`](crate::Quota) or a `LiveQuota`, whatever its rate and burst, also of a
    /// [`Queue`](crate::Queue).
    Debts,
    /// Counts of a [`FixedWindow`](crate::FixedWindow) of this length, whatever its limit.
    FixedWindows(Duration),
    /// Counts of a [`SlidingWindow`](crate::SlidingWindow) of this length, whatever its limit.
    SlidingWindows(Duration),
    /// Counts of [`CalendarWindow::per_minute`](crate::CalendarWindow::per_minute), whatever its
    /// limit.
    CalendarMinutes,
    /// Counts of [`CalendarWindow::per_hour`](crate::CalendarWindow::per_hour), whatever its limit.
    CalendarHours,
    /// Counts of [`CalendarWindow::per_day`](crate::CalendarWindow::per_day), whatever its limit.
    CalendarDays,
    /// Counts of [`CalendarWindow::per_month`](crate::CalendarWindow::per_month), whatever its
    /// limit.
    CalendarMonths,
    /// Units of a [`SubWindowCounter`](crate::counter::SubWindowCounter) or a `ShardedCounter` of
    /// this window in `count` sub-windows, whatever its limit.
    SubWindows {
        /// The length of the window as enforced.
        window: Duration,
        /// The number of sub-windows.
        count: u64,
    },
    /// Units of a [`SlidingLog`](crate::counter::SlidingLog) of this window, whatever its limit.
    SlidingLogs(Duration),
}
