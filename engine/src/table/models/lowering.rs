//! Refund and reset, which lower words, against all else.

use super::{LARGE, Model, NOW, PAIR, TRIO, check, key, refund, reset};

#[test]
fn a_refund_and_a_check_add_up() {
    for burst in [1, 2] {
        let key = key(1);
        let model = Model::of(1).given(key, NOW + 1).checks(key, burst);
        model.thread(move |s| refund(s, key, 1)).explore(PAIR, move |end| {
            assert_eq!(end.charged(key), end.admitted());
            assert!(burst == 1 || end.admitted() == 1);
        });
    }
}

#[test]
fn two_refunds_add_up_and_stop_at_fresh() {
    for (given, left) in [(4, 1), (3, 0), (2, 0)] {
        let key = key(1);
        let model = Model::of(1).given(key, NOW + given);
        let model = model.thread(move |s| refund(s, key, 1)).thread(move |s| refund(s, key, 2));
        model.explore(PAIR, move |end| {
            assert_eq!(end.charged(key), left);
            assert!(end.shared.table.entries().all(|(_, value)| value >= NOW));
        });
    }
}

#[test]
fn two_refunds_during_a_check_add_up() {
    let key = key(1);
    let model = Model::of(1).given(key, NOW + 3).checks(key, 4);
    let model = model.thread(move |s| refund(s, key, 1)).thread(move |s| refund(s, key, 1));
    model.explore(TRIO, move |end| assert_eq!((end.admitted(), end.charged(key)), (1, 2)));
}

#[test]
fn a_reset_forgets_a_check_or_comes_before_it() {
    for burst in [2, 3] {
        let key = key(1);
        let model = Model::of(1).given(key, NOW + 2).checks(key, burst);
        model.thread(move |s| reset(s, key)).explore(PAIR, move |end| {
            // Denied before, admitted before and forgotten, or admitted after.
            assert!(end.charged(key) <= end.admitted());
            assert!(burst == 2 || end.admitted() == 1);
        });
    }
}

#[test]
fn a_reset_and_a_refund_leave_the_key_fresh() {
    let key = key(1);
    let model = Model::of(1).given(key, NOW + 3);
    let model = model.thread(move |s| reset(s, key)).thread(move |s| refund(s, key, 1));
    model.explore(PAIR, move |end| assert_eq!(end.charged(key), 0));
}

/// A key that has no slot yet: the units to give back are charged already, or not yet.
#[test]
fn lowering_a_key_that_is_being_claimed_comes_before_or_after() {
    for resets in [false, true] {
        let key = key(1);
        let model = Model::of(1).checks(key, 1);
        let lower = move |s: &_| if resets { reset(s, key) } else { refund(s, key, 1) };
        model.thread(lower).explore(PAIR, move |end| {
            assert_eq!(end.admitted(), 1);
            assert!(end.charged(key) <= 1);
        });
    }
}

/// The key's word is lowered to one that has expired, and another key takes the slot.
#[test]
fn a_slot_lowered_to_expired_is_free_to_take() {
    for resets in [false, true] {
        let (departing, live, coming) = (key(1), key(2), key(3));
        let model = Model::of(1).given(departing, NOW + 1).given(live, NOW + 9);
        let lower = move |s: &_| if resets { reset(s, departing) } else { refund(s, departing, 1) };
        model.thread(lower).checks(coming, 1).explore(PAIR, move |end| {
            assert_eq!(end.admitted(), 1);
            assert_eq!((end.charged(departing), end.charged(live), end.charged(coming)), (0, 9, 1));
            assert!(end.evicted() <= 1);
        });
    }
}

/// The same while the departing key is checked again.
#[test]
fn a_slot_lowered_under_a_check_charges_each_its_own() {
    for resets in [false, true] {
        let (departing, live, coming) = (key(1), key(2), key(3));
        let model = Model::of(1).given(departing, NOW + 1).given(live, NOW + 9);
        let lower = move |s: &_| if resets { reset(s, departing) } else { refund(s, departing, 1) };
        let model = model.thread(lower).checks(coming, 1).checks(departing, 2);
        let model = model.always(move |at| {
            assert!(at.charged(coming) <= 1 && at.charged(departing) <= 2);
            assert_eq!(at.charged(live) % 9, 0);
        });
        model.large().explore(TRIO, |end| assert_eq!(end.admitted(), 2));
    }
}

/// The victim's word and the newcomer's are the same value; only the generation differs.
#[test]
fn what_an_evicted_key_gives_back_is_not_taken_from_the_newcomer() {
    for resets in [false, true] {
        let (victim, live, coming) = (key(1), key(2), key(3));
        let model = Model::of(1).given(victim, NOW + 1).given(live, NOW + 9);
        let lower = move |s: &_| if resets { reset(s, victim) } else { refund(s, victim, 1) };
        model.thread(lower).checks(coming, 1).explore(PAIR, move |end| {
            assert_eq!((end.charged(coming), end.charged(victim)), (1, 0));
        });
    }
}

/// The same, where both words have been charged since they were claimed.
#[test]
fn a_charged_word_keeps_its_generation() {
    let (victim, live, coming) = (key(1), key(2), key(3));
    let model = Model::of(1).given(victim, NOW).given(live, NOW + 9);
    let model = model.setup(move |s| assert_eq!(check(s, victim, 2) + check(s, victim, 2), 2));
    let model = model.thread(move |s| refund(s, victim, 1));
    let model = model.thread(move |s| check(s, coming, 2) + check(s, coming, 2));
    model.explore(PAIR, move |end| {
        assert_eq!((end.admitted(), end.charged(coming), end.charged(victim)), (2, 2, 0));
    });
}

/// A value goes up and down again while another thread is between reading it and charging it: the
/// same state of the same key, so the charge counts.
#[test]
fn a_value_that_comes_back_is_the_same_state() {
    let key = key(1);
    let model = Model::of(1).given(key, NOW + 1).checks(key, 3);
    let model = model.thread(move |s| check(s, key, 3) + refund(s, key, 1));
    model.explore(PAIR, move |end| assert_eq!((end.admitted(), end.charged(key)), (2, 2)));
}

/// The slot goes to a second key and back, to the same value as before, while a refund is under
/// way.
#[test]
fn a_delayed_refund_is_not_fooled_by_a_slot_that_came_back() {
    for resets in [false, true] {
        let (first, second, third) = (key(1), key(2), key(3));
        let model = Model::of(1).given(first, NOW + 1).given(third, NOW + 9);
        let lower = move |s: &_| if resets { reset(s, first) } else { refund(s, first, 1) };
        let model = model.thread(lower);
        let model = model.thread(move |s| check(s, second, 1) & check(s, first, 1));
        let model = model.always(move |at| {
            assert!(at.charged(second) <= 1 && at.charged(first) <= 1);
            assert_eq!(at.charged(third) % 9, 0);
        });
        model.explore(LARGE, move |end| {
            // Only an eviction forgets the second key, whatever is given back.
            assert!(end.charged(second) == 1 || end.evicted() > 0);
        });
    }
}

/// The slot is lowered and claimed again twice, so that a second key's word is what the first one's
/// was; a check of the first key began before.
#[test]
fn a_delayed_check_is_not_fooled_by_words_that_went_down() {
    let (first, second, live) = (key(1), key(2), key(3));
    let model = Model::of(1).given(first, NOW + 1).given(live, NOW + 9);
    let model = model.checks(first, 2);
    let model = model.thread(move |s| reset(s, first) + check(s, second, 1));
    let model = model.always(move |at| {
        assert!(at.charged(second) <= 1 && at.charged(first) <= 2);
    });
    model.explore(LARGE, move |end| {
        assert_eq!(end.admitted(), 2);
        let live = [first, second, live].iter().filter(|key| end.charged(**key) > 0).count();
        assert!(live == 2 || end.evicted() > 0);
    });
}
