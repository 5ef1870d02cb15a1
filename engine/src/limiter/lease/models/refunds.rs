//! Refunds that recall leases, while other threads use, take, return, recall and forget them.

use super::{Arc, BURST, FULL, KEY, LEAST, NOW, TRIO, World, explore, spawn};

impl World {
    /// What the key owes and no thread can use of a lease any more: what was used, and what is
    /// lost. Demands that the word covers each lease.
    fn owed(&self) -> u64 {
        let charged = self.tat(KEY) - NOW;
        for stripe in &self.leases.stripes {
            let lease = stripe.entry(KEY).lease_of(KEY);
            assert!(lease.is_none_or(|lease| lease.block.end <= NOW + charged), "beyond the word");
        }
        charged - self.units(0, KEY) - self.units(1, KEY)
    }
}

/// Two units are given back of a key without room, whose last charges are a lease that is being
/// used: nothing is lost, and the refund takes nothing but what was used.
#[test]
fn a_refund_during_a_use_comes_out_of_what_was_used() {
    for seat in [0, 1] {
        explore(Some(TRIO), move || {
            let world = World::new();
            world.set(KEY, FULL);
            world.lease(0, KEY, FULL, LEAST);
            let other = spawn(&world, move |world| world.check(seat, KEY));
            world.refund(KEY, 2);
            let admitted = u64::from(other.join().unwrap());
            assert_eq!(world.owed(), BURST - LEAST - 2 + admitted);
        });
    }
}

/// Two refunds of a key with a lease: if one of them meets the other, what it recalls is lost, and
/// no refund takes more than it gives.
#[test]
fn refunds_at_once_take_what_they_give() {
    explore(None, || {
        let world = World::new();
        world.set(KEY, NOW + 20);
        world.lease(0, KEY, NOW + 20, LEAST);
        let other = spawn(&world, |world| world.refund(KEY, 2));
        world.refund(KEY, 3);
        other.join().unwrap();
        let used = 20 - LEAST - 2 - 3;
        assert!([used, used + LEAST].contains(&world.owed()), "{}", world.owed());
    });
}

/// A lease is taken while units are given back: if the refund meets it half-way it is lost.
#[test]
fn a_lease_that_is_taken_during_a_refund_is_recalled_or_lost() {
    explore(None, || {
        let world = World::new();
        world.set(KEY, NOW + 20);
        world.warm(0, KEY);
        let other = spawn(&world, |world| assert!(world.check(0, KEY)));
        world.refund(KEY, 2);
        other.join().unwrap();
        let used = 20 + 1 - 2;
        assert!([used, used + LEAST].contains(&world.owed()), "{}", world.owed());
    });
}

/// A lease is taken in another stripe while one is recalled, which moves the word to before its end
/// if it was taken before.
#[test]
fn a_lease_that_is_taken_while_another_is_recalled_is_covered() {
    explore(Some(TRIO), || {
        let world = World::new();
        world.set(KEY, NOW + 20);
        world.lease(1, KEY, NOW + 20, LEAST);
        world.warm(0, KEY);
        let other = spawn(&world, |world| assert!(world.check(0, KEY)));
        world.refund(KEY, 2);
        other.join().unwrap();
        let used = 20 - LEAST + 1 - 2;
        assert!([used, used + LEAST].contains(&world.owed()), "{}", world.owed());
    });
}

/// More is given back than was used, while a unit is charged: what is recalled does not take that
/// one back.
#[test]
fn what_is_recalled_is_no_more_than_what_is_left() {
    explore(None, || {
        let world = World::new();
        // Two units were used, and then four leased; four units have been given back.
        world.set(KEY, NOW + 2);
        world.lease(0, KEY, NOW + 6, LEAST);
        let other = spawn(&world, |world| assert!(world.check(1, KEY)));
        world.recall(KEY, NOW + 6, NOW + 2);
        other.join().unwrap();
        assert_eq!(world.owed(), 1);
    });
}

/// A lease is recalled while the key is reset and charged again: what was charged after the reset
/// stays.
#[test]
fn a_lease_that_is_being_recalled_does_not_outlive_a_reset() {
    explore(None, || {
        let world = recalling();
        let other = spawn(&world, |world| world.recall(KEY, NOW + 20, NOW + 18));
        world.reset(KEY);
        assert!(world.check(1, KEY));
        assert!(world.check(1, KEY));
        other.join().unwrap();
        assert_eq!(world.owed(), 2);
    });
}

/// A lease is recalled while its thread returns it: its units are given back once.
#[test]
fn a_lease_is_recalled_or_returned() {
    explore(None, || {
        let world = recalling();
        let other = spawn(&world, |world| world.return_all(0));
        world.recall(KEY, NOW + 20, NOW + 18);
        other.join().unwrap();
        let used = 20 - LEAST - 2;
        assert!([used, used + LEAST].contains(&world.owed()), "{}", world.owed());
    });
}

/// A key with a lease, of which two units have been given back just so.
fn recalling() -> Arc<World> {
    let world = World::new();
    world.set(KEY, NOW + 18);
    world.lease(0, KEY, NOW + 20, LEAST);
    world
}
