//! Threads whose `now`s differ.

use crate::KeyHash;
use crate::base::sync::Ordering;

use super::{CROWD, LARGE, Model, NOW, PAIR, Shared, check, check_at, key, update};

/// A table in which `departing` expires at `NOW - 1`; its slot is the one to take from then on.
fn divided(departing: KeyHash) -> Model {
    Model::of(2).divided((departing, NOW - 1), 1, NOW + 9)
}

/// A thread with a later `now` claims as expired what is live at an earlier one: a thread with the
/// earlier `now` that finds its key gone is decided at the later time, because it reads the clock
/// again.
#[test]
fn a_late_thread_reads_the_clock_again() {
    let (departing, coming) = (key(1), key(2));
    let model = divided(departing).checks(coming, 1);
    // At NOW - 2 one unit of debt is left, so a burst of one is used up.
    let model = model.thread(move |s| check_at(s, departing, 1, NOW - 2, NOW));
    model.explore(PAIR, move |end| {
        assert_eq!(end.result(0), 1);
        assert_eq!((end.charged(departing), end.charged(coming)), (end.result(1), 1));
    });
}

/// Whatever the clock says at this moment.
fn check_by_clock(shared: &Shared, key: crate::KeyHash) -> u64 {
    let clock = || shared.clock.load(Ordering::Relaxed);
    update(shared, key, clock(), clock, |value, now| {
        (value.max(now) < now + 1).then_some(value.max(now) + 1)
    })
}

/// The clock is a shared word, as [`RecentClock`](crate::clock::RecentClock)'s is, and one thread
/// reads it after it has moved, the other before: what the first took as expired, the other cannot
/// find fresh at the earlier time.
#[test]
fn a_hand_over_carries_the_time_it_was_decided_at() {
    let (departing, coming) = (key(1), key(2));
    let model = divided(departing);
    let model = model.setup(|shared| shared.clock.store(NOW - 2, Ordering::Relaxed));
    let model = model.thread(move |s| {
        s.clock.store(NOW, Ordering::Relaxed);
        check_by_clock(s, coming)
    });
    let model = model.thread(move |s| check_by_clock(s, departing));
    model.explore(LARGE, move |end| {
        assert_eq!(end.result(0), 1);
        assert_eq!(end.charged(departing), end.result(1));
    });
}

/// Two claimers of one key choose different lines, because the first slot has expired for one
/// and not yet for the other.
#[test]
fn claimers_with_different_nows_settle_on_one() {
    for burst in [1, 2] {
        let (departed, key) = (key(1), key(2));
        let model = divided(departed);
        let model = model.thread(move |s| check_at(s, key, burst, NOW - 2, NOW));
        let model = model.checks(key, burst);
        model.explore(PAIR, move |end| {
            let admitted = end.admitted();
            // At NOW - 2 a key that was charged at NOW is deeper in debt.
            assert!(admitted == burst || admitted == 1, "{admitted}");
            assert_eq!(end.charged(key), admitted);
            end.nothing_left_behind();
        });
    }
}

/// The same in one line: the first slot has expired for one claimer; for the other its key is live
/// and was denied, so that the second slot is evicted.
#[test]
fn claimers_with_different_nows_settle_on_one_in_a_line() {
    for burst in [1, 2] {
        let (denied, live, key) = (key(1), key(2), key(3));
        let model = Model::of(1).given_in(denied, 0, 0, NOW - 1).given_in(live, 0, 1, NOW + 9);
        let model = model.setup(move |s| s.table.home(denied).strike(NOW));
        let model = model.thread(move |s| check_at(s, key, burst, NOW - 2, NOW));
        let model = model.checks(key, burst);
        model.explore(PAIR, move |end| {
            let admitted = end.admitted();
            assert!(admitted == burst || admitted == 1, "{admitted}");
            assert_eq!(end.charged(key), admitted);
            end.nothing_left_behind();
        });
    }
}

/// As in two lines, with a third thread in between, for which the slot has just not expired.
#[test]
fn claimers_with_three_different_nows_settle_on_one() {
    for burst in [1, 2] {
        let (departed, key) = (key(1), key(2));
        let model = divided(departed);
        let model = model.thread(move |s| check_at(s, key, burst, NOW - 3, NOW));
        let model = model.thread(move |s| check_at(s, key, burst, NOW - 2, NOW));
        let model = model.checks(key, burst);
        model.large().explore(CROWD, move |end| {
            let admitted = end.admitted();
            assert!((1..=burst).contains(&admitted), "{admitted}");
            assert_eq!(end.charged(key), admitted);
        });
    }
}

/// Time moves between two first checks of a key: they are admitted at most the burst and what has
/// drained.
#[test]
fn a_clock_that_moves_under_a_claim_mints_nothing() {
    let key = key(1);
    let model = Model::of(1);
    let model = model.setup(|shared| shared.clock.store(NOW - 2, Ordering::Relaxed));
    let model = model.thread(move |s| {
        s.clock.store(NOW, Ordering::Relaxed);
        check(s, key, 1)
    });
    let model = model.thread(move |s| check_by_clock(s, key));
    model.explore(PAIR, move |end| {
        // A unit of NOW - 2 has drained by NOW.
        assert!((1..=2).contains(&end.admitted()));
        assert_eq!(end.charged(key), 1);
    });
}
