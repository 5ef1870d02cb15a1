//! Snapshots of the units that count in counters and logs, and their restore.
//!
//! Units are restored into a running limiter by the same charges that checks make, at the times at
//! which they were charged, the earliest first. A charge at an earlier time than the latest one
//! counts with that: for longer, never for less. So a restore is, to other threads, a check with an
//! early reading.

use alloc::vec::Vec;
use core::time::Duration;

use crate::contract::snapshot::{RestoreError, Restored, SavedKey, Snapshot};
use crate::rule::saved::{SavedState, SnapshotKind};
use crate::time::Clock;

use super::charged::Charged;
#[cfg(feature = "std")]
use super::sharded::ShardedCounter;
use super::sliding_log::SlidingLog;
use super::sub_window::{SubWindowCounter, SubWindows};

impl<C: Clock> SubWindowCounter<C> {
    /// The units that count at this call, by how long they still do, including reserved ones but
    /// not those given back. A concurrent check may be missing. O(N) time and memory.
    pub fn snapshot(&self) -> Snapshot<Vec<SavedKey>> {
        self.window.snapshot(self.window.instant(self.clock.now()))
    }

    /// Restores the units of a snapshot taken `downtime` ago, [`Duration::ZERO`] to ignore the time
    /// since. Units expire as without the restart, to within a sub-window; see [`Snapshot`].
    ///
    /// Idempotent and allowed on a running counter: it adds only what is missing. Not atomic: a
    /// concurrent check may be admitted units that are not restored yet. Lock-free; O(n log n) for
    /// a snapshot of n states with O(n) memory, and O(N) for each of its sub-windows.
    ///
    /// [`Restored`] counts the counter as one key; `dropped` are states of another kind.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tidegate_engine::counter::SubWindowCounter;
    /// use tidegate_engine::snapshot::Snapshot;
    /// use tidegate_engine::ManualClock;
    ///
    /// let minute = Duration::from_secs(60);
    /// let counter = || SubWindowCounter::with_clock(100, minute, ManualClock::new());
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
    /// When the snapshot is one of keys, of another window or number of sub-windows, or of another
    /// kind; nothing is changed.
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
    /// As [`SubWindowCounter::snapshot`](crate::counter::SubWindowCounter::snapshot). Unspent units
    /// of blocks count as used, so [`ShardedCounter::peek`] may report more as remaining.
    pub fn snapshot(&self) -> Snapshot<Vec<SavedKey>> {
        self.shards.source.snapshot(self.shards.source.instant(self.clock.now()))
    }

    /// As [`SubWindowCounter::restore`](crate::counter::SubWindowCounter::restore), whose snapshots
    /// it also accepts. Blocks held in shards are not taken back.
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
    /// The units that count at this call, by how long they still do; a concurrent check may be
    /// missing. If the snapshot is read during checks, newly admitted units may replace some that
    /// have expired since. O(limit), allocates nothing.
    pub fn snapshot(&self) -> Snapshot<impl Iterator<Item = SavedKey> + '_> {
        let (now, window) = (self.now(), self.log.window());
        let counted = self.log.counted(now);
        let states = counted.map(move |Charged { at, units }| saved(at + window - now, units));
        Snapshot::keyless(self.kind(), states)
    }

    /// Restores the units of a snapshot taken `downtime` ago, [`Duration::ZERO`] to ignore the time
    /// since. Units expire exactly as without the restart. Under a lower limit only the latest
    /// `limit` units count.
    ///
    /// Idempotent and allowed on a running log: it adds only what is missing, and never before an
    /// existing unit. Not atomic: a concurrent check may be admitted units that are not restored
    /// yet. Lock-free; O(n log n) for a snapshot of n states, O(n + limit) memory.
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
        let wanted = wanted(snapshot, self.kind(), downtime, place)?;
        let here = log.counted(now).collect();
        Ok(wanted.raise(here, log.limit(), |lacking| log.append(lacking.units, lacking.at)))
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
        let wanted = wanted(snapshot, self.kind(), downtime, |left| span.index_lasting(left, now))?;
        let here = self.ring.counted(now);
        Ok(wanted.raise(here, span.most_units(), |lacking| {
            self.add(lacking.units, span.begin(lacking.at));
        }))
    }
}

fn saved(left: u64, units: u64) -> SavedKey {
    SavedKey::keyless(SavedState::Units { left: Duration::from_nanos(left), units })
}

/// The contents of a snapshot.
struct Wanted {
    charged: Vec<Charged>,
    /// The result if nothing is lacking.
    restored: Restored,
}

/// The units of a snapshot that still count, each from the time that `place` returns for its
/// remaining lifetime.
fn wanted<I: IntoIterator<Item = SavedKey>>(
    snapshot: Snapshot<I>,
    kind: SnapshotKind,
    downtime: Duration,
    place: impl Fn(u64) -> u64,
) -> Result<Wanted, RestoreError> {
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
    Ok(Wanted { charged, restored })
}

impl Wanted {
    /// Charges what is lacking `here`, so that at no time fewer units count than in either, up to
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

/// The units that `here` lacks, in order: with them it has, from any time on, at least as many
/// units as the snapshot.
fn lacking(mut wanted: Vec<Charged>, mut here: Vec<Charged>, most: u64) -> Vec<Charged> {
    wanted.sort_unstable_by_key(|charged| charged.at);
    wanted.dedup_by(|next, charged| {
        let is_same = next.at == charged.at;
        if is_same {
            charged.units = charged.units.saturating_add(next.units);
        }
        is_same
    });
    here.sort_unstable_by_key(|charged| charged.at);
    // Sums of the units from `at` on: in the snapshot, here, and found lacking.
    let (mut of_wanted, mut of_here, mut added) = (0_u64, 0_u64, 0);
    for charged in wanted.iter_mut().rev() {
        of_wanted = of_wanted.saturating_add(charged.units).min(most);
        while let Some(later) = here.last().filter(|later| later.at >= charged.at) {
            of_here = of_here.saturating_add(later.units);
            here.pop();
        }
        charged.units = of_wanted.saturating_sub(of_here.saturating_add(added));
        added += charged.units;
    }
    wanted.retain(|charged| charged.units > 0);
    wanted
}
