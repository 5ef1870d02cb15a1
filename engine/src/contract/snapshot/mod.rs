//! Snapshots: the state of a limiter, independent of its clock, to survive a restart or to be
//! moved.

mod bytes;

use core::fmt;

use crate::base::key::{KEYLESS, KeyHash, KeyHasher};
use crate::base::word::Update;
use crate::rule::saved::{SavedState, SnapshotKind};

pub use bytes::{SNAPSHOT_VERSION, SavedKeys, SnapshotError};

/// Identifies a hasher: equal fingerprints mean that the same key has the same [`KeyHash`]. Derived
/// from the secret, which cannot be recovered from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// For snapshots without keys: nothing was hashed.
    const KEYLESS: Self = Self(0);

    /// The fingerprint with these bits, from [`Fingerprint::to_bits`].
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The 64 bits. Two different secrets collide with a probability of 2^-64.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

impl KeyHasher {
    /// The hasher's fingerprint: the same for the same algorithm and secret, on every platform.
    ///
    /// It is SipHash-1-3-128 under a key hashed from the secret, so it reveals a rapidhash seed
    /// only to a search of all 2^64.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        // Texts of more than 16 bytes take the full path of the hash.
        let half = |text: &str| self.hash64(text.as_bytes()).to_le_bytes();
        let low = half("tidegate: low half of the fingerprint's key");
        let high = half("tidegate: high half of the fingerprint's key");
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&low);
        secret[8..].copy_from_slice(&high);
        Fingerprint(Self::siphash(secret).hash64(b"tidegate: fingerprint"))
    }
}

/// A key of a [`Snapshot`] and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedKey {
    /// The key, under the hasher identified by the snapshot's [`Fingerprint`].
    pub key: KeyHash,
    /// The key's state.
    pub state: SavedState,
}

impl SavedKey {
    /// A state of a limiter without keys.
    pub(crate) fn keyless(state: SavedState) -> Self {
        Self { key: KEYLESS, state }
    }
}

/// Keys with their states at one moment, and the hasher under which their [`KeyHash`]es were made.
///
/// A snapshot holds durations and counts but no clock readings, so it is independent of clocks;
/// only calendar periods have dates. It is not a copy: the keys are an iterator that reads a table
/// or bytes as it advances, so it takes no memory.
///
/// * [`Limiter::snapshot`](crate::Limiter::snapshot) makes one,
///   [`Limiter::restore`](crate::Limiter::restore) applies one; those of
///   [`DirectLimiter`](crate::DirectLimiter::snapshot), [`Queue`](crate::Queue::snapshot),
///   [`SubWindowCounter`](crate::counter::SubWindowCounter::snapshot), `ShardedCounter` and
///   [`SlidingLog`](crate::counter::SlidingLog::snapshot) have no keys.
/// * [`Snapshot::to_bytes`] and [`Snapshot::from_bytes`] are the stable format for a file. For
///   another format, store [`Snapshot::fingerprint`], [`Snapshot::kind`] and the keys, and use
///   [`Snapshot::new`].
///
/// Key hashes are not secrets, but with some of the keys they allow a search for the seed; and
/// write access to a snapshot allows locking keys out. Protect it like other state.
///
/// # Effect of the downtime
/// A restore is given the time since the snapshot. Too short a time denies more, too long a time
/// admits more, by what the difference grants. Rate, burst and limit may have changed meanwhile.
/// * **Debts** drain. With the true downtime every decision is as without the restart, to within
///   one unit of time (2 ns). Under a quota with another rate or burst the debt drains in the same
///   time; it may then exceed the burst, so that even a cost of 1 waits.
/// * **Fixed and sliding windows** continue, and end with the first window of the new limiter that
///   ends no earlier. So what a key has used counts `d` longer than without the restart, and every
///   decision is exactly that of a limiter whose downtime was `d` shorter. `d` is the same for all
///   keys, less than a window's length, and zero if the origins of both clocks are a whole number
///   of windows apart.
///
///   Example: windows last 60 s, the current one has 20 s left at the snapshot, and the limiter is
///   down for 5 s. Without the restart 15 s are left. A clock that starts with the process starts a
///   window of 60 s, so usage counts for 60 s: `d` is 45 s. A process that restarts more often than
///   once per window keeps exhausted keys exhausted until it stays up for one.
/// * **Calendar windows** follow the wall clock: a count is kept while the wall clock is in its
///   period, or in the one before, as after a clock that was ahead; in any other period it has
///   expired. The downtime is ignored. If the offset from UTC has changed, a count is kept to the
///   end of the period that contains the end of its own.
/// * **Units of sub-windows** expire with the first sub-window of the new counter that ends no
///   earlier than theirs, so up to one sub-window later than without the restart; at the latest
///   with units charged at the restore. Each counts for at least a window from its admission, so
///   the counter's guarantees hold across any downtime that is not overstated.
/// * **Units of a log** count for the rest of their window, to the nanosecond: every decision is as
///   without the restart.
///
/// If a running limiter already has state for a key, the later end of the two windows and the
/// larger of each count apply. Counters and logs add the units they lack, so that at no time fewer
/// count than in either; added units count from the newest unit on if they would have begun
/// earlier. Existing state counts as part of what is restored, so a later give-back of it, by an
/// earlier reservation or turn, reduces what was restored: restore before anything is reserved.
///
/// # Edge cases
/// Across a downtime of at least `d`, the guarantees of rules that count in windows hold for every
/// key; across a shorter one, for the keys of the snapshot. A key that is missing in the snapshot,
/// because it used nothing in the current window, may have used up the window before, which a
/// [`FixedWindow`](crate::FixedWindow) does not keep: it may be admitted the limit once more within
/// the same time.
///
/// Example: windows last 60 s. A key uses up its limit at the end of one; 10 s later the limiter is
/// restarted without downtime, onto a clock whose window ends in 10 s. `d` is 20 s: the old window,
/// which has 50 s left, continues to the end of the next one. The key is admitted the limit at once
/// and again 10 s later: three times the limit in 20 s instead of twice.
///
/// ```
/// use std::time::Duration;
/// use tidegate_engine::snapshot::Snapshot;
/// use tidegate_engine::{KeyHasher, Limiter, Quota};
///
/// // A hasher that the next process can recreate.
/// let hasher = || KeyHasher::rapid(0x5eed);
/// let build = || Limiter::builder(Quota::per_hour(3)).capacity(1_000).hasher(hasher()).build();
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
    /// A snapshot of keys stored elsewhere. Keys whose state is not of this kind are neither
    /// written to bytes nor restored.
    pub fn new(fingerprint: Fingerprint, kind: SnapshotKind, keys: I) -> Self {
        Self { fingerprint, kind, keys }
    }

    /// A snapshot of a limiter without keys.
    pub(crate) fn keyless(kind: SnapshotKind, states: I) -> Self {
        Self::new(Fingerprint::KEYLESS, kind, states)
    }

    /// The fingerprint of the hasher of the keys.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The kind of the states.
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

/// The result of a restore, by keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// Keys whose state was raised.
    pub raised: u64,
    /// Keys that were left unchanged: their state in the snapshot has expired, or the limiter
    /// already had as much.
    pub unchanged: u64,
    /// Keys for which the table had no room, under
    /// [`OverflowPolicy::Deny`](crate::OverflowPolicy::Deny) and
    /// [`OverflowPolicy::Allow`](crate::OverflowPolicy::Allow): they are fresh. Also keys whose
    /// state is not of the snapshot's kind.
    pub dropped: u64,
    /// Keys evicted meanwhile to make room, under
    /// [`OverflowPolicy::EvictLeastDebt`](crate::OverflowPolicy::EvictLeastDebt): restored ones,
    /// existing ones, and those evicted by concurrent checks.
    pub evicted: u64,
}

impl Restored {
    /// Counts the result for one key; `None` if its state could not be read.
    pub(crate) fn count(&mut self, update: Option<Update>) {
        match update {
            Some(Update::Written { .. }) => self.raised += 1,
            Some(Update::Unchanged { .. }) => self.unchanged += 1,
            Some(Update::Full { .. }) | None => self.dropped += 1,
        }
    }
}

/// Why a snapshot cannot be restored. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// Its keys were hashed by another algorithm or under another secret. Give both limiters the
    /// same [`LimiterBuilder::hasher`](crate::limiter::LimiterBuilder::hasher). Also if only one of
    /// the two has keys.
    OtherHasher,
    /// Its states are of this kind, unlike those of the limiter's rule.
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
