//! Which slots of a line name a key, as a hint.
//!
//! A core that waits for a line executes what does not depend on it, as far as its buffers hold.
//! Vector instructions have buffers of their own, so a probe by them takes no room from the rest of
//! the check, and several lines are loaded at once.

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
