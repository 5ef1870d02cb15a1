//! A key in each of the lines it may live in.

use crate::KeyHash;

use super::{COMPLETE, LARGE, Model, NOW, PAIR, TRIO, key};

/// A table in which all slots are live but the `vacant` ones.
fn filled(lines: usize, key: KeyHash, vacant: &[(usize, usize)]) -> Model {
    Model::of(lines).filled(key, vacant, NOW + 9)
}

/// Home, the other line of its block, and the lines of further blocks.
#[test]
fn charges_in_any_line_add_up() {
    for (lines, line) in [(1, 0), (2, 0), (2, 1), (4, 1), (4, 2), (4, 3), (6, 4), (6, 5)] {
        let key = key(1);
        let model = filled(lines, key, &[(line, 1)]).given_in(key, line, 1, NOW);
        let model = model.check_together(2, key, 2);
        let model = model.always(move |at| assert_eq!(at.charged(key), at.admitted()));
        model.explore(if lines < 4 { COMPLETE } else { PAIR }, |end| assert_eq!(end.admitted(), 2));
    }
}

/// One slot is vacant in all lines: two claimers of one key meet there.
#[test]
fn first_checks_in_any_line_admit_one_burst() {
    for (lines, line) in [(2, 0), (2, 1), (4, 1), (4, 2), (4, 3), (6, 4), (6, 5)] {
        let key = key(1);
        let model = filled(lines, key, &[(line, 0)]).check_together(2, key, 1);
        let model = model.always(move |at| assert_eq!(at.charged(key), at.admitted()));
        model.explore(PAIR, |end| assert_eq!(end.admitted(), 1));
    }
}

/// Two slots are vacant, and two new keys claim the one that both meet first.
#[test]
fn first_checks_of_two_keys_in_any_line_both_find_a_place() {
    for (lines, first, second) in [(2, 0, 1), (2, 1, 1), (4, 2, 3), (4, 3, 3), (6, 3, 5), (6, 4, 5)]
    {
        let (left, right) = (key(1), key(2));
        let model = filled(lines, left, &[(first, 0), (second, 1)]);
        let model = model.checks(left, 1).checks(right, 1);
        let model = model.always(move |at| {
            assert_eq!(at.charged(left) + at.charged(right), at.admitted());
        });
        model.explore(PAIR, move |end| {
            assert_eq!((end.admitted(), end.evicted()), (2, 0));
            assert_eq!((end.charged(left), end.charged(right)), (1, 1));
        });
    }
}

/// Two slots are vacant, in different lines; a third key takes one of them meanwhile, so the
/// claimers may have chosen different lines.
#[test]
fn claimers_of_one_key_in_different_lines_settle_on_one() {
    let (key, filler) = (key(1), key(2));
    let model = filled(2, key, &[(0, 1), (1, 0)]);
    let model = model.checks(filler, 1).check_together(2, key, 1);
    let model = model.always(move |at| assert!(at.charged(key) <= 1));
    model.explore(TRIO, move |end| {
        assert_eq!((end.admitted(), end.evicted()), (2, 0));
        assert_eq!((end.charged(key), end.charged(filler)), (1, 1));
    });
}

/// The first vacant slot has expired for one claimer and not for the other, so they choose lines of
/// different blocks.
#[test]
fn claimers_of_one_key_in_different_blocks_settle_on_one() {
    for (lines, first, second) in [(4, 1, 3), (6, 1, 5), (6, 3, 5)] {
        let (key, departed) = (key(1), key(2));
        let model = filled(lines, key, &[(first, 0), (second, 1)]);
        let model = model.given_in(departed, first, 0, NOW - 1);
        let model = model.thread(move |s| super::check_at(s, key, 1, NOW - 2, NOW));
        let model = model.checks(key, 1);
        model.explore(PAIR, move |end| {
            assert_eq!((end.admitted(), end.charged(key)), (1, 1));
        });
    }
}

/// A key departs from each of its lines while it is checked.
#[test]
fn a_departing_key_in_any_line_charges_its_own() {
    for (lines, line) in [(2, 0), (2, 1), (4, 2), (4, 3), (6, 4), (6, 5)] {
        let (departing, coming, departed) = (key(1), key(2), key(3));
        let vacant = [(line, 0), (line, 1)];
        let model = filled(lines, departing, &vacant).given_in(departing, line, 0, NOW - 1);
        // Vacant for less time, so the departing key's slot is taken.
        let model = model.given_in(departed, line, 1, NOW);
        let model = model.checks(departing, 1).checks(coming, 1);
        model.explore(PAIR, move |end| {
            assert_eq!((end.admitted(), end.evicted()), (2, 0));
            assert_eq!((end.charged(departing), end.charged(coming)), (1, 1));
        });
    }
}

/// Eviction from any line, while the evicted key is checked.
#[test]
fn eviction_from_any_line_charges_each_its_own() {
    for (lines, line) in [(2, 0), (2, 1), (4, 2), (6, 4)] {
        let (victim, coming) = (key(1), key(2));
        let model = filled(lines, victim, &[(line, 1)]).given_in(victim, line, 1, NOW + 1);
        let model = model.checks(victim, 2).checks(coming, 3);
        let model = model.always(move |at| {
            assert!(at.charged(coming) <= 1 && at.charged(victim) <= 2);
        });
        let bound = if lines < 6 { PAIR } else { LARGE };
        // Two keys steal one slot from each other at most as often as each has slots.
        model.large().within(1_000).explore(bound, |end| assert_eq!(end.admitted(), 2));
    }
}
