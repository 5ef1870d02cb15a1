//! What a limiter knows of its keys, apart from its clock: to be kept over a restart, or moved.

mod bytes;

use core::fmt;
use core::time::Duration;

use crate::key::{KeyHash, KeyHasher};
use crate::keyless::KEY;
use crate::table::Update;

pub use bytes::{SNAPSHOT_VERSION, SavedKeys, SnapshotError};

/// What tells whether two hashers give the same key the same [`KeyHash`]: made from the secret, which
/// can not be had back from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of snapshots without keys: nothing was hashed.
    const KEYLESS: Self = Self(0);

    /// The fingerprint with these bits, as [`Fingerprint::to_bits`] gave them.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// 64 bits. Two different secrets share them with a probability of 2^-64.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

impl KeyHasher {
    /// The hasher's fingerprint: the same for the same algorithm and secret, on every platform.
    ///
    /// It is SipHash-1-3-128 under a key that is hashed from the secret, so a rapidhash seed is not
    /// laid open by it, unless someone tries all 2^64.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        // Texts of more than 16 bytes go through all of the hash.
        let half = |text: &str| self.hash64(text.as_bytes()).to_le_bytes();
        let low = half("tidegate: low half of the fingerprint's key");
        let high = half("tidegate: high half of the fingerprint's key");
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&low);
        secret[8..].copy_from_slice(&high);
        Fingerprint(Self::siphash(secret).hash64(b"tidegate: fingerprint"))
    }
}

/// One key of a [`Snapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedKey {
    /// The key, under the hasher that the snapshot's [`Fingerprint`] names.
    pub key: KeyHash,
    /// What is held against it.
    pub state: SavedState,
}

/// What is held against a key at the moment of a [`Snapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedState {
    /// Of [`SnapshotKind::Debts`]: the key's debt, a duration. What a [`Quota`](crate::Quota) with another rate
    /// makes of it is its own matter.
    Debt(Duration),
    /// Of [`SnapshotKind::FixedWindows`] and [`SnapshotKind::SlidingWindows`]: what has been counted.
    Window {
        /// How long the present window still lasts.
        left: Duration,
        /// Units counted in the present window.
        current: u64,
        /// Units counted in the window before; 0 of fixed windows.
        previous: u64,
    },
    /// Of calendar windows: what has been counted in a period of the wall clock.
    Period {
        /// When the period is over, in seconds since 1970-01-01 00:00 UTC.
        ends: i64,
        /// Units counted in the period.
        count: u64,
    },
    /// Of [`SnapshotKind::SubWindows`] and [`SnapshotKind::SlidingLogs`]: some of the units that count. The one key that there is
    /// has as many states as its units have times to expire at.
    Units {
        /// How long they still count.
        left: Duration,
        /// How many they are.
        units: u64,
    },
}

impl SavedKey {
    /// A state of a limiter without keys.
    pub(crate) fn keyless(state: SavedState) -> Self {
        Self { key: KEY, state }
    }
}

/// What the states of a [`Snapshot`] are states of: a snapshot is restored under rules of its own kind only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SnapshotKind {
    /// Debts of a [`Quota`](crate::Quota) or a `LiveQuota`, whatever its rate and burst, also of a [`Queue`](crate::Queue).
    Debts,
    /// Counts of a [`FixedWindow`](crate::FixedWindow) of this length, whatever its limit.
    FixedWindows(Duration),
    /// Counts of a [`SlidingWindow`](crate::SlidingWindow) of this length, whatever its limit.
    SlidingWindows(Duration),
    /// Counts of [`CalendarWindow::per_minute`](crate::CalendarWindow::per_minute), whatever its limit.
    CalendarMinutes,
    /// Counts of [`CalendarWindow::per_hour`](crate::CalendarWindow::per_hour), whatever its limit.
    CalendarHours,
    /// Counts of [`CalendarWindow::per_day`](crate::CalendarWindow::per_day), whatever its limit.
    CalendarDays,
    /// Counts of [`CalendarWindow::per_month`](crate::CalendarWindow::per_month), whatever its limit.
    CalendarMonths,
    /// Units of a [`SubWindowCounter`](crate::SubWindowCounter) or a `ShardedCounter` of this window in so many
    /// sub-windows, whatever its limit.
    SubWindows {
        /// The length of the window, as it is enforced.
        window: Duration,
        /// Into how many parts it is divided.
        count: u64,
    },
    /// Units of a [`SlidingLog`](crate::SlidingLog) of this window, whatever its limit.
    SlidingLogs(Duration),
}

/// Keys with what is held against them as of one moment, and under which hasher their [`KeyHash`]es were made.
///
/// A snapshot holds durations and counts and no reading of a clock, so it means the same to every clock; only calendar
/// periods have dates. It is not a copy: the keys are an iterator, which reads a table or bytes as it goes,
/// so it takes no memory of its own.
///
/// * [`Limiter::snapshot`](crate::Limiter::snapshot) makes one, [`Limiter::restore`](crate::Limiter::restore)
///   takes one; those of [`Single`](crate::Single::snapshot), [`Queue`](crate::Queue::snapshot),
///   [`SubWindowCounter`](crate::SubWindowCounter::snapshot), `ShardedCounter` and [`SlidingLog`](crate::SlidingLog::snapshot)
///   do without keys.
/// * [`Snapshot::to_bytes`] and [`Snapshot::from_bytes`] are the stable form for a file. For
///   another form, keep [`Snapshot::fingerprint`], [`Snapshot::kind`] and the keys, and come back with
///   [`Snapshot::new`].
///
/// Key hashes are no secret key, but who knows them and some of the keys has something to try seeds
/// against; and who can write a snapshot can lock keys out. Keep it as you keep other state.
///
/// # What a downtime does
/// Restoring takes the time that has passed since the snapshot. Told too short, it denies more; told too long, it
/// admits more, by what the difference grants. Rate, burst and limit may have changed meanwhile.
/// * **Debts** drain. With the true downtime every decision is as if there had been none, to within one unit of
///   time (2 ns). Under a quota with another rate or burst a key waits as long for its debt as it would
///   have; that may exceed the burst then, and even a cost of 1 waits.
/// * **Fixed and sliding windows** go on, and end together with a window of the new limiter: with the first that ends no earlier.
///   So what a key has used is held `d` longer than without the restart, and every decision is exactly that of a limiter
///   whose downtime was `d` shorter. `d` is the same for all keys, less than a window's length, and zero where
///   the origins of both clocks lie a whole number of windows apart.
///
///   Say windows last 60 s, the present one has 20 s left at the snapshot, and the limiter is down for 5 s. Without the
///   restart it would go on for 15 s. A clock that begins with the process begins a window of 60 s, so what
///   was used is held for 60 s: `d` is 45 s. A process that restarts more often than once a window holds
///   exhausted keys until it stays up for one.
/// * **Calendar windows** are the wall clock's: a count is held while the wall clock shows its period,
///   or the one before it, as after a clock that was ahead; in any other period it is over. The
///   downtime is left out of account. Where the offset from UTC is another one, a count is held to the end of
///   the period that its own ends in.
/// * **Units of sub-windows** are over with the first sub-window of the new counter that ends no earlier than theirs, so up to
///   one later than without the restart; at the latest with those that are charged when they are restored. Each counts for a
///   window at least from its admission, so what the counter guarantees holds across any downtime that is not told too long.
/// * **Units of a log** count for the rest of their window, to the nanosecond: every decision is as if there had been no
///   downtime.
///
/// Where a running limiter holds something against a key already, both are held until the later of the
/// two windows is over, and of each count the larger. Counters and logs take as many units as they lack, so that at no time
/// fewer count than in either; these count from their newest unit on where they would have begun earlier. What the limiter held
/// before stands for a part of what is restored, so what of it is given back later, by a reservation or a turn that was
/// taken before, is taken out of what was restored: restore before anything is reserved.
///
/// # Edge cases
/// Across a downtime of at least `d`, what a rule that counts in windows guarantees holds for every key; across a shorter one
/// for the keys of the snapshot. A key that the snapshot has not, because it used nothing in the present window, may have
/// used up the window before, which a [`FixedWindow`](crate::FixedWindow) has forgotten: it may be admitted the
/// limit once more within the same time.
///
/// Say windows last 60 s. A key uses up its limit at the end of one; 10 s later the limiter is restarted without a downtime,
/// onto a clock whose window ends in 10 s. `d` is 20 s: the old window, which has 50 s left, goes on to the end of the one after.
/// The key is admitted the limit at once and again 10 s later, three times the limit in 20 s instead of twice.
///
/// ```
/// use std::time::Duration;
/// use tidegate_engine::{KeyHasher, Limiter, Quota, Snapshot};
///
/// // A hasher that the next process can make again.
/// let build = || Limiter::builder(Quota::per_hour(3)).capacity(1_000).hasher(KeyHasher::rapid(0x5eed)).build();
/// let before = build()?;
/// let _ = before.check_n("user:42", 3);
/// let bytes = before.snapshot().to_bytes();
///
/// let after = build()?;
/// let restored = after.restore(Snapshot::from_bytes(&bytes)?, Duration::from_secs(2))?;
/// assert_eq!(restored.raised, 1);
/// assert!(!after.check("user:42").is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a snapshot is read as it is used"]
pub struct Snapshot<I> {
    fingerprint: Fingerprint,
    kind: SnapshotKind,
    keys: I,
}

impl<I: IntoIterator<Item = SavedKey>> Snapshot<I> {
    /// A snapshot of keys that were kept elsewhere. Keys whose state is not of this kind are left out
    /// of its bytes, and are not restored.
    pub fn new(fingerprint: Fingerprint, kind: SnapshotKind, keys: I) -> Self {
        Self { fingerprint, kind, keys }
    }

    /// A snapshot of a limiter without keys.
    pub(crate) fn keyless(kind: SnapshotKind, states: I) -> Self {
        Self::new(Fingerprint::KEYLESS, kind, states)
    }

    /// Under which hasher the keys were hashed.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// What the states of the keys are.
    #[must_use]
    pub fn kind(&self) -> SnapshotKind {
        self.kind
    }

    /// The states, for a limiter without keys whose states are of this kind.
    pub(crate) fn keyless_of(self, kind: SnapshotKind) -> Result<I, RestoreError> {
        self.keys_for(Fingerprint::KEYLESS, kind)
    }

    /// The keys, for a limiter with this hasher and states of this kind.
    pub(crate) fn keys_for(
        self,
        fingerprint: Fingerprint,
        kind: SnapshotKind,
    ) -> Result<I, RestoreError> {
        if self.fingerprint != fingerprint {
            return Err(RestoreError::OtherHasher);
        }
        if self.kind != kind {
            return Err(RestoreError::OtherKind(self.kind));
        }
        Ok(self.keys)
    }
}

impl<I: IntoIterator<Item = SavedKey>> IntoIterator for Snapshot<I> {
    type Item = SavedKey;
    type IntoIter = I::IntoIter;

    fn into_iter(self) -> I::IntoIter {
        self.keys.into_iter()
    }
}

/// What became of the keys of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// Keys against which more is held now.
    pub raised: u64,
    /// Keys that were left as they are: what the snapshot held against them is over, or the limiter already
    /// held as much.
    pub unchanged: u64,
    /// Keys for which there was no place, under [`OverflowPolicy::Deny`](crate::OverflowPolicy::Deny) and
    /// [`OverflowPolicy::Allow`](crate::OverflowPolicy::Allow): they are as good as new. Also keys whose state is not of
    /// the snapshot's kind.
    pub dropped: u64,
    /// Keys that were forgotten to make room meanwhile, under
    /// [`OverflowPolicy::EvictLeastDebt`](crate::OverflowPolicy::EvictLeastDebt): restored ones, older ones,
    /// and those that concurrent checks evicted.
    pub evicted: u64,
}

impl Restored {
    /// Counts what became of one key; `None` for one whose state could not be read.
    pub(crate) fn count(&mut self, update: Option<Update>) {
        match update {
            Some(Update::Written { .. }) => self.raised += 1,
            Some(Update::Unchanged { .. }) => self.unchanged += 1,
            Some(Update::Full { .. }) | None => self.dropped += 1,
        }
    }
}

/// Why a snapshot can not be restored. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// Its keys were hashed by another algorithm or under another secret: they name nobody here. Give
    /// both limiters one [`LimiterBuilder::hasher`](crate::LimiterBuilder::hasher). Also where one of the two has no keys.
    OtherHasher,
    /// Its states are of this kind, which is not that of the limiter's rule.
    OtherKind(SnapshotKind),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherHasher => f.write_str("the snapshot's keys were hashed by another hasher"),
            Self::OtherKind(kind) => {
                write!(f, "the snapshot holds states of another kind of rule: {kind:?}")
            }
        }
    }
}

impl core::error::Error for RestoreError {}
