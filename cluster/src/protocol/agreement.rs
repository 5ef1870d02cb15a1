//! How two nodes' words of one key approach each other.
//!
//! On a key that stays in debt nothing ever drains a difference between two nodes' words, and the
//! node with more debt admits less. So nodes tell each other their *level*, the key's debt, with
//! the *cut*: how far the word contains each origin. Of two nodes the one with the lower address
//! compares: its own level at the same cut with the other's. It moves by a part of the difference,
//! and tells the other to move by as much towards it. So the sum of all words stays whatever either
//! node takes the other's clock for: where both compared for themselves, an error of the clocks
//! would lower or raise all words a little with each comparison.
//!
//! The part is one in the number of nodes. All pairs that compare at once then meet in the mean.

use super::change::Change;

/// By how much this node's word moves, of `nodes`. `own` is its TAT, which has not been empty since
/// the cut; `peer` is the other node's at the cut, and `beyond` what this node's word contains
/// behind it; all on one clock.
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
    beyond.sort_unstable_by_key(|change| change.date);
    let mut aged = peer;
    for change in beyond.iter() {
        if aged < change.date {
            return None;
        }
        aged = aged.saturating_add(change.debt);
    }
    (aged > now).then(|| aged.saturating_sub(own) / nodes.max(2))
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
    fn a_word_that_was_empty_since_the_cut_is_left_alone() {
        let mut late = [Change { debt: 50, date: 98 }];
        assert_eq!(step(160, 97, &mut late, 100, 2), None, "it was empty at 97");
        assert_eq!(step(160, 100, &mut [], 100, 2), None);
        assert_eq!(step(160, 98, &mut late, 100, 2), Some(-6));
    }
}
