//! The values of quotas that change: on a ring, so that their range is never used up.
//!
//! Serial numbers as in RFC 1982. A TAT is counted from the moment at which its quota came into
//! force; its value is that much above the *floor* of that quota, modulo 2^59. Each floor is above
//! the values under the quota before, so that both can be distinguished while there are both.
//!
//! Words hold 59 bits of a value. What holds all 64, such as a receipt, stands on a ring that is 32
//! times as long.

use super::{TAT_MAX, TAU_MAX};

/// The number of different values in words: 2^59.
pub(crate) const RING: u64 = TAT_MAX + 1;

/// The first floor. No floor is less, modulo [`RING`]: the value 0 is that of a key without a word,
/// and from 1 on the highest TAT would have it.
pub(crate) const FIRST: u64 = 2;

/// The most that a key owes, in units: 2^57 + 2^54, at least 5.1 years. Charges saturate here. All
/// that the longest burst admits is less.
pub(crate) const DEBT_MAX: u64 = TAU_MAX + (1 << 54);

/// The floor `units` above another, or one more.
pub(crate) const fn above(floor: u64, units: u64) -> u64 {
    let next = floor.wrapping_add(units);
    let at = next & TAT_MAX;
    if at < FIRST { next + (FIRST - at) } else { next }
}

/// The value of a TAT. The one TAT whose value would be 0 is rounded up by a unit.
#[inline]
pub(crate) const fn value(floor: u64, tat: u64) -> u64 {
    let value = floor.wrapping_add(tat);
    value + (value & TAT_MAX == 0) as u64
}

/// How far a value is above a floor: its TAT, if it is one of that quota.
#[inline]
pub(crate) const fn tat(floor: u64, value: u64) -> u64 {
    value.wrapping_sub(floor) & TAT_MAX
}

/// As [`tat`], of all 64 bits of a value: `None` where it is below the floor.
pub(crate) const fn whole_tat(floor: u64, value: u64) -> Option<u64> {
    let tat = value.wrapping_sub(floor);
    if tat <= TAT_MAX { Some(tat) } else { None }
}

#[cfg(all(test, not(any(loom, interleave))))]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_the_order_of_their_tats_wherever_the_floor_is() {
        for floor in [FIRST, RING / 2, RING - 1, RING + FIRST, 31 * RING + 7, u64::MAX] {
            let zero = RING - (floor & TAT_MAX);
            for at in [0, 1, 2, zero - 1, zero, RING / 2, TAT_MAX - 1, TAT_MAX] {
                let it = value(floor, at);
                assert_ne!(it & TAT_MAX, 0, "the value of a key without a word");
                let found = tat(floor, it & TAT_MAX);
                assert_eq!(found, if at == zero { at + 1 } else { at }, "above {floor}");
                assert_eq!(whole_tat(floor, it), Some(found));
                assert_eq!(whole_tat(above(floor, at + 2), it), None);
            }
            for more in [0, 1, 2] {
                let next = above(floor, zero - 1 + more);
                assert!((FIRST..=FIRST + 1).contains(&(next & TAT_MAX)) || more == 0);
            }
        }
    }
}
