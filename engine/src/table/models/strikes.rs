//! Denials are counted with their key while its slot is reused.

use super::{LARGE, Model, NOW, Ordering, PAIR, Shared, State, TRIO, Tag, check, key};
use crate::base::key::KeyHash;

/// Checks under a burst of 1 and counts a denial with the key, as a limiter does.
fn check_and_strike(shared: &Shared, key: KeyHash) -> u64 {
    let admitted = check(shared, key, 1);
    if admitted == 0 {
        shared.table.home(key).strike(NOW);
    }
    admitted
}

/// The most strikes of any slot that is labelled with the key.
fn strikes(state: &State<'_>, key: KeyHash) -> u32 {
    let slots = state.shared.table.lines.all().iter().flat_map(|line| &line.slots);
    let tags = slots.map(|slot| Tag(slot.tag.load(Ordering::Relaxed)));
    tags.filter(|tag| tag.names(key)).map(Tag::strikes).max().unwrap_or(0)
}

/// A key is denied, and the denial counted, while another key takes its slot. The new key inherits
/// nothing, and its label stays.
#[test]
fn a_strike_never_lands_on_the_newcomer() {
    let (victim, live, coming) = (key(1), key(2), key(3));
    let model = Model::of(1).given(victim, NOW + 1).given(live, NOW + 9);
    let model = model.thread(move |s| check_and_strike(s, victim)).checks(coming, 3);
    model.large().explore(PAIR, move |end| {
        assert_eq!(end.result(1), 1);
        assert_eq!(strikes(end, coming), 0);
        assert!(end.charged(coming) <= 1 && end.charged(victim) <= 1);
        // Only a victim that is admitted anew takes the slot back.
        assert!(end.result(0) == 1 || end.charged(coming) == 1);
        assert_eq!(end.charged(live) % 9, 0);
    });
}

/// The slot goes to a second key and back to the first while a denial from the first key's first
/// life is being counted.
#[test]
fn a_strike_is_not_fooled_by_a_slot_that_came_back() {
    let (first, second, third) = (key(1), key(2), key(3));
    let model = Model::of(1).given(first, NOW + 1).given(third, NOW + 9);
    let model = model.thread(move |s| check_and_strike(s, first));
    let model = model.thread(move |s| check(s, second, 1) & check(s, first, 2));
    model.large().explore(LARGE, move |end| {
        assert_eq!(end.result(1), 1);
        assert_eq!(strikes(end, second), 0);
        assert!(strikes(end, first) <= 1);
        assert!(end.charged(second) <= 1 && end.charged(first) <= 2);
    });
}

/// The loser of two first checks is denied and counts that, while the winner, or a thread that
/// helps it, may still be labelling: the key has one word and one charge.
#[test]
fn a_strike_does_not_disturb_a_claim_of_its_key() {
    let key = key(1);
    let model = Model::of(1).thread(move |s| check_and_strike(s, key));
    let model = model.thread(move |s| check_and_strike(s, key));
    model.large().explore(PAIR, move |end| {
        assert_eq!((end.admitted(), end.charged(key)), (1, 1));
        assert!(strikes(end, key) <= 1);
    });
}

/// Two keys claim slots while the owner of one is being denied.
#[test]
fn a_strike_among_two_claims_stops_neither() {
    let (victim, live, coming) = (key(1), key(2), [key(3), key(4)]);
    let model = Model::of(1).given(victim, NOW + 1).given(live, NOW + 1);
    let model = model.thread(move |s| check_and_strike(s, victim));
    let model = model.checks(coming[0], 1).checks(coming[1], 1);
    model.large().explore(TRIO, move |end| {
        assert_eq!((end.result(1), end.result(2)), (1, 1));
        assert!(coming.iter().all(|key| strikes(end, *key) == 0 && end.charged(*key) <= 1));
        assert!(end.charged(victim) <= 1 && end.charged(live) <= 1);
    });
}
