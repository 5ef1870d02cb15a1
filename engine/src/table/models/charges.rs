//! A key that has its slot.

use super::{COMPLETE, Model, NOW, TRIO, key, update};

#[test]
fn charges_to_one_word_are_never_lost() {
    for burst in [1, 2, 3] {
        let key = key(1);
        let model = Model::of(1).given(key, NOW).check_together(2, key, burst);
        model.always(move |at| assert_eq!(at.charged(key), at.admitted())).explore(
            COMPLETE,
            move |end| {
                assert_eq!(end.admitted(), burst.min(2));
                assert_eq!(end.charged(key), end.admitted());
            },
        );
    }
}

#[test]
fn three_charges_to_one_word_are_never_lost() {
    for burst in [1, 2, 3] {
        let key = key(1);
        let model = Model::of(1).given(key, NOW);
        let model = model.check_together(3, key, burst);
        model.always(move |at| assert_eq!(at.charged(key), at.admitted())).explore(
            TRIO,
            move |end| {
                assert_eq!(end.admitted(), burst);
                assert_eq!(end.charged(key), burst);
            },
        );
    }
}

/// A peek and a denial write nothing, so they do not change a key's charges.
#[test]
fn looking_changes_nothing() {
    let key = key(1);
    let peeks = move |shared: &_| update(shared, key, NOW, || NOW, |_, _| None);
    Model::of(1).thread(peeks).checks(key, 1).explore(COMPLETE, move |end| {
        assert_eq!((end.result(0), end.result(1)), (0, 1));
        assert_eq!(end.charged(key), 1);
    });
}
