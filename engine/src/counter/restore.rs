//! Taking the units that count out of counters and logs, and putting them into others.
//!
//! Units are put into a running limiter by the charges that checks make, at the times at which they were charged, the earliest
//! first. A charge at an earlier time than the latest one counts with that: for longer, never for less. So a restore
//! meets other threads as a check with an early reading does.

use alloc::vec::Vec;
use core::time::Duration;

use crate::clock::Clock;
use crate::snapshot::{RestoreError, Restored, SavedKey, SavedState, Snapshot, SnapshotKind};

#[cfg(feature = "std")]
use super::sharded::ShardedCounter;
use super::sliding_log::SlidingLog;
use super::sub_window::{SubWindowCounter, SubWindows};

/// Units that expire together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charged {
    /// Since when they count: a sub-window's number, or the time of a log.
    pub(super) at: u64,
    pub(super) units: u64,
}

impl<C: Clock> SubWindowCounter<C> {
    /// The units that count as of this call, by how long they do. Units that are reserved are among them, those that were
    /// given back are not; a check beside the call may be missing. O(N), in memory too.
    pub fn snapshot(&self) -> Snapshot<Vec<SavedKey>> {
        self.window.snapshot(self.window.instant(self.clock.now()))
    }

    /// Lets the units of a snapshot count, `downtime` after it was taken; [`Duration::ZERO`] if time is to have stood still
    /// meanwhile. What that comes to is said at [`Snapshot`]: as without the restart, to within a sub-window.
    ///
    /// May be applied to a counter that is running, and twice: it adds what is lacking only. Not atomic: a check beside
    /// it may be admitted what is not restored yet. Lock-free; O(n log n) for a snapshot of n states and O(n) of memory, and
    /// O(N) for each of its sub-windows.
    ///
    /// [`Restored`] counts the counter as one key; `dropped` are states of another kind.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tidegate_engine::{ManualClock, Snapshot, SubWindowCounter};
    ///
    /// let counter = || SubWindowCounter::with_clock(100, Duration::from_secs(60), ManualClock::new());
    /// let before = counter()?;
    /// let _ = before.check_n(100);
    /// let bytes = before.snapshot().to_bytes();
    ///
    /// let after = counter()?;
    /// after.restore(Snapshot::from_bytes(&bytes)?, Duration::from_secs(2))?;
    /// assert_eq!(after.check().retry_after(), Some(Duration::from_secs(59)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the snapshot is one of keys, of another window or another number of sub-windows, or of another kind; nothing is
    /// changed.
    pub fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
    ) -> Result<Restored, RestoreError> {
        self.window.restore(snapshot, downtime, self.window.instant(self.clock.now()))
    }
}

#[cfg(feature = "std")]
impl<C: Clock> ShardedCounter<C> {
    /// As [`SubWindowCounter::snapshot`](crate::SubWindowCounter::snapshot). What is left of blocks counts as used, so
    /// [`ShardedCounter::peek`] may have told of more.
    pub fn snapshot(&self) -> Snapshot<Vec<SavedKey>> {
        self.shards.source.snapshot(self.shards.source.instant(self.clock.now()))
    }

    /// As [`SubWindowCounter::restore`](crate::SubWindowCounter::restore), of whose snapshots it takes those, too. Blocks
    /// that threads have are not taken back.
    ///
    /// # Errors
    /// As there.
    pub fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
    ) -> Result<Restored, RestoreError> {
        let source = &self.shards.source;
        source.restore(snapshot, downtime, source.instant(self.clock.now()))
    }
}

impl<C: Clock> SlidingLog<C> {
    /// The units that count as of this call, by how long they do; a check beside the call may be missing. Where the
    /// snapshot is read while others check, units that they are admitted may stand for some that have expired since.
    /// O(limit), allocates nothing.
    pub fn snapshot(&self) -> Snapshot<impl Iterator<Item = SavedKey> + '_> {
        let (now, window) = (self.now(), self.log.window());
        let counted = self.log.counted(now);
        let states = counted.map(move |Charged { at, units }| saved(at + window - now, units));
        Snapshot::keyless(self.kind(), states)
    }

    /// Lets the units of a snapshot count, `downtime` after it was taken; [`Duration::ZERO`] if time is to have stood still
    /// meanwhile: to the nanosecond as without the restart. Under a lower limit the latest units count, as many as the limit.
    ///
    /// May be applied to a log that is running, and twice: it adds what is lacking only, and never before a unit that is
    /// there. Not atomic: a check beside it may be admitted what is not restored yet. Lock-free; O(n log n) for a snapshot of
    /// n states, O(n + limit) of memory.
    ///
    /// [`Restored`] counts the log as one key; `dropped` are states of another kind.
    ///
    /// # Errors
    /// When the snapshot is one of keys, of another window, or of another kind; nothing is changed.
    pub fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
    ) -> Result<Restored, RestoreError> {
        let (now, log) = (self.now(), &self.log);
        let place = |left| (now.saturating_add(left) - log.window()).min(now);
        let told = told(snapshot, self.kind(), downtime, place)?;
        let here = log.counted(now).collect();
        Ok(told.raise(here, log.limit(), |lacking| log.append(lacking.units, lacking.at)))
    }

    fn kind(&self) -> SnapshotKind {
        SnapshotKind::SlidingLogs(self.window())
    }
}

impl SubWindows {
    fn kind(&self) -> SnapshotKind {
        let span = self.ring.span();
        SnapshotKind::SubWindows { window: span.window(), count: span.count() }
    }

    fn snapshot(&self, now: u64) -> Snapshot<Vec<SavedKey>> {
        let span = self.ring.span();
        let state = |Charged { at, units }| saved(span.expires_after(at, now), units);
        Snapshot::keyless(self.kind(), self.ring.counted(now).into_iter().map(state).collect())
    }

    fn restore<I: IntoIterator<Item = SavedKey>>(
        &self,
        snapshot: Snapshot<I>,
        downtime: Duration,
        now: u64,
    ) -> Result<Restored, RestoreError> {
        let span = self.ring.span();
        let told = told(snapshot, self.kind(), downtime, |left| span.index_lasting(left, now))?;
        let here = self.ring.counted(now);
        Ok(told.raise(here, span.most_units(), |lacking| {
            self.add(lacking.units, span.begin(lacking.at));
        }))
    }
}

fn saved(left: u64, units: u64) -> SavedKey {
    SavedKey::keyless(SavedState::Units { left: Duration::from_nanos(left), units })
}

/// What a snapshot says.
struct Told {
    charged: Vec<Charged>,
    /// What becomes of it if nothing is lacking.
    restored: Restored,
}

/// The units of a snapshot that still count, each since when `place` says of those that count for so long.
fn told<I: IntoIterator<Item = SavedKey>>(
    snapshot: Snapshot<I>,
    kind: SnapshotKind,
    downtime: Duration,
    place: impl Fn(u64) -> u64,
) -> Result<Told, RestoreError> {
    let (mut charged, mut restored) = (Vec::new(), Restored::default());
    for SavedKey { state, .. } in snapshot.keyless_of(kind)? {
        let SavedState::Units { left, units } = state else {
            restored.dropped += 1;
            continue;
        };
        restored.unchanged = 1;
        let left = left.saturating_sub(downtime).as_nanos();
        if left > 0 {
            let left = u64::try_from(left).unwrap_or(u64::MAX);
            charged.push(Charged { at: place(left), units });
        }
    }
    Ok(Told { charged, restored })
}

impl Told {
    /// Charges what has to count beside what does `here`, so that at no time fewer units count than in either, but no more than
    /// `most`.
    fn raise(self, here: Vec<Charged>, most: u64, charge: impl Fn(Charged)) -> Restored {
        let mut restored = self.restored;
        for lacking in lacking(self.charged, here, most) {
            charge(lacking);
            (restored.raised, restored.unchanged) = (1, 0);
        }
        restored
    }
}

/// The units that `here` lacks, in order: together with them it has of the units since any time on as many as were told.
fn lacking(mut told: Vec<Charged>, mut here: Vec<Charged>, most: u64) -> Vec<Charged> {
    told.sort_unstable_by_key(|charged| charged.at);
    told.dedup_by(|next, charged| {
        let is_same = next.at == charged.at;
        if is_same {
            charged.units = charged.units.saturating_add(next.units);
        }
        is_same
    });
    here.sort_unstable_by_key(|charged| charged.at);
    // Since `at`: units that were told, that are here, and that were found lacking.
    let (mut of_told, mut of_here, mut added) = (0_u64, 0_u64, 0);
    for charged in told.iter_mut().rev() {
        of_told = of_told.saturating_add(charged.units).min(most);
        while let Some(later) = here.pop_if(|later| later.at >= charged.at) {
            of_here = of_here.saturating_add(later.units);
        }
        charged.units = of_told.saturating_sub(of_here.saturating_add(added));
        added += charged.units;
    }
    told.retain(|charged| charged.units > 0);
    told
}
