//! The words of fixed windows, which repeat: all keys that were charged one unit in a window have
//! the same value, and only the generation distinguishes one owner of a slot from the next.

use crate::rule::Rule as _;
use crate::rule::algorithm::Algorithm as _;
use crate::rule::window::{Count, Even, FixedWindow};

use super::{LARGE, Model, NOW, PAIR, TRIO, Values, check, check_at, key, refund, reset};

/// In nanoseconds; [`NOW`] is in the third window.
const LENGTH: u64 = 40;
/// In the fourth window.
const LATER: u64 = NOW + LENGTH;

pub(super) fn counting(limit: u64) -> Count<Even> {
    let window = core::time::Duration::from_nanos(LENGTH);
    FixedWindow::new(limit, window).algorithm().expect("a limit of a few units fits")
}

/// The value of a key that was charged `count`, at least 1, in the window of `now`.
fn charged_at(now: u64, count: u64) -> u64 {
    counting(9).charge(0, now, count).expect("it was fresh")
}

fn charged(count: u64) -> u64 {
    charged_at(NOW, count)
}

/// The count in a value of the window of [`NOW`].
pub(super) fn count_of(value: u64) -> u64 {
    (1..=9).find(|count| charged(*count) == value).expect("a value of that window")
}

/// A table of window words with keys that were charged these counts in the window of [`NOW`].
fn windows(given: &[(crate::KeyHash, u64)]) -> Model {
    let model = Model::of(1).of_values(Values::Windows);
    given.iter().fold(model, |model, (key, count)| model.given(*key, charged(*count)))
}

#[test]
fn first_checks_of_one_key_take_its_limit_once() {
    for limit in [1, 2] {
        let key = key(1);
        let model = windows(&[]).check_together(2, key, limit);
        let model = model.always(move |at| assert_eq!(at.charged(key), at.admitted()));
        model.explore(PAIR, move |end| assert_eq!(end.charged(key), limit));
    }
}

#[test]
fn newcomers_with_equal_words_both_find_a_place() {
    let (left, right) = (key(1), key(2));
    windows(&[]).checks(left, 1).checks(right, 1).explore(PAIR, move |end| {
        assert_eq!((end.result(0), end.result(1)), (1, 1));
        assert_eq!((end.charged(left), end.charged(right)), (1, 1));
    });
}

/// The victim's word and the new key's have the same value, before and after each is charged.
#[test]
fn an_evicted_keys_charge_never_lands_on_a_newcomer_with_an_equal_word() {
    let (victim, live, coming) = (key(1), key(2), key(3));
    let model = windows(&[(victim, 1), (live, 9)]).checks(victim, 2).checks(coming, 2);
    let model = model.always(move |at| {
        assert!(at.charged(coming) <= 1 && at.charged(victim) <= 2);
        assert_eq!(at.charged(live) % 9, 0);
    });
    model.explore(PAIR, |end| assert_eq!(end.admitted(), 2));
}

/// A key takes the slot of one that is at its limit, and reaches the same count: it is denied
/// nothing for what its predecessor was charged.
#[test]
fn a_newcomer_is_not_denied_by_its_predecessors_count() {
    let (victim, live, coming) = (key(1), key(2), key(3));
    let model = windows(&[(victim, 2), (live, 9)]).check_together(2, coming, 2);
    model.explore(PAIR, move |end| {
        assert_eq!(end.admitted(), 2);
        assert_eq!((end.charged(coming), end.charged(live)), (2, 9));
    });
}

/// The slot goes from the first key to a second and back, three times with the same value, while a
/// check of the first is under way.
#[test]
fn a_delayed_check_is_not_fooled_by_equal_words() {
    let (first, second, third) = (key(1), key(2), key(3));
    let model = windows(&[(first, 1), (third, 9)]).checks(first, 2);
    let model = model.thread(move |s| check(s, second, 1) & check(s, first, 2));
    let model = model.always(move |at| {
        assert!(at.charged(second) <= 1 && at.charged(first) <= 2);
        assert_eq!(at.charged(third) % 9, 0);
    });
    model.large().explore(LARGE, |end| assert_eq!(end.result(1), 1));
}

#[test]
fn a_reset_forgets_a_check_or_comes_before_it() {
    for limit in [2, 3] {
        let key = key(1);
        let model = windows(&[(key, 2)]).checks(key, limit);
        model.thread(move |s| reset(s, key)).explore(PAIR, move |end| {
            assert!(end.charged(key) <= end.admitted());
            assert!(limit == 2 || end.admitted() == 1);
        });
    }
}

#[test]
fn a_refund_and_a_check_add_up() {
    for limit in [1, 2] {
        let key = key(1);
        let model = windows(&[(key, 1)]).checks(key, limit);
        model.thread(move |s| refund(s, key, 1)).explore(PAIR, move |end| {
            assert_eq!(end.charged(key), end.admitted());
            assert!(limit == 1 || end.admitted() == 1);
        });
    }
}

/// What is given back to a key that is evicted is not taken from a new key with an equal word.
#[test]
fn what_an_evicted_key_gives_back_is_not_taken_from_an_equal_word() {
    for resets in [false, true] {
        let (victim, live, coming) = (key(1), key(2), key(3));
        let lower = move |s: &_| if resets { reset(s, victim) } else { refund(s, victim, 1) };
        let model = windows(&[(victim, 1), (live, 9)]).thread(lower).checks(coming, 1);
        model.explore(PAIR, move |end| {
            assert_eq!((end.charged(coming), end.charged(victim)), (1, 0));
        });
    }
}

/// The window ends for one thread, which reuses the slot, and not yet for the other, which is
/// decided at the later time if its key is gone.
#[test]
fn a_late_thread_finds_its_key_in_the_window_that_has_begun() {
    let (departing, coming) = (key(1), key(2));
    let departed = charged_at(NOW - LENGTH, 1);
    let model = Model::of(2).of_values(Values::Windows);
    let model = model.divided((departing, charged(1)), departed, charged_at(LATER, 9));
    let model = model.thread(move |s| check_at(s, coming, 1, LATER, LATER));
    let model = model.thread(move |s| check_at(s, departing, 1, NOW, LATER));
    model.explore(PAIR, move |end| {
        assert_eq!((end.result(0), end.live(coming)), (1, vec![charged_at(LATER, 1)]));
        // Denied in its window by its word, or admitted in the next.
        let left = end.live(departing);
        match end.result(1) {
            0 => assert!(left.is_empty() || left == [charged(1)]),
            _ => assert_eq!(left, [charged_at(LATER, 1)]),
        }
    });
}

/// Threads on both sides of a window's end take one key's limit once in each window.
#[test]
fn checks_on_both_sides_of_a_windows_end_take_each_windows_limit_once() {
    let key = key(1);
    let model = windows(&[(key, 1)]).checks(key, 1);
    let model = model.thread(move |s| check_at(s, key, 1, LATER, LATER));
    let model = model.thread(move |s| check_at(s, key, 1, LATER, LATER));
    model.explore(TRIO, |end| {
        assert_eq!((end.result(0), end.result(1) + end.result(2)), (0, 1));
    });
}
