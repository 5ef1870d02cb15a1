//! Which slots of a line name a key, at a first look.
//!
//! A core that waits for a line goes on with what does not depend on it, for as long as it has room to keep what
//! does. Vector instructions are kept apart from all others, so a look by them takes no room from the
//! rest of the check, and several lines are on their way at once.

use crate::key::KeyHash;

use super::lines::Line;

impl Line {
    /// The slots whose tags seem to name `key`, a bit each, the first one's the lowest; all that do name it are among
    /// them. Proves nothing, like any first look at a tag (U1).
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

cfg_select! {
    all(
        target_arch = "x86_64",
        target_feature = "sse2",
        target_pointer_width = "64",
        not(any(loom, interleave, miri))
    ) => {
        mod vectors;
    }
    _ => {
        impl Line {
            #[inline]
            fn named_at_once(&self, key: KeyHash) -> u32 {
                self.named_one_by_one(key)
            }
        }
    }
}
