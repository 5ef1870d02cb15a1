//! A slot is reused while the key that had it is in use.

use super::{LARGE, Model, NOW, PAIR, TRIO, check, give_up, key};

/// The departing key's word has expired; it is checked again while another key takes its slot.
#[test]
fn a_claim_and_a_check_of_the_departing_key_charge_their_own() {
    let (departing, live, coming) = (key(1), key(2), key(3));
    let model = Model::of(1).given(departing, NOW - 1).given(live, NOW + 9);
    let model = model.checks(departing, 1).checks(coming, 1);
    model.explore(PAIR, move |end| {
        assert_eq!(end.admitted(), 2);
        // Three keys for two slots: the second claim evicted one, and no other key was charged for
        // it.
        let charges = [departing, live, coming].map(|key| end.charged(key));
        assert_eq!(end.evicted(), 1, "{charges:?}");
        assert!(charges[0] <= 1 && charges[2] <= 1 && [0, 9].contains(&charges[1]));
        assert_eq!(charges.iter().filter(|charge| **charge == 0).count(), 1, "{charges:?}");
    });
}

/// A key whose value counts as nothing is charged while its slot is claimed, labelled and
/// withdrawn: the word that is left is none that was there before.
#[test]
fn a_withdrawn_claim_is_not_taken_for_the_word_before_it() {
    let (first, live, passing) = (key(1), key(2), key(3));
    let model = Model::of(1).given_in(first, 0, 0, 0).given_in(live, 0, 1, NOW + 9);
    let model = model.checks(first, 1).thread(move |s| give_up(s, passing));
    let model = model.always(move |at| {
        assert_eq!(at.charged(passing), 0, "charged to a key that was never admitted");
        assert!(at.charged(first) <= at.admitted());
    });
    model.explore(PAIR, move |end| {
        assert_eq!(end.admitted(), 1);
        end.nothing_left_behind();
    });
}

/// A live key is evicted while it is being charged: the charge is on its word or gone with it,
/// never on the new key.
#[test]
fn an_evicted_keys_charge_never_lands_on_the_newcomer() {
    let (victim, live, coming) = (key(1), key(2), key(3));
    let model = Model::of(1).given(victim, NOW + 1).given(live, NOW + 9);
    let model = model.checks(victim, 2).checks(coming, 3);
    let model = model.always(move |at| {
        assert!(at.charged(coming) <= 1 && at.charged(victim) <= 2);
        assert_eq!(at.charged(live) % 9, 0);
    });
    model.explore(PAIR, |end| assert_eq!(end.admitted(), 2));
}

/// The same with two checks of the key that is evicted.
#[test]
fn eviction_during_two_checks_charges_each_its_own() {
    let (victim, live, coming) = (key(1), key(2), key(3));
    let model = Model::of(1).given(victim, NOW + 1).given(live, NOW + 9);
    let model = model.check_together(2, victim, 3).checks(coming, 3);
    let model = model.always(move |at| {
        assert!(at.charged(coming) <= 1 && at.charged(victim) <= 3);
        assert_eq!(at.charged(live) % 9, 0);
    });
    model.large().explore(TRIO, |end| assert_eq!(end.admitted(), 3));
}

/// A key takes the slot of one that is deep in debt while another thread checks it: it is not
/// denied by its predecessor's debt.
#[test]
fn a_newcomer_is_not_denied_by_its_predecessors_debt() {
    let (victim, live, coming) = (key(1), key(2), key(3));
    let model = Model::of(1).given(victim, NOW + 5).given(live, NOW + 9);
    let model = model.check_together(2, coming, 2);
    model.explore(PAIR, move |end| {
        assert_eq!(end.admitted(), 2);
        assert_eq!((end.charged(coming), end.charged(live)), (2, 9));
    });
}

/// A key at its limit is denied while its slot is reused: by its own debt, or not at all.
#[test]
fn a_denial_during_a_hand_over_is_the_keys_own() {
    let (denied, live, coming) = (key(1), key(2), key(3));
    let model = Model::of(1).given(denied, NOW + 1).given(live, NOW + 9);
    let model = model.checks(denied, 1).checks(coming, 1);
    model.explore(PAIR, move |end| {
        assert_eq!(end.result(1), 1);
        // Admitted only if its own word was evicted, in addition to the other one.
        let other = u64::from(end.charged(live) == 0);
        assert!(end.result(0) == 0 || end.evicted() > other);
        assert!(end.charged(denied) <= 1 && end.charged(coming) <= 1);
    });
}

/// The slot goes from the first key to a second and back while a check of the first is under way.
/// The check's charge is on a word of its key or gone with one, and the second key is charged only
/// for itself.
#[test]
fn a_delayed_check_is_not_fooled_by_a_slot_that_came_back() {
    let (first, second, third) = (key(1), key(2), key(3));
    let model = Model::of(1).given(first, NOW + 1).given(third, NOW + 9);
    let model = model.checks(first, 2);
    let model = model.thread(move |s| check(s, second, 1) & check(s, first, 2));
    let model = model.always(move |at| {
        assert!(at.charged(second) <= 1 && at.charged(first) <= 2);
    });
    model.large().explore(LARGE, |end| assert_eq!(end.result(1), 1));
}

/// A claimer is delayed while the slot it has read goes to a second key, back, and on to a third:
/// its intent, label and confirm each fail or are in time.
#[test]
fn a_delayed_claimer_is_not_fooled_by_a_slot_that_came_back() {
    let (first, second, third, delayed) = (key(1), key(2), key(3), key(4));
    let model = Model::of(1).given(first, NOW + 1).given(third, NOW + 9);
    let model = model.checks(delayed, 1);
    let model =
        model.thread(move |s| check(s, second, 1) & check(s, first, 1) & check(s, second, 1));
    let model = model.always(move |at| {
        assert!([first, second, delayed].iter().all(|key| at.charged(*key) <= 1));
        assert_eq!(at.charged(third) % 9, 0);
    });
    model.large().explore(TRIO, |end| assert_eq!(end.result(0), 1));
}

/// As above, with each key in a thread of its own.
#[test]
fn three_keys_that_take_turns_at_a_slot_charge_their_own() {
    let keys = [key(1), key(2), key(3)];
    let far = key(4);
    let model = Model::of(1).given(keys[0], NOW + 1).given(far, NOW + 9);
    let model = keys.iter().fold(model, |model, key| model.checks(*key, 2));
    let model = model.always(move |at| {
        assert!(keys.iter().zip([2, 1, 1]).all(|(key, most)| at.charged(*key) <= most));
        assert_eq!(at.charged(far) % 9, 0);
    });
    model.large().explore(TRIO, |end| assert_eq!(end.admitted(), 3));
}

/// A thread that reads each key's value while one key evicts another gets a value of that key, or
/// none.
#[test]
fn a_look_during_a_hand_over_mixes_no_keys() {
    let (victim, live, coming) = (key(1), key(2), key(3));
    let model = Model::of(1).given(victim, NOW + 5).given(live, NOW + 9);
    let model = model.checks(coming, 1).thread(move |shared| {
        for (key, own) in [(victim, NOW + 5), (live, NOW + 9), (coming, NOW + 1)] {
            let value = shared.table.home(key).value();
            assert!(value.is_none_or(|value| value == own), "{key:?} has {value:?}");
        }
        0
    });
    model.explore(PAIR, |end| assert_eq!(end.result(0), 1));
}

/// A listing while one key evicts another has each key with a value of its own, or not at all.
#[test]
fn a_listing_during_a_hand_over_mixes_no_keys() {
    let (victim, live, coming) = (key(1), key(2), key(3));
    let model = Model::of(1).given(victim, NOW + 5).given(live, NOW + 9);
    let model = model.checks(coming, 1).thread(move |shared| {
        for (key, value) in shared.table.entries() {
            let own = [(victim, NOW + 5), (live, NOW + 9), (coming, NOW + 1)];
            assert!(own.contains(&(key, value)), "{key:?} has {value}");
        }
        0
    });
    model.explore(PAIR, |end| assert_eq!(end.result(0), 1));
}
