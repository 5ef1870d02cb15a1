//! Which slots of a line name a key, at a first look.
//!
//! A core that waits for a line goes on with what does not depend on it, for as long as it has room to keep what
//! does. Vector instructions are kept apart from all others, so a look by them takes no room from the
//! rest of the check, and several lines are on their way at once.

use crate::key::KeyHash;

use super::lines::Line;

impl Line {
    /// The slots whose tags agree with the key's in the high half, a bit each, the first one's the lowest. Proves
    /// nothing, like any first look at a tag (U1).
    #[cfg(all(target_arch = "x86_64", not(any(loom, interleave))))]
    #[inline]
    pub(super) fn named(&self, key: KeyHash) -> u32 {
        use core::arch::x86_64::{_mm_cvtsi64_si128, _mm_shuffle_epi32};

        let tag = key.high_tag().cast_signed();
        // SAFETY: SSE2 is part of every x86-64.
        let wanted = unsafe { _mm_shuffle_epi32::<0b01_01_01_01>(_mm_cvtsi64_si128(tag)) };
        let named: u32;
        // SAFETY: reads the tags of this line's four slots, which lie 16 bytes apart from its beginning on (asserted
        // below). Each is read by a load of 8 aligned bytes, as an atomic load of it is. Nothing is written.
        unsafe {
            core::arch::asm!(
                "movq {low}, qword ptr [{line}]",
                "movhps {low}, qword ptr [{line} + 16]",
                "movq {high}, qword ptr [{line} + 32]",
                "movhps {high}, qword ptr [{line} + 48]",
                // The high halves of all four.
                "shufps {low}, {high}, 0xdd",
                "pcmpeqd {low}, {wanted}",
                "movmskps {named:e}, {low}",
                line = in(reg) core::ptr::from_ref(self),
                wanted = in(xmm_reg) wanted,
                low = out(xmm_reg) _,
                high = out(xmm_reg) _,
                named = lateout(reg) named,
                options(readonly, nostack, preserves_flags),
            );
        }
        named
    }

    /// The slots whose tags name `key`, a bit each, the first one's the lowest. Proves nothing, like any first
    /// look at a tag (U1).
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, interleave)))))]
    #[inline]
    pub(super) fn named(&self, key: KeyHash) -> u32 {
        let slots = self.slots.iter().enumerate();
        slots.fold(0, |named, (index, slot)| named | u32::from(slot.hints_at(key)) << index)
    }
}

#[cfg(all(target_arch = "x86_64", not(any(loom, interleave))))]
const _: () = {
    use super::lines::{SLOTS, Slot};

    assert!(SLOTS == 4 && size_of::<Slot>() == 16 && core::mem::offset_of!(Slot, tag) == 0);
};

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use crate::gcra::Tat;
    use crate::sync::Ordering;
    use crate::table::Table;
    use crate::table::bits::{Generation, Tag};

    use super::*;

    /// Tags of the key, of one that differs in a bit of the half that is looked at, and of nobody.
    #[test]
    fn a_first_look_finds_the_slots_of_a_key() {
        let key = KeyHash::from_bits(0x0321_4567_89ab_cdef);
        let table = Table::with_lines(1, Tat).unwrap();
        let line = table.home(key).line;
        for owners in 0..4_u32.pow(4) {
            let owner = |index: usize| owners >> (2 * index) & 3;
            for (index, slot) in line.slots.iter().enumerate() {
                let other = |bit: u32| KeyHash::from_bits(key.to_bits() ^ 1 << bit);
                let tag = |key| Tag::new(key, 3, Generation::default().next()).0;
                let tags = [0, tag(key), tag(other(46)), tag(other(15))];
                slot.tag.store(tags[owner(index) as usize], Ordering::Relaxed);
            }
            let expected = (0..4).filter(|index| owner(*index) == 1).map(|index| 1 << index).sum();
            assert_eq!(line.named(key), expected, "{owners:#x}");
        }
    }
}
