use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

pub(super) const ID: KeyId = (1, 1);

pub(super) fn delta(debt: i64, date: i64) -> Delta {
    Delta { limit: ID.0, key: ID.1, change: Change { debt, date } }
}

/// Another node, and a third one.
pub(super) fn other() -> Origin {
    Origin { addr: ([10, 0, 0, 2], 1).into(), generation: 1 }
}

fn third() -> Origin {
    Origin { generation: 2, ..other() }
}

/// What a word owes.
fn owed(word: i64, now: i64) -> Nanos {
    Nanos::try_from(word - now).unwrap_or(0)
}

/// A key that has just been used for the first time: it owes 5 at 100.
pub(super) fn followed() -> IdleSpans {
    let mut spans = IdleSpans::default();
    spans.consumed(100, &delta(5, 100), || 5);
    spans
}

#[test]
fn a_change_that_comes_late_drains_where_the_word_was_empty() {
    let mut spans = followed();
    // Empty from 105 to 120 and from 125 to 130.
    spans.consumed(120, &delta(5, 120), || 5);
    spans.consumed(130, &delta(5, 130), || 5);
    assert_eq!(spans.last_end(ID), Some(130));
    let mut landed = |debt, date| spans.landed(135, 131, (other(), &delta(debt, date)), 0).debt;
    assert_eq!(landed(3, 127), 0, "in the span that ends at 130");
    assert_eq!(landed(3, 127), 3, "which is full");
    assert_eq!(landed(12, 110), 0, "in both");
    assert_eq!(landed(6, 101), 1);
    assert_eq!(landed(6, 140), 6, "it was empty at 140");
    assert_eq!(spans.last_end(ID), Some(140));
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
        let mut track = Track::new(0, 0);
        let sum = all.iter().fold(0, |tat: i64, change| track.insert(*change).apply(tat));
        assert_eq!((track.tat, sum), (expected, expected));
    }
}

#[test]
fn what_was_consumed_since_the_last_flush_leaves_the_time_before_it_empty() {
    let mut spans = followed();
    // The word owes 4 at 145, of which nothing has been flushed since 140.
    let mut landed = |debt, date| spans.landed(145, 140, (other(), &delta(debt, date)), 4);
    assert_eq!(landed(20, 110).debt, 0);
    assert_eq!(landed(20, 112), Change::new(10, 140), "in 10 of the span that ends at 140");
    assert_eq!(landed(20, 114), Change::new(20, 145), "which is full");
    spans.consumed(150, &delta(5, 142), || 29);
    assert_eq!(spans.keys[&ID].tat, 175);
}

/// A key is followed first when another node's change comes, while its word owes what was consumed
/// here and is not flushed.
#[test]
fn what_was_not_flushed_when_a_key_was_followed_counts_once() {
    let mut spans = IdleSpans::default();
    assert_eq!(spans.landed(100, 90, (other(), &delta(20, 100)), 4).debt, 20);
    spans.consumed(110, &delta(4, 98), || 14);
    assert_eq!(spans.keys[&ID].tat, 124);
    spans.consumed(120, &delta(6, 118), || 5);
    assert_eq!(spans.keys[&ID].tat, 130);
    // This node had reset the key before the other's change came.
    let mut spans = IdleSpans::default();
    assert_eq!(spans.landed(100, 90, (other(), &delta(50, 98)), 0).debt, 50);
    spans.consumed(110, &delta(-70, 96), || 38);
    assert_eq!(spans.keys[&ID].tat, 148);
}

/// What one node consumed and a second gave back comes in the other order.
#[test]
fn what_is_given_back_may_come_before_what_was_consumed() {
    let mut spans = IdleSpans::default();
    assert_eq!(spans.landed(100, 90, (other(), &delta(-20, 98)), 0).debt, -20);
    assert_eq!(
        spans.landed(101, 90, (other(), &delta(50, 95)), 0).debt,
        30,
        "of a key that was not followed"
    );
    let mut spans = followed();
    assert_eq!(spans.landed(101, 100, (other(), &delta(-20, 95)), 4).debt, -5);
    assert_eq!(
        spans.landed(102, 100, (other(), &delta(50, 93)), 0).debt,
        35,
        "before a key was followed"
    );
    assert_eq!(spans.landed(102, 100, (other(), &delta(7, 96)), 33).debt, 7, "consumed after that");
}

/// Clocks are read wrong, so that what was given back is dated before what it is of, and comes
/// before it too.
#[test]
fn what_is_given_back_too_early_is_of_what_comes_next() {
    for (date, used, left, next) in [
        (99, 50, 20, 40),
        (103, 50, 20, 40),
        (104, 50, 50, 10),
        // Of less than was given back.
        (103, 20, 20, 10),
    ] {
        let mut spans = IdleSpans::default();
        let given_back = delta(-30_000, 98);
        spans.begin(105, &given_back, 0);
        assert_eq!(spans.date((third(), &given_back), 5), 98);
        assert_eq!(spans.landed(105, 105, (other(), &given_back), 0).debt, 0);
        spans.landed(106, 105, (other(), &delta(used * 1_000, date)), 0);
        let tat = |spans: &IdleSpans| spans.keys[&ID].tat;
        assert_eq!(tat(&spans), date.max(98) + left * 1_000, "{used} at {date}");
        // Once.
        spans.landed(107, 105, (other(), &delta(40_000, 102)), 0);
        assert_eq!((tat(&spans) + 500) / 1_000 - left, next, "{used} at {date}");
    }
}

/// What one node sends comes in order: what it uses later is not what it gave back.
#[test]
fn what_a_node_has_given_back_is_not_of_what_it_uses_next() {
    for (by, left) in [(other(), 50_000), (third(), 20_000)] {
        let (mut spans, given_back) = (IdleSpans::default(), delta(-30_000, 98));
        spans.begin(105, &given_back, 0);
        spans.date((other(), &given_back), 5);
        spans.landed(105, 105, (other(), &given_back), 0);
        spans.landed(106, 105, (by, &delta(50_000, 101)), 0);
        assert_eq!(spans.keys[&ID].tat, 101 + left);
    }
}

/// What is used here while a change that gives something back is applied is not given back with it.
#[test]
fn what_is_given_back_is_no_more_than_what_was_owed() {
    let (mut spans, given_back) = (IdleSpans::default(), delta(-30_000, 98));
    assert!(spans.is_behind(100, ID, 20_000) && !spans.is_behind(100, ID, 0));
    spans.begin(100, &given_back, 20_000);
    assert!(!spans.is_behind(100, ID, 20_000) && !spans.is_behind(100, ID, 70_000));
    assert!(spans.is_behind(100, ID, 70_001));
    spans.begin(100, &given_back, 50_000);
    spans.consumed(100, &delta(20_000, 97), || 20_000);
    // It was charged 9,000 since.
    assert_eq!(spans.landed(100, 100, (other(), &given_back), 29_000).debt, -20_000);
    spans.consumed(110, &delta(9_000, 101), || 8_991);
    let added = spans.landed(111, 110, (other(), &delta(30_000, 96)), 8_990).debt;
    assert!((19_995..=20_000).contains(&added), "{added}");
}

/// A key is followed since it was used here. Before that another node used it, and of that a third
/// one has given something back since: that arrives first.
#[test]
fn what_was_consumed_before_a_key_is_followed_may_have_been_given_back() {
    for (given_back, left) in [(-20, 32), (-2, 50)] {
        let mut spans = IdleSpans::default();
        spans.consumed(100, &delta(3, 98), || 1);
        assert_eq!(spans.landed(100, 99, (other(), &delta(given_back, 99)), 1).debt, -2);
        // Of 50 and the 2 that were owed at 99.
        assert_eq!(spans.landed(100, 99, (other(), &delta(50, 95)), 0), Change::new(left, 99));
    }
    // Its word is empty from 95 to 105. Of what is used in that time a part drains until 100, from
    // when on the key is followed.
    let mut spans = IdleSpans::default();
    spans.landed(100, 100, (other(), &delta(5, 90)), 0);
    spans.consumed(106, &delta(20, 105), || 19);
    assert_eq!(spans.landed(108, 107, (other(), &delta(-30, 107)), 17).debt, -18);
    assert_eq!(spans.landed(108, 107, (other(), &delta(50, 97)), 0), Change::new(30, 107));
}

/// What was used before a key is followed fills spans after that, and a give-back after it leaves
/// them filled.
#[test]
fn what_filled_a_span_stays_there_when_something_is_given_back() {
    let mut spans = followed();
    spans.consumed(120, &delta(5, 120), || 5);
    assert_eq!(spans.landed(121, 120, (other(), &delta(15, 99)), 4).debt, 0, "from 105 to 120");
    assert_eq!(spans.landed(122, 120, (other(), &delta(-8, 121)), 3).debt, -4);
    assert_eq!(spans.landed(123, 120, (other(), &delta(10, 99)), 0), Change::new(6, 121));
}

/// A key is followed while its word is empty, and used here before the next flush: what comes late
/// and drains in that time adds nothing to the word.
#[test]
fn what_drained_before_a_key_is_followed_adds_nothing_to_use_since() {
    let mut spans = IdleSpans::default();
    assert_eq!(spans.landed(1_000, 10, (other(), &delta(1, 900)), 0).debt, 1);
    assert_eq!(spans.landed(1_002, 10, (other(), &delta(1, 910)), 199).debt, 0);
    spans.consumed(1_010, &delta(200, 1_001), || 191);
    assert_eq!(spans.keys[&word_id(ID)].tat, 1_201);
    assert_eq!(
        spans.landed(1_010, 1_010, (other(), &delta(300, 950)), 191),
        Change::new(249, 1_010)
    );
}

/// Two nodes give back what had been given back, and what was used before arrives after that.
#[test]
fn give_backs_of_an_empty_word_come_in_any_order() {
    for dates in [[980, 995], [995, 980]] {
        let mut spans = followed();
        for date in dates {
            assert_eq!(spans.landed(1_000, 1_000, (other(), &delta(-10, date)), 0).debt, 0);
        }
        // 20 are given back.
        assert_eq!(
            spans.landed(1_000, 1_000, (other(), &delta(700, 600)), 0).debt,
            280,
            "{dates:?}"
        );
    }
}

/// What drained before a key is followed leaves a span after it.
#[test]
fn what_drained_before_a_key_is_followed_is_not_given_back() {
    for (first, given_back, last) in
        [((40, 50), (-35, 55), (40, 60)), ((15, 85), (-15, 86), (14, 87))]
    {
        let mut spans = IdleSpans::default();
        spans.landed(100, 100, (other(), &delta(5, 40)), 0);
        assert_eq!(spans.landed(100, 100, (other(), &delta(first.0, first.1)), 0).debt, 0);
        for (debt, date) in [given_back, last] {
            assert_eq!(spans.landed(103, 103, (other(), &delta(debt, date)), 0).debt, 0, "{date}");
        }
    }
}

/// A key is followed anew when its word is moved; clocks make what is given back seem used later.
#[test]
fn what_is_given_back_of_before_a_move_is_dated_where_it_was_owed() {
    let mut spans = followed();
    assert_eq!(spans.landed(121, 120, (other(), &delta(50, 120)), 0).debt, 50);
    spans.shifted(122, ID, 5);
    let given_back = delta(-50, 119);
    assert_eq!(spans.date((other(), &given_back), 0), 119);
    assert_eq!(spans.date((other(), &given_back), 3), 120);
}

/// A key that another node has used, and that is empty again when that arrives, is followed from
/// then on. What was used shortly before is given back, whichever arrives first.
#[test]
fn what_was_used_before_that_is_given_back_in_either_order() {
    let mut spans = IdleSpans::default();
    spans.landed(100, 100, (other(), &delta(5, 40)), 0);
    assert_eq!(spans.landed(100, 100, (other(), &delta(50, 97)), 0).debt, 47);
    assert_eq!(spans.landed(103, 103, (other(), &delta(-47, 102)), 44).debt, -44);
    let mut spans = IdleSpans::default();
    spans.landed(100, 100, (other(), &delta(5, 40)), 0);
    assert_eq!(spans.landed(103, 103, (other(), &delta(-47, 102)), 0).debt, 0);
    assert_eq!(spans.landed(103, 103, (other(), &delta(50, 97)), 0).debt, 0);
}

/// A history begins anew when a word is moved, and earlier again when something older is given
/// back. When the word was empty meanwhile is still known.
#[test]
fn spans_of_before_a_history_stay_when_it_begins_earlier() {
    const MS: u64 = 1_000_000;
    let ms = |debt: i64, date: u64| delta(debt * signed(MS), signed(date * MS));
    let mut spans = IdleSpans::default();
    spans.consumed(5 * MS, &ms(5, 0), || 0);
    spans.consumed(9_000 * MS, &ms(500, 9_000), || 500 * MS);
    spans.shifted(9_100 * MS, ID, signed(MS));
    let mut landed = |change: Delta| {
        let debt = spans.landed(9_200 * MS, 9_150 * MS, (other(), &change), 301 * MS).debt;
        debt / signed(MS)
    };
    assert_eq!(landed(ms(-10, 9_050)), -10);
    assert_eq!(landed(ms(3_000, 6_500)), 500, "the word was empty until 9,000");
}

/// An agreement moves the word, and another node's give-back is older than that.
#[test]
fn what_is_given_back_before_a_move_charges_nothing() {
    for by in [-5, 5] {
        let mut spans = followed();
        spans.consumed(110, &delta(5, 110), || 5);
        spans.shifted(140, ID, by);
        assert_eq!(spans.landed(141, 120, (other(), &delta(-50, 130)), 0).debt, 0);
        assert_eq!(spans.landed(141, 120, (other(), &delta(7, 112)), 0).debt, 0);
    }
}

/// Of more changes than are kept in order, what comes late still drains where the word was empty.
#[test]
fn what_is_older_than_the_history_fills_spans() {
    let mut spans = followed();
    for n in 0..200 {
        spans.consumed(120 + 10 * n, &delta(5, signed(120 + 10 * n)), || 5);
    }
    spans.consumed(2_113, &delta(-1, 2_113), || 1);
    let mut landed = |debt, date| spans.landed(2_114, 2_113, (other(), &delta(debt, date)), 1).debt;
    assert_eq!(landed(9, 801), 0, "from 805 to 820, but for the use at 810");
    assert_eq!(landed(3, 1_806), 0);
    assert_eq!(spans.keys[&ID].spans.len(), MAX_SPANS);
    let late = spans.landed(2_114, 2_113, (other(), &delta(-50, 802)), 1);
    assert_eq!(late.debt, 0, "what it owes was consumed after that");
}

/// More is given back than others knew of, and something consumed right after that.
#[test]
fn a_reset_leaves_no_span_behind_the_present() {
    let mut spans = followed();
    let both = Change::new(-80, 108).then(Change::new(10, 109));
    assert_eq!(both, Change::new(-70, 189));
    spans.consumed(110, &delta(both.debt, both.date), || 9);
    assert_eq!(spans.keys[&ID].tat, 119);
    assert_eq!(spans.landed(118, 118, (other(), &delta(20, 115)), 1).debt, 20);
    // Of a key that was not followed before all spans are known from then on.
    let mut spans = IdleSpans::default();
    spans.consumed(110, &delta(both.debt, both.date), || 9);
    assert!(spans.reach(ID, 110) && !spans.reach(ID, 109));
}

/// Several nodes send what they consumed, and a table forgets what has drained.
#[test]
fn what_comes_at_once_adds_up_in_a_word_that_is_empty() {
    let mut spans = followed();
    let mut landed = |debt, date| spans.landed(160, 150, (other(), &delta(debt, date)), 0);
    assert_eq!(landed(8, 145), Change::new(3, 150), "it owes nothing at 153");
    assert_eq!(landed(12, 145), Change::new(12, 153));
    assert_eq!(landed(16, 146), Change::new(16, 160), "it is in debt until 165");
}

/// This node consumes, and receives late what others consumed.
#[test]
fn a_word_is_what_the_order_of_dates_makes_of_it_but_for_a_flush_interval() {
    const FLUSH: i64 = 10;
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    for _ in 0..200 {
        let mut spans = followed();
        // A table keeps no word that has drained.
        let (mut word, mut kept) = (105, 105);
        let (mut all, mut recorded) = (vec![Change::new(5, 100)], None);
        let mut coming: Vec<(i64, Change)> = Vec::new();
        let (mut least, mut most, mut late) = (0, 0, 0);
        for now in 101..1_500 {
            if now % FLUSH == 0
                && let Some(Change { debt, date }) = recorded.take()
            {
                spans.consumed(now as Nanos, &delta(debt, date), || owed(word, now));
            }
            if rng.random_bool(0.05) {
                let own = Change::new(rng.random_range(1..6), now);
                recorded = Some(recorded.map_or(own, |sum: Change| sum.then(own)));
                (word, kept) = (own.apply(word), own.apply(kept));
                all.push(own);
            }
            if rng.random_bool(0.05) {
                let other = Change::new(rng.random_range(1..6), now);
                // Retransmitted, and all before it waits too.
                late = late.max(now + if rng.random_bool(0.1) { 60 } else { 2 });
                coming.push((late, other));
            }
            for (_, change) in coming.extract_if(.., |(at, _)| *at <= now) {
                let flushed = (now - now % FLUSH) as Nanos;
                let (date, debt) = (change.date, owed(word, now));
                let landed =
                    spans.landed(now as Nanos, flushed, (other(), &delta(change.debt, date)), debt);
                word = landed.apply(if word > now { word } else { 0 });
                kept = landed.apply(kept);
                all.push(change);
            }
            all.sort_by_key(|change| change.date);
            let exact = all.iter().fold(0, |tat, change| change.apply(tat));
            assert!(kept.max(now) >= exact.max(now), "at {now}: {kept} lacks some of {exact}");
            let beyond = word.max(now) - exact.max(now);
            (least, most) = (least.min(beyond), most.max(kept.max(now) - exact.max(now)));
        }
        // No node knows of what has drained since the last flush.
        assert!(most <= FLUSH && least >= -FLUSH, "{least} {most}");
    }
}

/// Nodes give back some, or more than is owed when others receive it. Each change is flushed by
/// itself: those of one flush would be one, with one date.
#[test]
fn a_word_is_what_the_order_of_dates_makes_of_it_also_where_some_is_given_back() {
    const MS: i64 = 1_000_000;
    const FLUSH: i64 = 10 * MS;
    let give_back = |Change { debt, date }: Change, tat: i64| (tat + debt).max(date.min(tat));
    let happens = |change: Change, tat| {
        if change.debt < 0 { give_back(change, tat) } else { change.apply(tat) }
    };
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut least, mut most) = (0, 0);
    for _ in 0..200 {
        let mut spans = followed();
        // The word contains all that is flushed, and more than the first of it.
        spans.keys.get_mut(&ID).unwrap().is_new = false;
        let mut word = 105;
        let mut all = vec![Change::new(5, 100)];
        let mut recorded: Vec<Change> = Vec::new();
        let mut coming: Vec<(i64, Change)> = Vec::new();
        for now in (MS..1_500 * MS).step_by(MS as usize) {
            if now % FLUSH == 0 {
                for Change { debt, date } in recorded.drain(..) {
                    spans.consumed(now as Nanos, &delta(debt, date), || 0);
                }
            }
            let draw = |rng: &mut ChaCha8Rng, date| {
                let debt = match rng.random_range(0..8) {
                    0 => -rng.random_range(40..200) * MS,
                    1 => -rng.random_range(1..20) * MS,
                    _ => rng.random_range(1..60) * MS,
                };
                Change::new(debt, date)
            };
            if rng.random_bool(0.03) {
                let mut own = draw(&mut rng, now);
                // No more is given back here than is owed.
                own.debt = own.debt.max((now - word).min(0));
                word = happens(own, word);
                recorded.push(own);
                all.push(own);
            }
            if rng.random_bool(0.03) {
                coming.push((now + 40 * MS, draw(&mut rng, now - MS / 2)));
            }
            for (_, change) in coming.extract_if(.., |(at, _)| *at <= now) {
                let flushed = (now - now % FLUSH) as Nanos;
                let came = delta(change.debt, change.date);
                let landed = spans.landed(now as Nanos, flushed, (other(), &came), owed(word, now));
                word = happens(landed, word);
                all.push(change);
            }
            all.sort_by_key(|change| change.date);
            let exact = all.iter().fold(0, |tat, change| happens(*change, tat));
            let beyond = word.max(now) - exact.max(now);
            (least, most) = (least.min(beyond), most.max(beyond));
        }
    }
    // What another's change meets lacks what was not flushed here, in either direction.
    assert!(most <= 2 * FLUSH && least >= -2 * FLUSH, "{least} {most}");
}

#[test]
fn a_key_that_is_not_followed_is_charged_whole() {
    let mut spans = IdleSpans::default();
    assert_eq!(spans.landed(100, 95, (other(), &delta(5, 90)), 3), Change::new(5, 90));
    assert_eq!(spans.landed(120, 95, (other(), &delta(5, 118)), 0), Change::new(5, 118));
    assert_eq!(spans.last_end(ID), Some(118), "from then on it is followed");
    spans.forget(ID);
    assert_eq!(spans.last_end(ID), None);
}

/// Another node's changes split a span again and again.
#[test]
fn spans_of_a_key_are_bounded() {
    let mut spans = followed();
    spans.consumed(100_000, &delta(5, 100_000), || 5);
    for n in 0..4 * MAX_SPANS as i64 {
        assert_eq!(spans.landed(100_001, 100_000, (other(), &delta(1, 200 + 10 * n)), 4).debt, 0);
    }
    assert_eq!(spans.keys[&ID].spans.len(), MAX_SPANS);
    assert!(!spans.reach(ID, 200) && spans.reach(ID, 99_999));
    assert_eq!(spans.last_end(ID), Some(100_000));
}

/// A level says that another node's word owes more, or a change comes that had been held back.
#[test]
fn a_word_that_is_moved_was_empty_until_then() {
    let mut spans = followed();
    spans.added(150, 145, ID, 20);
    let mut landed = |debt, date| spans.landed(150, 145, (other(), &delta(debt, date)), 20).debt;
    assert_eq!(landed(50, 100), 10, "it was empty from 105 to 145");
    assert_eq!(spans.keys[&ID].tat, 180);
}

#[test]
fn what_has_drained_makes_room() {
    let key = |key, date| Delta { key, ..delta(5, date) };
    let next = MAX_KEYS as u64;
    for (debt, later) in [(5, 3 * SECOND), (1 << 57, 11 * SECOND)] {
        let mut spans = IdleSpans::default();
        (0..next).for_each(|first| spans.consumed(0, &key(first, 0), || debt));
        spans.consumed(0, &key(next, 0), || panic!("no word is read for one that has no place"));
        assert_eq!(spans.keys.len(), MAX_KEYS);
        spans.consumed(later, &key(next, signed(later)), || 5);
        assert_eq!(spans.keys.len(), 1);
    }
}
