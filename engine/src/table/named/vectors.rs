//! The probe of a line by vector instructions of x86-64.

use core::arch::x86_64::{_mm_cvtsi64_si128, _mm_shuffle_epi32};

use crate::base::key::KeyHash;
use crate::table::line::{CacheLine, SLOTS, Slot};

// The encoding is that of the surrounding code: mixing the two may cost a stall.
#[cfg(target_feature = "avx")]
macro_rules! probe {
    () => {
        "vmovq {low}, qword ptr [{line}]
         vmovhps {low}, {low}, qword ptr [{line} + 16]
         vmovq {high}, qword ptr [{line} + 32]
         vmovhps {high}, {high}, qword ptr [{line} + 48]
         vshufps {low}, {low}, {high}, 0xdd
         vpcmpeqd {low}, {low}, {wanted}
         vmovmskps {named:e}, {low}"
    };
}
#[cfg(not(target_feature = "avx"))]
macro_rules! probe {
    () => {
        "movq {low}, qword ptr [{line}]
         movhps {low}, qword ptr [{line} + 16]
         movq {high}, qword ptr [{line} + 32]
         movhps {high}, qword ptr [{line} + 48]
         shufps {low}, {high}, 0xdd
         pcmpeqd {low}, {wanted}
         movmskps {named:e}, {low}"
    };
}

impl CacheLine {
    /// The slots whose tags agree with the key's in the high half, one bit each, the lowest for the
    /// first slot.
    #[inline]
    pub(super) fn named_at_once(&self, key: KeyHash) -> u32 {
        let tag = key.high_tag() as i64;
        // SAFETY: this is compiled only where SSE2 is part of the target.
        let wanted = unsafe { _mm_shuffle_epi32::<0b01_01_01_01>(_mm_cvtsi64_si128(tag)) };
        let named: u32;
        // SAFETY: reads the tags of this line's four slots, which are 16 bytes apart from its
        // beginning on (asserted below). Each is read by an aligned load of 8 bytes, as a relaxed
        // atomic load of it is. Only the named registers are written; neither the stack nor flags
        // are touched. SSE2, or AVX, is part of the target.
        unsafe {
            core::arch::asm!(
                probe!(),
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
}

const _: () = assert!(SLOTS == 4 && size_of::<Slot>() == 16);
const _: () = assert!(core::mem::offset_of!(Slot, tag) == 0);

#[cfg(test)]
mod tests {
    use crate::base::sync::Ordering;
    use crate::rule::gcra::Tat;
    use crate::table::Table;
    use crate::table::bits::{Generation, Tag};

    use super::*;

    /// Each slot's tag is the key's, one that differs from it in the highest or lowest bit of the
    /// half that is compared, or no key's.
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
            let expected: u32 =
                (0..4).filter(|index| owner(*index) == 1).map(|index| 1 << index).sum();
            assert_eq!(line.named_at_once(key), expected, "{owners:#x}");
            assert_eq!(line.named_one_by_one(key), expected, "{owners:#x}");
        }
    }
}
