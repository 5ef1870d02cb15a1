//! The hasher of keys, which the cluster agrees on while its nodes run.
//!
//! | site | ordering | partner | what breaks if weaker |
//! |---|---|---|---|
//! | K1 the index is stored | release | K2: a thread that reads the index finds the hasher in its place | a hash by the first hasher, for a moment |
//! | K2 the index is loaded | acquire | K1 | as K1 |
//! | K3 the index is loaded by the thread that stores it | relaxed | none: it stored it | - |

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tidegate_engine::KeyHasher;
use tidegate_engine::key::HasherSource;

use crate::protocol::MAX_HASH_KEYS;

/// The hashers of this run, each written once, and which of them is in force.
///
/// Reading takes two loads, and waits for no other thread.
#[derive(Debug)]
pub(crate) struct Keys {
    first: KeyHasher,
    later: [OnceLock<KeyHasher>; MAX_HASH_KEYS],
    /// The place of the present one among the later ones, and one more; 0 for the first.
    at: AtomicUsize,
}

impl Keys {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let later = std::array::from_fn(|_| OnceLock::new());
        Self { first: hasher(key), later, at: AtomicUsize::new(0) }
    }

    /// Puts a key in force. One thread at a time; the protocol bounds how many.
    pub(super) fn change(&self, key: [u8; 16]) {
        let at = self.at.load(Ordering::Relaxed); // K3
        if self.later.get(at).is_some_and(|place| place.set(hasher(key)).is_ok()) {
            self.at.store(at + 1, Ordering::Release); // K1
        }
    }

    /// A hasher that is always the present one.
    pub(crate) fn hasher(self: &Arc<Self>) -> KeyHasher {
        KeyHasher::following(Arc::clone(self) as Arc<dyn HasherSource>)
    }
}

impl HasherSource for Keys {
    #[inline]
    fn current(&self) -> &KeyHasher {
        let at = self.at.load(Ordering::Acquire); // K2
        let later = at.checked_sub(1).and_then(|at| self.later.get(at)?.get());
        later.unwrap_or(&self.first)
    }
}

/// SipHash-1-3-128: clients choose keys, and can observe decisions.
fn hasher(key: [u8; 16]) -> KeyHasher {
    KeyHasher::siphash(key)
}

#[cfg(test)]
mod tests {
    use tidegate_engine::Key as _;

    use super::*;

    #[test]
    fn the_hasher_in_force_is_the_last() {
        let keys = Arc::new(Keys::new([0; 16]));
        let following = keys.hasher();
        for number in 0..=MAX_HASH_KEYS as u8 {
            if number > 0 {
                keys.change([number; 16]);
            }
            let expected = "key".hash_with(&KeyHasher::siphash([number; 16]));
            assert_eq!("key".hash_with(&following), expected);
            assert_eq!("key".hash_with(keys.current()), expected);
        }
        // Beyond the bound nothing changes.
        keys.change([255; 16]);
        let last = KeyHasher::siphash([MAX_HASH_KEYS as u8; 16]);
        assert_eq!("key".hash_with(&following), "key".hash_with(&last));
    }
}
