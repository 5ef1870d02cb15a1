//! Threads that stall for ever in the middle of a claim.

use crate::KeyHash;
use crate::base::sync::Ordering;

use super::super::bits::{Tag, Word};
use super::{Model, NOW, PAIR, Shared, TRIO, check, key, slot_of};

/// Publishes an intent for the key in the first slot of its home line, labels it if `labelled`, and
/// stops, as a stalled thread does.
fn abandon(shared: &Shared, key: KeyHash, labelled: bool) -> u64 {
    abandon_in(shared, key, 0, labelled)
}

/// As [`abandon`], in a slot of the home line.
fn abandon_in(shared: &Shared, key: KeyHash, slot: usize, labelled: bool) -> u64 {
    let slot = slot_of(shared, key, 0, slot);
    let word = Word(slot.word.load(Ordering::Acquire));
    let tag = slot.tag.load(Ordering::Acquire);
    let generation = Tag(tag).generation().next();
    let intent = Word::intent(key, generation);
    let claimed = !word.is_claimed()
        && word.value() <= NOW
        && slot
            .word
            .compare_exchange(word.0, intent.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
    if claimed && labelled {
        let label = Tag::new(key, 0, generation).0;
        let _ = slot.tag.compare_exchange(tag, label, Ordering::Relaxed, Ordering::Relaxed);
    }
    0
}

/// A check of the stalled key completes its intent; a check of another key gets the slot without
/// evicting a live key.
#[test]
fn an_abandoned_claim_stops_no_other_thread_and_costs_no_slot() {
    for (same_key, labelled) in [(true, false), (true, true), (false, false), (false, true)] {
        let (parked, live, coming) = (key(1), key(2), key(3));
        let model = Model::of(1).given_in(live, 0, 1, NOW + 9);
        let model = model.thread(move |s| abandon(s, parked, labelled));
        let wanted = if same_key { parked } else { coming };
        model.checks(wanted, 1).explore(PAIR, move |end| {
            assert_eq!((end.result(1), end.charged(live), end.evicted()), (1, 9, 0));
            assert_eq!(check(end.shared, wanted, 2), 1, "the slot is lost");
            assert_eq!((end.charged(wanted), end.charged(live)), (2, 9));
        });
    }
}

/// Two threads of different keys and a stalled one of a third.
#[test]
fn two_keys_share_what_an_abandoned_claim_left() {
    for labelled in [false, true] {
        let (parked, left, right) = (key(1), key(2), key(3));
        let model = Model::of(1).setup(move |s| {
            abandon(s, parked, labelled);
        });
        let model = model.checks(left, 1).checks(right, 1);
        model.explore(PAIR, move |end| {
            assert_eq!((end.admitted(), end.evicted()), (2, 0));
            assert_eq!((end.charged(left), end.charged(right)), (1, 1));
        });
    }
}

/// Stalled threads' intents in both slots of a line.
fn abandoned_line(labelled: bool) -> Model {
    Model::of(1).setup(move |s| {
        for (slot, parked) in [key(8), key(9)].into_iter().enumerate() {
            abandon_in(s, parked, slot, labelled);
        }
    })
}

/// Two threads of different keys do not steal one slot from each other while there is another.
#[test]
fn two_keys_share_what_two_abandoned_claims_left() {
    for labelled in [false, true] {
        let (left, right) = (key(1), key(2));
        let model = abandoned_line(labelled).checks(left, 1).checks(right, 1);
        model.within(40).explore(PAIR, move |end| {
            assert_eq!((end.admitted(), end.evicted()), (2, 0));
            assert_eq!((end.charged(left), end.charged(right)), (1, 1));
        });
    }
}

/// Steals a slot of the home line from the claim there, if any, and stops.
fn displace(shared: &Shared, key: KeyHash, slot: usize) -> u64 {
    let slot = slot_of(shared, key, 0, slot);
    let word = Word(slot.word.load(Ordering::Acquire));
    if word.is_claimed() && !word.is_free() {
        let intent = Word::intent(key, word.generation().next());
        let _ = slot.word.compare_exchange(word.0, intent.0, Ordering::Release, Ordering::Relaxed);
    }
    0
}

/// More keys than slots, none of them live: the key that loses each slot is charged in the end, or
/// counts as evicted.
#[test]
fn a_key_that_loses_each_slot_is_decided() {
    let coming = key(1);
    let model = abandoned_line(false).checks(coming, 1);
    let model = model.thread(|s| displace(s, key(2), 0)).thread(|s| displace(s, key(3), 1));
    model.within(40).explore(TRIO, move |end| {
        assert_eq!((end.result(0), end.charged(coming) + end.evicted()), (1, 1));
    });
}

/// Two claimers of the stalled key itself.
#[test]
fn claimers_of_a_parked_key_settle_on_one() {
    for (labelled, burst) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let key = key(1);
        let model = Model::of(1).setup(move |s| {
            abandon(s, key, labelled);
        });
        let model = model.check_together(2, key, burst);
        let model = model.always(move |at| assert_eq!(at.charged(key), at.admitted()));
        model.explore(PAIR, move |end| assert_eq!(end.admitted(), burst));
    }
}

/// A claimer stops before any of its accesses while another key's completes; after that a new key
/// evicts no live key, whatever was left behind.
#[cfg(interleave)]
#[test]
fn a_claimer_parked_anywhere_leaks_no_slot() {
    let (parked, coming, next) = (key(1), key(2), key(3));
    let model = Model::of(1).checks(parked, 1).checks(coming, 1);
    let model = model.always(move |at| {
        if at.results == [None, Some(1)] {
            assert_eq!(check(at.shared, next, 1), 1);
            assert_eq!((at.charged(coming), at.charged(next), at.evicted()), (1, 1, 0));
        }
    });
    model.explore(PAIR, |end| assert_eq!(end.admitted(), 2));
}
