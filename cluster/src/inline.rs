//! Limits whose quota comes with each check.
//!
//! They share one limiter, and so a key has one word for all of them. What nodes have to know of
//! the quota is in the id of the limit: its burst tolerance and the debt of a unit, in nanoseconds,
//! each as a number of 11 bits whose first 6 are an exponent. Ids are the same on every node for
//! the same quota.

/// Bits of a duration after its first one.
const FRACTION_BITS: u32 = 5;
/// Bits of a duration in an id.
const CODE_BITS: u32 = 6 + FRACTION_BITS;
/// The ids of such limits are those from here on.
pub(crate) const FIRST: u64 = u64::MAX << (2 * CODE_BITS);

/// The id of a limit of this burst tolerance and debt of a unit.
pub(crate) const fn id(tolerance: u64, unit: u64) -> u64 {
    FIRST | code(tolerance) << CODE_BITS | code(unit)
}

/// The id under which the words of a limit are kept.
pub(crate) const fn words_of(limit: u64) -> u64 {
    if limit >= FIRST { 0 } else { limit }
}

/// The burst tolerance of such a limit, less 3 % at most; `None` for any other limit.
pub(crate) fn tolerance(limit: u64) -> Option<u64> {
    (limit >= FIRST).then(|| duration(limit >> CODE_BITS))
}

/// The debt of a unit, less 3 % at most; `None` for any other limit.
pub(crate) fn unit(limit: u64) -> Option<u64> {
    (limit >= FIRST).then(|| duration(limit))
}

/// Durations below 2^5 as they are; of others the position of the first bit, and the next 5.
const fn code(duration: u64) -> u64 {
    if duration < 1 << FRACTION_BITS {
        return duration;
    }
    let shift = duration.ilog2() - FRACTION_BITS;
    let fraction = (duration >> shift) & ((1 << FRACTION_BITS) - 1);
    (shift as u64 + 1) << FRACTION_BITS | fraction
}

/// The least duration of a code.
const fn duration(code: u64) -> u64 {
    let code = code & ((1 << CODE_BITS) - 1);
    let (shift, fraction) = (code >> FRACTION_BITS, code & ((1 << FRACTION_BITS) - 1));
    if shift == 0 { fraction } else { ((1 << FRACTION_BITS) | fraction) << (shift - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_id_says_is_at_most_a_thirty_second_too_low() {
        for bits in 0..64 {
            for value in [1_u64 << bits, (1 << bits) + (1 << bits) / 3, u64::MAX >> (63 - bits)] {
                let limit = id(value, 7);
                let found = tolerance(limit).unwrap();
                assert!(found <= value && value - found <= value / 32, "{value}: {found}");
                assert_eq!(duration(code(found)), found);
                assert_eq!((tolerance(id(7, value)), unit(id(7, value))), (Some(7), Some(found)));
            }
        }
        assert_eq!(tolerance(id(0, u64::MAX)), Some(0));
    }

    #[test]
    fn other_ids_say_nothing_and_have_words_of_their_own() {
        for limit in [0, 1, FIRST - 1] {
            assert_eq!((tolerance(limit), unit(limit), words_of(limit)), (None, None, limit));
        }
        assert_eq!(words_of(id(100, 1)), 0);
    }
}
