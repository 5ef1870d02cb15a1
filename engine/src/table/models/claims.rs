//! Claims against claims, in one line.

use super::{CROWD, Model, NOW, PAIR, TRIO, give_up, key};

#[test]
fn first_checks_of_one_key_admit_one_burst() {
    for (lines, burst) in [(1, 1), (1, 2), (2, 1)] {
        let key = key(1);
        let model = Model::of(lines).check_together(2, key, burst);
        let model = model.always(move |at| assert_eq!(at.charged(key), at.admitted()));
        model.explore(PAIR, move |end| assert_eq!(end.charged(key), burst.min(2)));
    }
}

#[test]
fn three_first_checks_of_one_key_admit_one_burst() {
    for burst in [1, 2] {
        let key = key(1);
        let model = Model::of(1).check_together(3, key, burst);
        let model = model.always(move |at| assert_eq!(at.charged(key), at.admitted()));
        model.explore(TRIO, move |end| assert_eq!(end.charged(key), burst));
    }
}

/// Only one slot is vacant, so a claimer that took its own key's word for another's would evict it.
#[test]
fn first_checks_with_a_live_key_admit_one_burst() {
    let (key, live) = (key(1), key(2));
    let model = Model::of(1).given(live, NOW + 9).check_together(2, key, 1);
    let model = model.always(move |at| {
        assert_eq!((at.charged(key), at.charged(live)), (at.admitted(), 9));
    });
    model.explore(PAIR, move |end| assert_eq!(end.admitted(), 1));
}

#[test]
fn different_keys_that_want_one_slot_both_find_a_place() {
    let (left, right) = (key(1), key(2));
    let model = Model::of(1).checks(left, 1).checks(right, 1);
    model.explore(PAIR, move |end| {
        assert_eq!((end.result(0), end.result(1)), (1, 1));
        assert_eq!((end.charged(left), end.charged(right)), (1, 1));
    });
}

/// Two claimers of one key and one of another, for two slots.
#[test]
fn a_rival_for_the_slot_changes_no_charge() {
    let (key, rival) = (key(1), key(2));
    let model = Model::of(1).check_together(2, key, 1).checks(rival, 1);
    model.explore(TRIO, move |end| {
        assert_eq!(end.admitted(), 2);
        assert_eq!((end.charged(key), end.charged(rival)), (1, 1));
    });
}

/// The first slot is claimed by another key, which withdraws: a claimer that has met that intent
/// takes the second slot, one that has not takes the first, which is unused.
#[test]
fn claimers_of_one_key_around_a_withdrawn_claim_settle_on_one() {
    let (key, passing, departed) = (key(1), key(2), key(3));
    let model = Model::of(1).given_in(departed, 0, 1, NOW).check_together(2, key, 1);
    let model = model.thread(move |s| give_up(s, passing));
    let model = model.always(move |at| {
        assert_eq!((at.charged(key), at.charged(passing)), (at.admitted(), 0));
    });
    model.explore(TRIO, |end| {
        assert_eq!(end.admitted(), 1);
        end.nothing_left_behind();
    });
}

/// Nothing is vacant: three keys take two slots from live keys, and each charge is on its own key
/// or gone with it.
#[test]
fn three_keys_in_a_full_table_evict_and_are_counted() {
    let keys = [key(1), key(2), key(3)];
    let (near, far) = (key(4), key(5));
    let model = Model::of(1).given(near, NOW + 1).given(far, NOW + 9);
    let model = keys.iter().fold(model, |model, key| model.checks(*key, 1));
    let model = model.always(move |at| {
        assert!(keys.iter().all(|key| at.charged(*key) <= 1));
        assert!([0, 1].contains(&at.charged(near)) && [0, 9].contains(&at.charged(far)));
    });
    model.large().explore(CROWD, move |end| {
        assert_eq!(end.admitted(), 3);
        let all = [keys[0], keys[1], keys[2], near, far];
        let live = all.iter().filter(|key| end.charged(**key) > 0).count();
        assert_eq!(live as u64 + end.evicted(), 5, "a key is gone that was not counted");
    });
}

/// Two claimers of one key evict one key and no other.
#[test]
fn claimers_of_one_key_in_a_full_table_settle_on_one() {
    for burst in [1, 2] {
        let (key, near, far) = (key(1), key(2), key(3));
        let model = Model::of(1).given(near, NOW + 1).given(far, NOW + 9);
        let model = model.check_together(2, key, burst);
        let model = model.always(move |at| assert!(at.charged(key) <= burst));
        model.explore(PAIR, move |end| {
            assert_eq!((end.admitted(), end.charged(key)), (burst, burst));
            // Both claim the slot of the least value; the second one finds the first one's intent.
            assert_eq!((end.charged(far), end.evicted()), (9, 1));
        });
    }
}

/// Beyond what loom explores in useful time.
#[cfg(interleave)]
#[test]
fn four_claimers_settle_on_one() {
    let key = key(1);
    let model = Model::of(1).check_together(4, key, 1);
    let model = model.always(move |at| assert_eq!(at.charged(key), at.admitted()));
    model.explore(TRIO, move |end| assert_eq!(end.admitted(), 1));
}
