//! What a limiter knows of its keys, apart from its clock: to be kept over a restart, or moved.

mod bytes;

use core::fmt;
use core::time::Duration;

use crate::key::{KeyHash, KeyHasher};

pub use bytes::{SNAPSHOT_VERSION, SavedKeys, SnapshotError};

/// What tells whether two hashers give the same key the same [`KeyHash`]: made from the secret, which
/// can not be had back from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
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
    /// Its debt at the moment of the snapshot, a duration: what a [`Quota`](crate::Quota) with another rate makes of
    /// it is its own matter.
    pub debt: Duration,
}

/// Keys with their debts as of one moment, and under which hasher their [`KeyHash`]es were made.
///
/// A snapshot holds durations and no times, so it means the same to every clock. It is not a copy: the
/// keys are an iterator, which reads a table or bytes as it goes, so it takes no memory of its own.
///
/// * [`Limiter::snapshot`](crate::Limiter::snapshot) makes one, [`Limiter::restore`](crate::Limiter::restore)
///   takes one.
/// * [`Snapshot::to_bytes`] and [`Snapshot::from_bytes`] are the stable form for a file. For
///   another form, keep [`Snapshot::fingerprint`] and the keys, and come back with [`Snapshot::new`].
///
/// Key hashes are no secret key, but who knows them and some of the keys has something to try seeds
/// against; and who can write a snapshot can lock keys out. Keep it as you keep other state.
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
    keys: I,
}

impl<I: IntoIterator<Item = SavedKey>> Snapshot<I> {
    /// A snapshot of keys that were kept elsewhere.
    pub fn new(fingerprint: Fingerprint, keys: I) -> Self {
        Self { fingerprint, keys }
    }

    /// Under which hasher the keys were hashed.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
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
    /// Keys whose debt is now that of the snapshot.
    pub raised: u64,
    /// Keys that were left as they are: their debt drained during the downtime, or the limiter already
    /// held as much against them.
    pub unchanged: u64,
    /// Keys for which there was no place, under [`OverflowPolicy::Deny`](crate::OverflowPolicy::Deny) and
    /// [`OverflowPolicy::Allow`](crate::OverflowPolicy::Allow): they are as good as new.
    pub dropped: u64,
    /// Keys that were forgotten to make room meanwhile, under
    /// [`OverflowPolicy::EvictLeastDebt`](crate::OverflowPolicy::EvictLeastDebt): restored ones, older ones,
    /// and those that concurrent checks evicted.
    pub evicted: u64,
}

/// Why a snapshot can not be restored. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// Its keys were hashed by another algorithm or under another secret: they name nobody here. Give
    /// both limiters one [`LimiterBuilder::hasher`](crate::LimiterBuilder::hasher).
    OtherHasher,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherHasher => "the snapshot's keys were hashed by another hasher",
        })
    }
}

impl core::error::Error for RestoreError {}
