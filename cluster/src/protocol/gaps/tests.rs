use super::*;

const ID: KeyId = (1, 1);

fn delta(debt: i64, date: i64) -> Delta {
    Delta { limit: ID.0, key: ID.1, change: Change { debt, date } }
}

/// A key that has just been used for the first time: it owes 5 at 100.
fn followed() -> Gaps {
    let mut gaps = Gaps::default();
    gaps.consumed(100, &delta(5, 100), || 5);
    gaps
}

#[test]
fn a_change_that_comes_late_drains_where_the_word_was_empty() {
    let mut gaps = followed();
    // Empty from 105 to 120 and from 125 to 130.
    gaps.consumed(120, &delta(5, 120), || 5);
    gaps.consumed(130, &delta(5, 130), || 5);
    assert_eq!(gaps.last_end(ID), Some(130));
    let mut landed = |debt, date| gaps.landed(135, &delta(debt, date), 0);
    assert_eq!(landed(3, 127), Change::new(0, 127), "in the gap that ends at 130");
    assert_eq!(landed(3, 127), Change::new(3, 127), "which is full");
    assert_eq!(landed(12, 110), Change::new(0, 110), "in both");
    assert_eq!(landed(6, 101), Change::new(1, 101));
    assert_eq!(landed(6, 140), Change::new(6, 140), "it was empty at 140");
    assert_eq!(gaps.last_end(ID), Some(140));
}

/// In any order.
#[test]
fn changes_make_what_they_make_in_the_order_of_their_dates() {
    let mut all: Vec<Change> =
        (0..40).map(|n: i64| Change::new(n * 7 % 11 + 1, 100 + n * n % 313)).collect();
    let mut by_date = all.clone();
    by_date.sort_by_key(|change| change.date);
    let expected = by_date.iter().fold(0, |tat, change| change.apply(tat));
    for turn in 0..40 {
        all.rotate_left(turn);
        let mut track = Track { tat: 0, gaps: VecDeque::new(), since: 0 };
        let sum = all.iter().fold(0, |tat: i64, change| track.insert(*change).apply(tat));
        assert_eq!((track.tat, sum), (expected, expected));
    }
}

#[test]
fn a_key_that_is_not_followed_is_charged_whole() {
    let mut gaps = Gaps::default();
    assert_eq!(gaps.landed(100, &delta(5, 90), 3), Change::new(5, 90));
    assert_eq!(gaps.landed(120, &delta(5, 118), 0), Change::new(5, 118));
    assert_eq!(gaps.last_end(ID), Some(118), "from then on it is followed");
    gaps.forget(ID);
    assert_eq!(gaps.last_end(ID), None);
}

#[test]
fn what_has_drained_makes_room() {
    let mut gaps = Gaps::default();
    for key in 0..=MAX_KEYS as u64 {
        gaps.consumed(0, &Delta { key, ..delta(5, 0) }, || 5);
    }
    assert_eq!(gaps.keys.len(), MAX_KEYS);
    let next = Delta { key: MAX_KEYS as u64 + 1, ..delta(5, signed(3 * SECOND)) };
    gaps.consumed(3 * SECOND, &next, || 5);
    assert_eq!(gaps.keys.len(), 1);
}
