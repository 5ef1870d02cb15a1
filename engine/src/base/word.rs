//! The word of a key: what a table and the arithmetic on its values have to know of each other.

/// Bits of the value in a settled word.
pub(crate) const VALUE_BITS: u32 = 59;

/// What a table needs to know about the values of an algorithm.
pub trait State {
    /// The time from which a key with this value is exactly a fresh key; 0 for the value 0, which
    /// is a fresh key's at all times.
    fn fresh_from(&self, value: u64) -> u64;

    /// The order of eviction: of two live values the one with the lower rank is evicted first. It
    /// should be the one that expires first. At most the largest value.
    fn rank(&self, value: u64) -> u64 {
        value
    }
}

/// What [`Home::update`](crate::table::Home::update) did, with the `now` it decided at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The key's value was `before` (0: no live word) and has been replaced.
    Written { before: u64, now: u64 },
    /// The key's value is `found` (0: none) and was not changed.
    Unchanged { found: u64, now: u64 },
    /// Every slot the key may have holds a live key or is being claimed for another, the first of
    /// them until `fresh_from`, and the policy is not to evict. `admitted` says whether the key is
    /// admitted, without a charge.
    Full { fresh_from: u64, now: u64, admitted: bool },
}
