//! The hasher of keys, which the cluster agrees on while its nodes run.
//!
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | K1 the index is stored | release | K2: a thread that reads the index finds the hasher in its place | a hash by the first hasher, for a moment | - |
//! | K2 the index is loaded | acquire | K1 | as K1 | - |
//! | K3 the index is loaded by the thread that stores it | relaxed | none: it stored it | - | - |

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tidegate_engine::KeyHasher;
use tidegate_engine::key::HasherSource;

use crate::protocol::MAX_HASH_KEYS;

/// Folders of hashers beyond the first ones: for 182 days of a new key a minute, which is as often
/// as the protocol takes one over. After that the last one stays.
const FOLDERS: usize = 12;

/// The hashers of this run, each written once, and which of them is in force.
///
/// Reading takes two loads, three beyond the first [`MAX_HASH_KEYS`], and waits for no other
/// thread.
#[derive(Debug)]
pub(crate) struct Keys {
    first: KeyHasher,
    later: [OnceLock<KeyHasher>; MAX_HASH_KEYS],
    /// Each is twice as large as the one before, and made when it is needed.
    beyond: [OnceLock<Box<[OnceLock<KeyHasher>]>>; FOLDERS],
    /// The place of the present one among the later ones, and one more; 0 for the first.
    at: AtomicUsize,
}

impl Keys {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let later = std::array::from_fn(|_| OnceLock::new());
        let beyond = std::array::from_fn(|_| OnceLock::new());
        Self { first: hasher(key), later, beyond, at: AtomicUsize::new(0) }
    }

    /// Puts a key in force. One thread at a time; the protocol bounds how many.
    pub(super) fn change(&self, key: [u8; 16]) {
        let at = self.at.load(Ordering::Relaxed); // K3
        let place = self.later.get(at).or_else(|| {
            let (folder, place) = beyond(at);
            let size = MAX_HASH_KEYS << folder;
            let new = || (0..size).map(|_| OnceLock::new()).collect();
            self.beyond.get(folder)?.get_or_init(new).get(place)
        });
        if place.is_some_and(|place| place.set(hasher(key)).is_ok()) {
            self.at.store(at + 1, Ordering::Release); // K1
        }
    }

    #[cold]
    fn get_beyond(&self, at: usize) -> Option<&KeyHasher> {
        let (folder, place) = beyond(at);
        self.beyond.get(folder)?.get()?.get(place)?.get()
    }

    /// A hasher that is always the present one.
    pub(crate) fn hasher(self: &Arc<Self>) -> KeyHasher {
        KeyHasher::from_source(Arc::clone(self) as Arc<dyn HasherSource>)
    }
}

impl HasherSource for Keys {
    #[inline]
    fn current(&self) -> &KeyHasher {
        let at = self.at.load(Ordering::Acquire); // K2
        let Some(at) = at.checked_sub(1) else { return &self.first };
        let later = match self.later.get(at) {
            Some(later) => later.get(),
            None => self.get_beyond(at),
        };
        later.unwrap_or(&self.first)
    }
}

/// The folder of a place beyond the first ones, and the place in it: as many places are before a
/// folder as it has.
fn beyond(at: usize) -> (usize, usize) {
    let folder = (at / MAX_HASH_KEYS).checked_ilog2().unwrap_or(0);
    (folder as usize, at - (MAX_HASH_KEYS << folder))
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
        for number in 0..20 * MAX_HASH_KEYS as u64 {
            let key = std::array::from_fn(|place| number.to_le_bytes()[place % 8]);
            if number > 0 {
                keys.change(key);
            }
            let expected = "key".hash_with(&KeyHasher::siphash(key));
            assert_eq!("key".hash_with(&following), expected, "{number}");
            assert_eq!("key".hash_with(keys.current()), expected, "{number}");
        }
    }
}
