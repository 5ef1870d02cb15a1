//! Cached units: taken, used and returned while other threads lower the key's word, use the lease,
//! or pass its entry on.

use super::{FULL, KEY, KeyHash, NOW, OTHER, TRIO, World, explore, spawn};

impl World {
    /// What the calling thread holds of a key.
    pub(super) fn cached(&self, key: KeyHash) -> u64 {
        self.leases.cached(key).map_or(0, |(_, _, block)| block.units)
    }
}

/// A thread uses a unit and takes two more into its magazine, while `lowered` units are given back
/// of its key, whose word has no room: what it holds then is covered by the word.
#[test]
fn cached_units_do_not_outlive_a_refund() {
    for lowered in [2, 4, 5] {
        explore(Some(TRIO), move || {
            let world = World::holding(2);
            world.set(KEY, FULL);
            world.lease(0, KEY, FULL, 5);
            let other = spawn(&world, move |world| world.refund(KEY, lowered));
            // Denied if it finds no room in the word and then the lease being trimmed.
            let _ = world.check(0, KEY);
            other.join().unwrap();
            assert_eq!(world.cached(KEY), 0);
            world.assert_charged(KEY);
        });
    }
}

/// The same for units that the thread holds, when it uses the rest of those of which some have
/// expired.
#[test]
fn the_cached_rest_does_not_outlive_a_reset() {
    explore(None, || {
        let world = World::holding(3);
        world.set(KEY, FULL);
        world.lease(0, KEY, NOW + 5, 5);
        assert!(world.check(0, KEY));
        assert_eq!(world.cached(KEY), 3);
        let other = spawn(&world, |world| world.reset(KEY));
        assert!(world.check_at(0, KEY, NOW + 2));
        other.join().unwrap();
        assert_eq!((world.cached(KEY), world.units(0, KEY)), (0, 0));
    });
}

/// A thread holds units of a key whose entry another thread passes to another key while a third one
/// resets the key.
#[test]
fn cached_units_do_not_outlive_a_reset_of_a_key_that_was_displaced() {
    explore(None, || {
        let world = World::holding(2);
        world.set(KEY, FULL);
        world.lease(0, KEY, FULL, 5);
        assert!(world.check(0, KEY));
        assert_eq!(world.cached(KEY), 2);
        // The writer first: loom does not move loads behind later writes of other threads.
        let passer = spawn(&world, |world| world.try_lease(0, OTHER, FULL, 1));
        let resetter = spawn(&world, |world| world.reset(KEY));
        resetter.join().unwrap();
        assert_eq!(world.cached(KEY), 0);
        passer.join().unwrap();
    });
}

/// Two threads use a lease of four units and both take one into their magazines, when the word has
/// none: each unit is used once, or left where it can be used.
#[test]
fn a_cached_unit_is_used_once() {
    for seat in [0, 1] {
        explore(None, move || {
            let world = World::holding(1);
            world.set(KEY, FULL);
            world.lease(0, KEY, FULL, 4);
            let use_two = |world: &World, seat| {
                let admitted = (0..2).map(|_| u64::from(world.check(seat, KEY))).sum::<u64>();
                admitted + world.cached(KEY)
            };
            let other = spawn(&world, move |world| use_two(world, seat));
            let ours = use_two(&world, 0);
            assert_eq!(ours + other.join().unwrap() + world.units(0, KEY), 4);
        });
    }
}

/// A thread gives its lease and what it holds of it back while another one charges the word.
#[test]
fn cached_units_are_returned_with_their_lease() {
    for units in [3, 5] {
        explore(None, move || {
            let world = World::holding(2);
            world.set(KEY, NOW + 7);
            world.lease(0, KEY, NOW + 7, units);
            assert!(world.check(0, KEY));
            let checker = spawn(&world, |world| world.check(1, KEY));
            world.return_all(0);
            assert!(checker.join().unwrap());
            let kept = world.units(0, KEY) + world.cached(KEY);
            assert!(kept == 0 || kept == units - 1, "{kept}");
            assert_eq!(world.tat(KEY) - NOW, 7 - units + 2 + kept);
        });
    }
}

/// The same while the key is reset.
#[test]
fn cached_units_that_are_being_returned_do_not_outlive_a_reset() {
    for units in [3, 5] {
        explore(None, move || {
            let world = World::holding(2);
            world.set(KEY, NOW + 7);
            world.lease(0, KEY, NOW + 7, units);
            assert!(world.check(0, KEY));
            let other = spawn(&world, |world| world.reset(KEY));
            world.return_all(0);
            other.join().unwrap();
            assert_eq!((world.tat(KEY), world.units(0, KEY), world.cached(KEY)), (NOW, 0, 0));
        });
    }
}

/// What a thread holds is in its lease again, because it cannot be returned, and taken again while
/// the key's word is lowered.
#[test]
fn cached_units_that_cannot_be_returned_do_not_outlive_a_refund() {
    for lowered in [2, 4, 5] {
        explore(Some(TRIO), move || {
            let world = World::holding(3);
            // Charged behind the lease.
            world.set(KEY, NOW + 5);
            world.lease(0, KEY, NOW + 4, 4);
            assert!(world.check(0, KEY));
            assert_eq!(world.cached(KEY), 3);
            let other = spawn(&world, move |world| world.refund(KEY, lowered));
            world.return_all(0);
            let _ = world.check(0, KEY);
            other.join().unwrap();
            world.assert_charged(KEY);
        });
    }
}
