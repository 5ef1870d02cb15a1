use super::*;
use crate::inline;

const KEY: KeyId = (1, 1);
const MS: Nanos = 1_000_000;

/// A bucket of 100 ms, five nodes.
fn terms() -> SplitTerms {
    let (tolerance, unit, lag) = (100 * MS, MS / 10, 10 * MS);
    SplitTerms { tolerance, unit, refresh: 0, ahead: 0, lag, most_know_after: lag, nodes: 5 }
}

fn delta(debt: Nanos, at: Nanos) -> Delta {
    let change = Change { debt: signed(debt), date: signed(at) };
    Delta { limit: KEY.0, key: KEY.1, change }
}

/// A key that owes 90.1 ms at 1 s, of which this node has just consumed some.
fn scarce(own: Nanos) -> (Splits, Split) {
    let mut splits = Splits::default();
    let split = splits.split(1_000 * MS, KEY, 90_100_000, signed(own), terms());
    (splits, split)
}

#[test]
fn a_key_is_split_from_nine_tenths_to_half() {
    let mut splits = Splits::default();
    assert_eq!(splits.split(0, KEY, 90 * MS, 0, terms()), Split::default());
    // 9.9 ms are left, and four fifths belong to others, less a unit.
    let split = splits.split(0, KEY, 90_100_000, 0, terms());
    assert_eq!(split, Split { by: 7_820_000, was_empty: false });
    // With provisional debt it owes 68 ms: it would owe 60.
    let split = splits.split(20 * MS, KEY, 67_820_000, 0, terms());
    assert_eq!(split.by, 40 * 800_000 - 100_000 - 7_820_000 + 80_000 - 80_000);
    let provisional = splits.provisional(KEY);
    assert_eq!(
        splits.split(30 * MS, KEY, 50 * MS + provisional, 0, terms()).by,
        -signed(provisional)
    );
    assert!(!splits.is_split(KEY));
}

/// As a live quota whose words are scaled.
#[test]
fn what_is_provisional_is_not_taken_back_from_words_of_another_quota() {
    let shorter = SplitTerms { tolerance: 10 * MS, ..terms() };
    // Ten times the rate and the burst.
    let faster = SplitTerms { unit: MS / 100, ..terms() };
    for (quota, is_flush) in [(shorter, false), (shorter, true), (faster, false), (faster, true)] {
        let (mut splits, split) = scarce(0);
        assert!(split.by > 0);
        let debt = 9_010_000 + split.by.unsigned_abs() / 10;
        if is_flush {
            let split = splits.split(1_001 * MS, KEY, debt, 0, quota);
            assert!(split.by >= 0, "{split:?}");
        } else {
            assert_eq!(splits.refresh(1_001 * MS, KEY, debt, quota), 0);
            assert!(!splits.is_split(KEY));
        }
    }
}

#[test]
fn a_key_is_split_earlier_where_another_node_calls_it_scarce() {
    let mut splits = Splits::default();
    splits.mark_scarce(0, KEY);
    assert_eq!(splits.split(MS, KEY, 50 * MS, 0, terms()).by, 0, "half of it is left");
    assert_eq!(splits.split(KEEP, KEY, 80 * MS, 0, terms()).by, 0, "that was long ago");
    splits.mark_scarce(KEEP, KEY);
    assert!(splits.split(KEEP + MS, KEY, 80 * MS, 0, terms()).by > 0);
}

#[test]
fn a_node_that_consumes_all_keeps_most_and_an_even_part_at_least() {
    let (_, split) = scarce(0);
    let even = split.by;
    let (_, split) = scarce(90_100_000);
    // What it consumed counts as left to all, as others have not received it.
    assert_eq!(split.by, 100 * 1_000_000 * 4 / 5 / 2 - 100_000);
    let (_, split) = scarce(MS);
    assert_eq!(split.by, even + 800_000);
}

/// The others have received none of it, under whichever quota it was. Also where that is more than
/// the word owes.
#[test]
fn what_was_consumed_under_several_quotas_before_a_key_is_split_counts_as_one() {
    let refreshed = |mut splits: Splits| {
        let debt = 90_100_000 + splits.provisional(KEY);
        splits.refresh(1_000 * MS, KEY, debt, terms());
        splits.provisional(KEY)
    };
    for (first, then) in [(10, [30, 40]), (10, [50, 60])] {
        let (mut several, _) = scarce(first * MS);
        for further in then {
            several.add_own(&delta(further * MS, 1_000 * MS));
        }
        let all = first + then[0] + then[1];
        let as_one = refreshed(scarce(all * MS).0);
        assert_eq!(refreshed(several), as_one, "{all}");
        assert!(as_one > refreshed(scarce(first * MS).0), "{all}");
    }
}

/// Of nodes that take the lag for a little more and a little less all hold back nearly the same.
#[test]
fn the_later_others_receive_the_less_is_held_back() {
    let held_after = |lag| {
        let terms = SplitTerms { unit: 0, lag, ..terms() };
        Splits::default().split(0, KEY, 95 * MS, 0, terms).by
    };
    let whole = signed(4 * MS);
    for (lag, part) in
        [(0, 1.0), (50, 1.0), (60, 0.8), (75, 0.5), (90, 0.2), (100, 0.0), (1_000, 0.0)]
    {
        assert_eq!(held_after(lag * MS), (whole as f64 * part) as i64, "{lag}");
    }
    assert!(held_after(50 * MS) - held_after(51 * MS) < whole / 40);
}

#[test]
fn what_others_consume_comes_out_of_their_part() {
    let (mut splits, split) = scarce(0);
    let provisional = splits.provisional(KEY);
    assert_eq!(signed(provisional), split.by);
    let landed = splits.landed(&delta(5 * MS, 1_000 * MS));
    assert_eq!((landed.debt, splits.provisional(KEY)), (0, provisional - 5 * MS));
    let landed = splits.landed(&delta(5 * MS, 1_000 * MS));
    assert_eq!(
        (signed(5 * MS) - landed.debt, splits.provisional(KEY)),
        (signed(provisional - 5 * MS), 0)
    );
    let given_back = splits.landed(&delta(0, 0));
    assert_eq!(given_back.debt, 0);
}

#[test]
fn what_has_drained_is_not_taken_back() {
    let (mut splits, _) = scarce(0);
    let provisional = splits.provisional(KEY);
    // Without provisional debt the word ends at 1,090.1 ms, and with it at 1,097.92 ms.
    splits.consumed(1_095 * MS, &delta(60 * MS, 1_095 * MS));
    let left = 1_090_100_000 + provisional - 1_095 * MS;
    assert_eq!(splits.provisional(KEY), left);
    let split = splits.split(1_095 * MS, KEY, 60 * MS + left, 0, terms());
    assert!(split.was_empty);
    let mut splits = scarce(0).0;
    splits.consumed(1_099 * MS, &delta(60 * MS, 1_099 * MS));
    assert_eq!(splits.provisional(KEY), 0);
}

#[test]
fn a_key_that_is_not_used_is_given_back_whole() {
    let (mut splits, split) = scarce(0);
    let now = 1_000 * MS + KEEP;
    let provisional = signed(splits.provisional(KEY));
    assert_eq!(provisional, split.by);
    assert_eq!(splits.split(now, KEY, 90 * MS, 0, terms()).by, -provisional);
    assert_eq!(splits.len(), 0);
}

#[test]
fn moves_of_the_word_leave_provisional_debt() {
    let (mut splits, _) = scarce(0);
    let provisional = splits.provisional(KEY);
    splits.shifted(KEY, -signed(3 * MS));
    splits.raised(1_000 * MS, KEY, 95 * MS);
    assert_eq!(splits.provisional(KEY), provisional);
    splits.consumed(1_000 * MS, &delta(MS, 1_000 * MS));
    assert_eq!(splits.provisional(KEY), provisional);
    // What was consumed since shows in the word, and counts as not known to others.
    let owed = 96 * MS + provisional;
    let by = splits.refresh(1_000 * MS, KEY, owed, terms());
    let again = splits.refresh(1_000 * MS, KEY, owed.saturating_add_signed(by) + MS, terms());
    assert_eq!(again, 0, "a unit less is left, and one more is not known");
}

#[test]
fn keys_are_bounded() {
    let mut splits = Splits::default();
    for key in 0..2 * MAX_SPLITS as u64 {
        splits.mark_scarce(0, (1, key));
        splits.split(0, (1, key), 95 * MS, 0, terms());
    }
    assert_eq!((splits.len(), splits.scarce_elsewhere.len()), (MAX_SPLITS, MAX_SPLITS));
    splits.mark_scarce(KEEP, (2, 0));
    assert_eq!(splits.scarce_elsewhere.len(), 1, "the others were long ago");
}

#[test]
fn a_key_has_one_split_whatever_quotas_come_with_its_checks() {
    let of = |tolerance| (inline::id(tolerance, MS / 10), 7);
    let mut splits = Splits::default();
    let split = splits.split(1_000 * MS, of(100 * MS), 90_100_000, 0, terms());
    assert!(split.by > 0);
    for id in [of(100 * MS), of(7 * MS), (0, 7)] {
        assert!(splits.is_split(id));
        assert_eq!(splits.provisional(id), split.by.unsigned_abs());
    }
    assert_eq!(splits.keys().collect::<Vec<_>>(), [of(100 * MS)]);
    assert!(!splits.is_split((1, 7)));
}

/// Of five nodes that use it. What comes late is split by those that consume: one that held back as
/// much while another one uses all it can would never be left anything.
#[test]
fn a_node_that_consumes_little_holds_back_what_refills_until_the_next_split_alone() {
    let terms = SplitTerms { refresh: 2 * MS, ahead: 12 * MS, ..terms() };
    for (own, refill) in [(0, 2), (15, 2), (16, 4), (18, 8), (20, 12), (90, 12), (100, 12)] {
        assert_eq!(terms.refill_of(own, 100, 5 * ONE_NODE), refill * i128::from(MS), "{own}");
    }
    let terms = SplitTerms { refresh: 3 * MS, ahead: MS, ..terms };
    assert_eq!(terms.refill_of(50, 100, 5 * ONE_NODE), 3 * i128::from(MS));
}

#[test]
fn only_nodes_that_use_a_key_count_as_its_users() {
    let origin = |port| Origin { addr: ([10, 0, 0, 1], port).into(), generation: 1 };
    let users = |own: i64, others: &[i64], all: i64| {
        let mut split = KeySplit::new(0, (KEY.0, terms().quota()), 0, own);
        split.all = all;
        for (port, used) in (0..).zip(others) {
            add_use(&mut split.others, origin(port), used / 2);
            add_use(&mut split.others, origin(port), used - used / 2);
        }
        assert!(split.others.len() <= MAX_USERS);
        split.users(200)
    };
    assert_eq!(users(50, &[50], 100), 2 * ONE_NODE);
    assert_eq!(users(0, &[], 0), ONE_NODE);
    assert_eq!(users(100, &[], 100), ONE_NODE);
    let little = users(4_900, &[4_900, 100, 100], 10_000);
    assert!((2 * ONE_NODE..9 * ONE_NODE / 4).contains(&little), "{little}");
    // Of what it is not known who consumed, and of more nodes than are known apart.
    assert_eq!(users(10, &[], 1_000), 200 * ONE_NODE);
    let many: Vec<i64> = (0..99).map(|_| 10).collect();
    assert_eq!(users(10, &many, 1_000), 200 * ONE_NODE);
    // Those that used most are known.
    let two: Vec<i64> = (0..40).map(|n| if n == 7 { 40_000 } else { 1 }).collect();
    assert_eq!(users(40_000, &two, 80_000), 2 * ONE_NODE - 1);
}
