//! Changes of keys.

use super::change::Change;
use super::time::Nanos;
use crate::inline;

/// A limit and a key.
pub(super) type KeyId = (u64, u64);

/// The change of one key of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The limit, as a [`LimitId`](crate::LimitId)'s bits.
    pub limit: u64,
    /// The key, as a [`KeyHash`](tidegate_engine::KeyHash)'s bits.
    pub key: u64,
    /// What happened to its debt.
    pub change: Change,
}

impl Delta {
    /// The limit and the key.
    #[must_use]
    pub fn id(&self) -> (u64, u64) {
        (self.limit, self.key)
    }

    /// The id of the word that this changes: of a state, which says nothing of quotas, the limit
    /// and the key.
    pub(super) fn word_id(&self) -> KeyId {
        word_id(self.id())
    }
}

/// The id of a key's word.
pub(super) fn word_id((limit, key): KeyId) -> KeyId {
    (inline::words_of(limit), key)
}

/// A time as a signed number.
pub(super) fn signed(time: Nanos) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}
