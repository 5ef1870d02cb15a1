//! How two nodes' words of one key approach each other.
//!
//! On a key that stays in debt nothing ever drains a difference between two nodes' words, and the
//! node with more debt admits less. So nodes send each other their *level*, the key's debt, with
//! the *cut*: how far the word contains each origin. Of two nodes the one with the lower address
//! compares: its own level at the same cut with the other's. It moves by a part of the difference,
//! and sends the other a shift by as much towards it. So the sum of all words stays whatever either
//! node takes the other's clock for: where both compared for themselves, an error of the clocks
//! would lower or raise all words a little with each comparison.
//!
//! The part is one in the number of nodes. All pairs that compare at once then meet in the mean.
//!
//! A word that stops at zero forgets a difference, which is then no longer there to be mended: the
//! word is as good as the other one. Not where it stays near zero while the key is scarce for
//! others, as when one node lacked what others consumed in a partition: what it consumes and what
//! is left to the others make up the limit's rate, so that neither word moves again, and the
//! others' nodes starve. Words that are so far [apart](are_apart) approach each other whatever they
//! have forgotten.

use super::change::Change;
use super::time::Nanos;

/// Shares of the burst tolerance, as divisors: words are apart where one owes no more than the
/// first, and the other more than the second. The more nodes split what is left of a key, the more
/// of it stays unused, up to half.
const LITTLE_DIVISOR: u64 = 10;
const MUCH_DIVISOR: u64 = 2;

/// Whether two words at one cut are so far apart that one of them has forgotten nearly all of what
/// the other one owes.
pub(super) fn are_apart(one: Nanos, other: Nanos, tolerance: Nanos) -> bool {
    one.min(other) <= tolerance / LITTLE_DIVISOR && one.max(other) > tolerance / MUCH_DIVISOR
}

/// What another node's TAT is with what it lacks, and whether its word was empty meanwhile.
pub(super) fn with_beyond(peer: i64, beyond: &mut [Change]) -> (i64, bool) {
    beyond.sort_unstable_by_key(|change| change.date);
    beyond.iter().fold((peer, false), |(tat, was_empty), change| {
        (change.apply(tat), was_empty || tat < change.date)
    })
}

/// By how much this node's word moves, of `nodes`. `own` is its TAT, which has not been empty since
/// the cut; `peer` is the other node's at the cut, and `beyond` what this node's word contains
/// after it; all on one clock.
///
/// `None` where the other node's word would have been empty at any time since: a word that stops at
/// zero has forgotten a difference, which is no longer there to be mended.
pub(super) fn step(
    own: i64,
    peer: i64,
    beyond: &mut [Change],
    now: i64,
    nodes: i64,
) -> Option<i64> {
    let (peer, was_empty) = with_beyond(peer, beyond);
    (!was_empty && peer > now).then(|| part(own, peer, nodes))
}

/// The part of a difference by which a word moves.
pub(super) fn part(own: i64, peer: i64, nodes: i64) -> i64 {
    peer.saturating_sub(own) / nodes.max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_at_one_cut_meet_in_the_middle() {
        let beyond = || [Change { debt: 7, date: 95 }, Change { debt: 3, date: 90 }];
        // At the cut this node stood at 140 - 10, the other at 160.
        assert_eq!(step(140, 160, &mut beyond(), 100, 2), Some(15));
        assert_eq!(step(170, 130, &mut beyond(), 100, 2), Some(-15));
        assert_eq!(step(140, 130, &mut beyond(), 100, 2), Some(0));
    }

    #[test]
    fn words_are_apart_where_one_is_half_full_and_the_other_nearly_empty() {
        for (one, other, apart) in
            [(0, 51, true), (10, 51, true), (11, 91, false), (0, 50, false), (91, 300, false)]
        {
            assert_eq!(are_apart(one, other, 100), apart, "{one} {other}");
            assert_eq!(are_apart(other, one, 100), apart, "{other} {one}");
        }
    }

    #[test]
    fn a_word_that_was_empty_since_the_cut_is_left_alone() {
        let mut late = [Change { debt: 50, date: 98 }];
        assert_eq!(step(160, 97, &mut late, 100, 2), None, "it was empty at 97");
        assert_eq!(step(160, 100, &mut [], 100, 2), None);
        assert_eq!(step(160, 98, &mut late, 100, 2), Some(-6));
    }
}
