use super::*;
use crate::inline;

const MS: Nanos = 1_000_000;
const KEY: KeyId = (1, 1);

fn delta(debt: i64, at: Nanos) -> Delta {
    Delta { limit: KEY.0, key: KEY.1, change: Change::new(debt, signed(at)) }
}

fn take(pace: &mut Pace, now: Nanos) -> Taken {
    let mut taken = Taken::default();
    pace.take(now, KEY, 5, &mut taken);
    taken
}

#[test]
fn what_the_even_part_of_the_refill_covers_is_not_sent() {
    let mut pace = Pace::default();
    // A tenth of what refills is one node's, of five.
    pace.add(10 * MS, (0, 60 * MS), delta(signed(3 * MS), 9 * MS), 5);
    pace.add(20 * MS, (10 * MS, 70 * MS), delta(signed(MS), 20 * MS), 5);
    assert_eq!(pace.deadline(), Some(60 * MS));
    let taken = take(&mut pace, 30 * MS);
    // 1 of 3, and 1 of 3: it ends when it did, at 9 + 3 + 1 or 20 + 1.
    assert_eq!(taken.deltas[0].change.debt, signed(2 * MS));
    assert_eq!(taken.deltas[0].change.tat(), signed(21 * MS));
    assert_eq!((taken.since, pace.covered(), pace.len()), (Some(0), 0, 0));
    assert_eq!(pace.deadline(), None);
    pace.add(40 * MS, (30 * MS, 90 * MS), delta(signed(MS), 40 * MS), 5);
    assert!(take(&mut pace, 50 * MS).deltas.is_empty());
    assert_eq!(pace.covered(), 1);
}

#[test]
fn what_others_report_counts_against_the_refill() {
    let mut pace = Pace::default();
    pace.add(10 * MS, (0, 60 * MS), delta(signed(MS), 10 * MS), 5);
    pace.landed(10 * MS, KEY, signed(10 * MS), 5);
    assert_eq!(take(&mut pace, 30 * MS).deltas[0].change.debt, signed(MS));
}

#[test]
fn what_others_reported_before_a_key_waits_counts_until_it_has_refilled() {
    let mut pace = Pace::default();
    // A fifth of it is this node's to make up for, of which a tenth of the time refills.
    pace.landed(0, KEY, signed(10 * MS), 5);
    pace.add(10 * MS, (0, 60 * MS), delta(signed(MS), 10 * MS), 5);
    assert_eq!(take(&mut pace, 20 * MS).deltas[0].change.debt, signed(MS));
    pace.add(20 * MS, (0, 60 * MS), delta(signed(MS), 20 * MS), 5);
    assert!(take(&mut pace, 30 * MS).deltas.is_empty(), "it has refilled by 20");
}

#[test]
fn what_refilled_before_others_reported_covers_as_it_would_without_that() {
    let mut pace = Pace::default();
    pace.add(10 * MS, (0, 60 * MS), delta(signed(2 * MS), 10 * MS), 5);
    pace.landed(20 * MS, KEY, signed(10 * MS), 5);
    assert_eq!(take(&mut pace, 30 * MS).deltas[0].change.debt, signed(MS));
}

#[test]
fn nothing_is_covered_while_others_report_more_keys_than_are_known() {
    let mut pace = Pace::default();
    let known = (0..=reported::MAX_KEYS as u64).map(|key| (1, key + 2));
    known.for_each(|id| pace.landed(0, id, signed(10 * MS), 5));
    pace.add(MS, (0, 60 * MS), delta(signed(MS), MS), 5);
    assert_eq!(take(&mut pace, 60 * MS).deltas[0].change.debt, signed(MS));
    let later = reported::UNKNOWN + MS;
    pace.add(later, (later, later + 60 * MS), delta(signed(MS), later), 5);
    assert!(take(&mut pace, later + 10 * MS).deltas.is_empty());
    // What has refilled makes room.
    pace.landed(later, KEY, signed(10 * MS), 5);
    pace.add(later, (later, later + 60 * MS), delta(signed(MS), later), 5);
    assert_eq!(take(&mut pace, later + 10 * MS).deltas[0].change.debt, signed(MS));
}

#[test]
fn what_was_reported_once_and_takes_years_makes_room() {
    let mut pace = Pace::default();
    let known = (0..reported::MAX_KEYS as u64).map(|key| (1, key + 2));
    known.for_each(|id| pace.landed(0, id, 1 << 57, 5));
    for (later, is_covered) in [(50_000 * MS, false), (61_000 * MS, true)] {
        pace.landed(later, KEY, signed(MS), 5);
        let later = later + 100 * MS;
        pace.add(later, (later, later + 60 * MS), delta(signed(MS), later), 5);
        assert_eq!(take(&mut pace, later + 20 * MS).deltas.is_empty(), is_covered);
    }
}

#[test]
fn nothing_covers_what_is_capped_and_it_keeps_its_turn() {
    let mut pace = Pace::default();
    pace.add(10 * MS, (0, 60 * MS), delta(signed(MS), 10 * MS), 5);
    pace.cap(10 * MS, KEY);
    let other = Delta { key: 0, ..delta(signed(MS), 20 * MS) };
    pace.add(20 * MS, (10 * MS, 20 * MS), other, 5);
    pace.cap(20 * MS, other.id());
    pace.add(30 * MS, (20 * MS, 30 * MS), delta(signed(MS), 30 * MS), 5);
    pace.cap(30 * MS, KEY);
    assert_eq!((pace.capped(), pace.times_capped(), pace.deadline()), (2, 2, None));
    assert_eq!((pace.first_capped(1), pace.due(Nanos::MAX, 9)), (vec![KEY], vec![]));
    assert_eq!(take(&mut pace, 900 * MS).deltas[0].change.debt, signed(2 * MS));
    assert_eq!((pace.capped(), pace.first_capped(9)), (1, vec![other.id()]));
}

#[test]
fn sending_is_urgent_where_little_is_left() {
    let mut pace = Pace::default();
    pace.add(10 * MS, (0, 60 * MS), delta(signed(MS), 10 * MS), 5);
    assert!(!pace.is_urgent(10 * MS, KEY, 80 * MS, 5));
    assert!(pace.is_urgent(10 * MS, KEY, 80 * MS - 1, 5));
    assert!(!pace.is_urgent(15 * MS, KEY, 40 * MS, 5), "half of it has refilled");
    assert!(pace.is_urgent(15 * MS, KEY, 40 * MS - 1, 5));
    assert!(!pace.is_urgent(10 * MS, (2, 2), 0, 5));
}

#[test]
fn what_was_given_back_is_sent() {
    let mut pace = Pace::default();
    pace.add(10 * MS, (0, 60 * MS), delta(-5, 10 * MS), 5);
    assert_eq!(pace.due(59 * MS, 9), []);
    assert_eq!(pace.due(60 * MS, 9), [KEY]);
    assert_eq!(take(&mut pace, 60 * MS).deltas[0].change.debt, -5);
}

/// Composed with what is consumed later, it would lose its date.
#[test]
fn what_was_given_back_is_urgent_as_what_was_consumed() {
    let one = signed(MS);
    for later in [0, one, 2 * one] {
        let mut pace = Pace::default();
        pace.add(10 * MS, (0, 60 * MS), delta(-one, 10 * MS), 5);
        pace.add(10 * MS, (0, 60 * MS), delta(later, 10 * MS), 5);
        assert!(!pace.is_urgent(10 * MS, KEY, 80 * MS, 5), "{later}");
        assert!(pace.is_urgent(10 * MS, KEY, 80 * MS - 1, 5), "{later}");
        // As long as it waits, and it is sent.
        assert!(pace.is_urgent(30 * MS, KEY, 80 * MS - 1, 5), "{later}");
        assert_eq!(take(&mut pace, 30 * MS).deltas.len(), 1, "{later}");
    }
    // Several times a little are much.
    let mut pace = Pace::default();
    for number in 1..4 {
        let now = 10 * number * MS;
        pace.add(now, (0, 60 * MS), delta(-one, now), 5);
        pace.add(now, (0, 60 * MS), delta(one, now), 5);
        assert!(!pace.is_urgent(now, KEY, 80 * number * MS, 5), "{number}");
        assert!(pace.is_urgent(now, KEY, 80 * number * MS - 1, 5), "{number}");
    }
    // What is given back in the flush in which it was consumed leaves nothing to send.
    let mut pace = Pace::default();
    let both = delta(one, 10 * MS).change.then(delta(-one, 10 * MS).change);
    pace.add(10 * MS, (0, 60 * MS), Delta { change: both, ..delta(0, 0) }, 5);
    assert!(!pace.is_urgent(10 * MS, KEY, 0, 5));
    assert_eq!(take(&mut pace, 10 * MS).deltas, []);
}

#[test]
fn few_keys_begin_to_wait_while_that_saves_nothing() {
    let mut pace = Pace::default();
    let mut now = 0;
    let mut spray = |pace: &mut Pace, times: u64| {
        for key in 0..EVALUATE_EVERY {
            now += MS;
            let id = (1, key);
            for _ in 0..times {
                let delta =
                    Delta { limit: 1, key, change: Change::new(signed(9 * MS), signed(now)) };
                pace.add(now, (now, now + MS), delta, 5);
            }
            pace.take(now, id, 5, &mut Taken::default());
        }
    };
    assert!(pace.may_begin((1, 1)));
    spray(&mut pace, 1);
    assert!(!pace.may_begin((1, 1)));
    assert!(pace.may_begin((1, SAMPLE_DIVISOR)), "a sample goes on to wait");
    spray(&mut pace, 2);
    assert!(pace.may_begin((1, 1)), "it pays again");
}

/// A word may have been used under several quotas, and its level is sent under one, or under none.
#[test]
fn what_waits_of_a_word_is_taken_whatever_quota_came_with_a_check() {
    let (quick, slow) = (inline::id(1_000, 10), inline::id(1_000_000, 10));
    for (by, taken) in [(0, 3), (quick, 3), (slow, 3), (inline::id(7, 7), 3), (5, 1), (6, 0)] {
        let mut pace = Pace::default();
        for limit in [0, 5, quick, slow] {
            pace.add(10 * MS, (0, 60 * MS), Delta { limit, ..delta(signed(MS), 10 * MS) }, 5);
        }
        let mut into = Taken::default();
        pace.take_word(10 * MS, (by, KEY.1), 5, &mut into);
        assert_eq!((into.deltas.len(), pace.len()), (taken, 4 - taken));
        pace.take_word(10 * MS, (by, KEY.1 + 1), 5, &mut into);
        assert_eq!(into.deltas.len(), taken);
    }
    let mut pace = Pace::default();
    pace.add(10 * MS, (0, 60 * MS), Delta { limit: quick, ..delta(signed(MS), 10 * MS) }, 5);
    pace.take_word(10 * MS, (0, KEY.1), 5, &mut Taken::default());
    assert_eq!(pace.len(), 0, "the only one, too");
}

#[test]
fn quotas_of_a_word_are_counted() {
    let id = |quota: u64, key| (inline::id(u64::MAX >> 4, quota << 20), key);
    let mut pace = Pace::default();
    let add = |pace: &mut Pace, (limit, key)| {
        pace.add(0, (0, 60 * MS), Delta { limit, key, ..delta(signed(MS), 0) }, 5);
    };
    for (quota, key, several) in [(1, 1, 0), (1, 2, 0), (2, 1, 2), (3, 1, 3), (2, 2, 5)] {
        add(&mut pace, id(quota, key));
        assert_eq!(pace.several, several);
    }
    for (quota, key, several) in [(1, 1, 4), (3, 1, 2), (2, 1, 2), (1, 2, 0), (2, 2, 0)] {
        pace.take(0, id(quota, key), 5, &mut Taken::default());
        assert_eq!(pace.several, several);
    }
}

/// Where each had a refill of its own, nodes that use as many quotas of a key as they are would
/// keep to themselves all that they use of it, however much that is.
#[test]
fn quotas_of_a_word_share_its_refill() {
    let quotas = [1, 2, 3, 4].map(|unit| inline::id(u64::MAX >> 4, unit * MS));
    let mut pace = Pace::default();
    for round in 1..=20 {
        let now = 10 * round * MS;
        for limit in quotas {
            // Of five nodes each may keep 1 of 10; it uses 4, of each quota 1.
            pace.add(now, (0, 900 * MS), Delta { limit, ..delta(signed(MS), now) }, 5);
        }
    }
    let mut into = Taken::default();
    pace.take_word(210 * MS, (0, KEY.1), 5, &mut into);
    let sent: i64 = into.deltas.iter().map(|delta| delta.change.debt).sum();
    assert_eq!(sent, signed(4 * 20 * MS - 20 * MS));
}

#[test]
fn quotas_of_a_word_share_what_is_kept_of_it() {
    let quotas = [1, 2].map(|unit| inline::id(u64::MAX >> 4, unit * MS));
    let mut pace = Pace::default();
    for limit in quotas {
        pace.add(10 * MS, (0, 60 * MS), Delta { limit, ..delta(signed(MS), 10 * MS) }, 5);
    }
    for limit in quotas {
        assert!(!pace.is_urgent(10 * MS, (limit, KEY.1), 160 * MS, 5));
        assert!(pace.is_urgent(10 * MS, (limit, KEY.1), 160 * MS - 1, 5));
    }
    pace.cap(10 * MS, (quotas[0], KEY.1));
    assert_eq!((pace.capped(), pace.deadline()), (2, None), "both wait for room");
    let given_back = Delta { limit: quotas[0], ..delta(-signed(MS), 20 * MS) };
    pace.add(20 * MS, (0, 60 * MS), given_back, 5);
    assert!(pace.is_urgent(20 * MS, (quotas[1], KEY.1), 160 * MS - 1, 5));
}

/// A client may send another quota with each check of a key.
#[test]
fn few_quotas_of_a_word_wait() {
    let mut pace = Pace::default();
    for unit in 1..=MAX_QUOTAS as u64 {
        let limit = inline::id(u64::MAX >> 4, unit << 20);
        assert!(pace.may_begin((limit, KEY.1)) && pace.has_room((limit, KEY.1)));
        pace.add(10 * MS, (0, 60 * MS), Delta { limit, ..delta(signed(MS), 10 * MS) }, 5);
    }
    let next = inline::id(u64::MAX >> 4, (MAX_QUOTAS as u64 + 1) << 20);
    assert!(!pace.may_begin((next, KEY.1)) && !pace.has_room((next, KEY.1)));
    assert!(pace.may_begin((next, KEY.1 + 1)) && pace.may_begin(KEY));
}
