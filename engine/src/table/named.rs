//! Which slots of a line name a key, as a hint.
//!
//! While a core waits for a line it executes later instructions out of order, until it holds as
//! many as it can, or the queues in which those wait that depend on the line are full. Vector
//! instructions wait in queues of their own, so a probe by them leaves those of the integer
//! instructions to the rest of the check and to the checks after it: the cache misses of several
//! checks overlap.

use crate::base::key::KeyHash;

use super::line::CacheLine;

impl CacheLine {
    /// The slots whose tags seem to name `key`, one bit each, the lowest for the first slot; all
    /// that do name it are among them. Proves nothing, like every probe of a tag (U1).
    #[inline]
    pub(super) fn named(&self, key: KeyHash) -> u32 {
        // Tests stop threads at each atomic operation, and models explore its order.
        if cfg!(test) { self.named_one_by_one(key) } else { self.named_at_once(key) }
    }

    #[inline]
    fn named_one_by_one(&self, key: KeyHash) -> u32 {
        let slots = self.slots.iter().enumerate();
        slots.fold(0, |named, (index, slot)| named | u32::from(slot.hints_at(key)) << index)
    }
}

#[cfg(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    target_pointer_width = "64",
    not(any(loom, interleave, miri))
))]
mod vectors;

#[cfg(not(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    target_pointer_width = "64",
    not(any(loom, interleave, miri))
)))]
impl CacheLine {
    #[inline]
    fn named_at_once(&self, key: KeyHash) -> u32 {
        self.named_one_by_one(key)
    }
}
