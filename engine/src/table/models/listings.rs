//! Listings of a table that keeps home bits, next to claims: keys come back whole.

use crate::base::key::KeyHash;

use super::{CROWD, Model, PAIR, State};

/// A key of one line and tag with the home bits that go with its name.
fn key(name: u64) -> KeyHash {
    KeyHash::from_parts(name + 10, name)
}

/// Every key that is listed is one of `keys`, bit by bit.
fn lists_only(at: &State<'_>, keys: &[KeyHash]) {
    for (listed, _) in at.shared.table.entries() {
        assert!(keys.contains(&listed), "{listed:?} is no key of the model");
    }
}

/// The key that departs is listed as itself, the one that comes as itself, and neither as a mixture
/// of both.
#[test]
fn a_listing_during_a_handover_gives_whole_keys() {
    let (departing, coming) = (key(1), key(2));
    let keys = [departing, coming];
    let model = Model::of(1).with_homes().given(departing, super::NOW + 1).given(key(3), 900);
    let model = model.checks(coming, 3).thread(move |shared| {
        let entries = shared.table.entries().filter(|(_, value)| *value != 900);
        entries.for_each(|(listed, _)| assert!(keys.contains(&listed), "{listed:?}"));
        0
    });
    let model = model.always(move |at| lists_only(at, &[departing, coming, key(3)]));
    model.explore(PAIR, move |end| assert_eq!((end.admitted(), end.charged(coming)), (1, 1)));
}

/// Whatever a claim that was stolen still writes, the key that has the slot is listed.
#[test]
fn claims_that_steal_from_each_other_leave_their_own_home_bits() {
    let keys = [key(1), key(2), key(3)];
    let model = Model::of(1).with_homes();
    let model = keys.iter().fold(model, |model, key| model.checks(*key, 3));
    let model = model.always(move |at| lists_only(at, &keys));
    model.large().explore(CROWD, move |end| {
        let live = end.shared.table.entries().count();
        assert_eq!((end.admitted(), live, end.evicted()), (3, 2, 1));
    });
}
