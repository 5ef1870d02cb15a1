use super::tests::{ID, delta, followed, other};
use super::*;

fn unobserved(since: Nanos, debt: Nanos) -> Unobserved {
    Unobserved { since, debt, grace: 8 }
}

fn change(debt: i64, date: i64) -> Replayed {
    Replayed::Change(Change::new(debt, date))
}

/// This node was stopped at 106, and then received what others consumed meanwhile.
#[test]
fn of_a_time_that_is_replayed_it_is_known_when_the_word_was_empty() {
    let mut spans = followed();
    let level = Replayed::Level { at: 130, tat: 140 };
    let all = [change(5, 120), level, change(5, 150), change(9, 152)];
    assert_eq!(spans.replayed(160, ID, unobserved(106, 0), &all), 4, "it owes until 164");
    // The level does not say when the word was empty before that.
    assert!(!spans.reach(ID, 129) && spans.reach(ID, 130));
    let mut landed = |debt, date| spans.landed(160, 155, (other(), &delta(debt, date)), 4).debt;
    assert_eq!(landed(15, 100), 0, "in the span that ends at 120");
    assert_eq!(landed(2, 125), 0, "in the one that ends at 150");
    assert_eq!(landed(9, 145), 4, "in what is left of that");
}

/// What each of two nodes consumed, one after the other.
#[test]
fn a_key_is_followed_from_the_stop_on() {
    let [first, second] = [[change(40, 90), change(40, 200)], [change(50, 95), change(50, 250)]];
    let mut spans = IdleSpans::default();
    assert_eq!(spans.replayed(300, ID, unobserved(100, 0), &first), 0);
    assert_eq!(
        spans.replayed(300, ID, unobserved(100, 0), &second),
        0,
        "they owed until 180 and 300"
    );
    assert!(spans.reach(ID, 100) && !spans.reach(ID, 99));
    assert_eq!(spans.replayed(300, ID, unobserved(100, 0), &[change(45, 100)]), 15);
    // One that is in debt has been so all the time, and may have been right before.
    spans.forget(ID);
    assert_eq!(spans.replayed(300, ID, unobserved(100, 7), &first), 70);
    assert_eq!(spans.replayed(300, ID, unobserved(100, 7), &[change(6, 92)]), 6);
}

/// As after a partition, at whose end the node was stopped.
#[test]
fn what_had_drained_when_a_node_was_stopped_is_not_replayed() {
    let all: Vec<Replayed> =
        (0..10).map(|n| change(50, 100 * n)).chain([change(5, 2_000)]).collect();
    assert_eq!(IdleSpans::default().replayed(2_100, ID, unobserved(2_000, 0), &all), 0);
    // Of 50 that were consumed at 900 and of 60 at 920, 10 are left at 1,000.
    let all = [change(50, 900), change(60, 920), change(5, 1_000)];
    assert_eq!(IdleSpans::default().replayed(1_000, ID, unobserved(1_000, 0), &all), 15);
}

/// What it consumed right before it was stopped is flushed when it goes on, and has drained.
#[test]
fn of_a_word_that_is_empty_again_it_is_not_known_since_when() {
    let mut spans = IdleSpans::default();
    spans.consumed(1_000, &delta(5, 100), || 0);
    assert!(spans.reach(ID, 1_000) && !spans.reach(ID, 999));
    assert_eq!(spans.replayed(1_010, ID, unobserved(101, 0), &[change(5, 200)]), 0);
    spans.forget(ID);
    spans.consumed(1_000, &delta(950, 100), || 50);
    assert!(spans.reach(ID, 100));
    assert_eq!(spans.replayed(1_010, ID, unobserved(101, 40), &[change(5, 200)]), 5);
}

/// A level comes between two parts of a replay.
#[test]
fn a_replay_goes_on_from_a_level() {
    let mut spans = IdleSpans::default();
    let first = [change(50, 200), Replayed::Level { at: 270, tat: 300 }];
    assert_eq!(spans.replayed(320, ID, unobserved(100, 0), &first), 0);
    // Of 150 that were consumed from 180 on, the 60 that were left at the level; both that follows.
    let second = [change(150, 180), change(20, 280), change(20, 310)];
    assert_eq!(spans.replayed(320, ID, unobserved(100, 0), &second), 80);
    // What came after a level that lasts is no part of it.
    let level = Replayed::Level { at: 300, tat: 500 };
    assert_eq!(spans.replayed(320, ID, unobserved(100, 0), &[level]), 100);
    assert_eq!(spans.replayed(320, ID, unobserved(100, 0), &[change(30, 310)]), 30);
    // The word owed something at the level: what came right before it is not in it.
    let mut spans = IdleSpans::default();
    let first = [change(50, 200), Replayed::Level { at: 270, tat: 400 }];
    assert_eq!(spans.replayed(320, ID, unobserved(100, 0), &first), 80);
    assert_eq!(spans.replayed(320, ID, unobserved(100, 0), &[change(20, 265)]), 20);
}
