//! loom models of leases: every interleaving, except where a model states a bound.
//!
//! All keys meet in one entry a stripe here, an emission interval is one unit of time, and the
//! table is one line of two slots. `explore.rs` says what loom cannot see.

use loom::sync::Arc;
use loom::thread;

use core::time::Duration;

use crate::base::key::KeyHash;
use crate::base::word::Update;
use crate::explore::explore;
use crate::rule::gcra::{Gcra, Tat};
use crate::rule::quota::Quota;
use crate::table::Table;

use super::block::Block;
use super::{LEAST, LeasedCheck, Leases, Lowered, Refund, SHARE, Seat};

mod magazines;
mod refunds;

const NOW: u64 = 1_000;
const STRIPES: usize = 2;
/// The smallest burst of which something is leased.
const BURST: u64 = LEAST * SHARE * STRIPES as u64;
const FULL: u64 = NOW + BURST;

/// Preemptions a run where a key's slot is claimed; with three threads that do not only use leases,
/// where what is held cannot be returned, and where a refund meets a check.
const FIRST: usize = 3;
const TRIO: usize = 3;

const KEY: KeyHash = KeyHash::from_bits(1);
const OTHER: KeyHash = KeyHash::from_bits(2);

struct World {
    leases: Leases,
    table: Table<Tat>,
    gcra: Gcra,
}

impl World {
    fn new() -> Arc<Self> {
        Self::holding(0)
    }

    /// Where a thread may hold at most `max_cached` units of a lease.
    fn holding(max_cached: u64) -> Arc<Self> {
        let gcra = Gcra::exact(&Quota::new(1, Duration::from_nanos(1)).burst(BURST)).unwrap();
        let leases = Leases::striped(LEAST, &gcra, STRIPES).unwrap();
        Arc::new(Self {
            leases: Leases { max_cached, backing: 0, ..leases },
            table: Table::with_lines(1, Tat).unwrap(),
            gcra,
        })
    }

    fn set(&self, key: KeyHash, tat: u64) {
        self.table.home(key).update(0, || 0, |_, _| Some(tat));
    }

    fn tat(&self, key: KeyHash) -> u64 {
        match self.table.home(key).update(NOW, || NOW, |_, _| None) {
            Update::Unchanged { found, .. } => found,
            Update::Written { .. } | Update::Full { .. } => unreachable!(),
        }
    }

    /// Ends whatever lease a stripe has and puts another one there.
    fn lease(&self, stripe: usize, key: KeyHash, end: u64, units: u64) {
        while !self.try_lease(stripe, key, end, units) {}
    }

    /// The same, unless the entry is busy or another thread was first.
    fn try_lease(&self, stripe: usize, key: KeyHash, end: u64, units: u64) -> bool {
        let entry = self.leases.stripes[stripe].entry(key);
        let filling = entry.lease().and_then(|lease| entry.begin(lease));
        filling.is_some_and(|filling| filling.publish(key, Block { end, units }))
    }

    /// Makes the next check of the key in this stripe take a lease.
    fn warm(&self, stripe: usize, key: KeyHash) {
        self.leases.stripes[stripe].entry(key).heat.back(key, LEAST);
    }

    fn units(&self, stripe: usize, key: KeyHash) -> u64 {
        let lease = self.leases.stripes[stripe].entry(key).lease_of(key);
        lease.map_or(0, |lease| lease.block.units)
    }

    /// Demands that no more of the key is leased, and held by the calling thread, than its word
    /// counts as charged.
    fn assert_charged(&self, key: KeyHash) {
        let charged = self.tat(key).saturating_sub(NOW);
        assert!(self.units(0, key) + self.cached(key) <= charged, "{charged}");
    }

    fn check_at(&self, stripe: usize, key: KeyHash, now: u64) -> bool {
        let (gcra, table) = (&self.gcra, &self.table);
        let check = LeasedCheck { gcra, table, key, cost: 1, now, reread: || now };
        self.leases.decide(|| Seat::at(stripe), check).is_allowed()
    }

    fn check(&self, stripe: usize, key: KeyHash) -> bool {
        self.check_at(stripe, key, NOW)
    }

    fn peek(&self, stripe: usize, key: KeyHash) -> u64 {
        let (gcra, table) = (&self.gcra, &self.table);
        let check = LeasedCheck { gcra, table, key, cost: 0, now: NOW, reread: || NOW };
        self.leases.peek(Seat::at(stripe), &check).remaining()
    }

    /// Gives `units` back.
    fn refund(&self, key: KeyHash, units: u64) {
        let lower = |tat, now| self.gcra.refund(tat, now, units);
        let update = self.table.home(key).update(NOW, || NOW, lower);
        if let Update::Written { before, now } = update {
            if let Some(to) = lower(before, now) {
                self.recall(key, before, to);
            }
        }
    }

    /// Recalls leases, after a step that lowered the word.
    fn recall(&self, key: KeyHash, from: u64, to: u64) {
        let refund = Refund { gcra: &self.gcra, table: &self.table, key, now: || NOW };
        self.leases.recall(Seat::at(0), &refund, Lowered { from, to });
    }

    fn reset(&self, key: KeyHash) {
        let forget = |tat, now| self.gcra.refund(tat, now, BURST);
        self.table.home(key).update(NOW, || NOW, forget);
        self.leases.revoke(key);
    }

    fn return_all(&self, stripe: usize) {
        self.leases.give_back_all(Seat::at(stripe), &self.gcra, &self.table);
    }
}

fn spawn<T: 'static>(
    world: &Arc<World>,
    act: impl FnOnce(&World) -> T + 'static,
) -> thread::JoinHandle<T> {
    let world = Arc::clone(world);
    thread::spawn(move || act(&world))
}

/// Two threads in one seat use a lease of one unit when the word has none: one is admitted.
#[test]
fn a_leased_unit_is_used_once() {
    for units in [1, 2] {
        explore(None, move || {
            let world = World::new();
            world.set(KEY, FULL);
            world.lease(0, KEY, FULL, units);
            let other = spawn(&world, |world| world.check(0, KEY));
            let admitted = u64::from(world.check(0, KEY)) + u64::from(other.join().unwrap());
            assert_eq!(admitted, units);
            assert_eq!(world.units(0, KEY), 0);
        });
    }
}

/// The lease is in the stripe of one thread; the other one finds nothing in the word and steals
/// from there.
#[test]
fn use_and_theft_admit_what_was_leased() {
    for units in [1, 2] {
        explore(None, move || {
            let world = World::new();
            world.set(KEY, FULL);
            world.lease(0, KEY, FULL, units);
            let thief = spawn(&world, |world| world.check(1, KEY));
            let admitted = u64::from(world.check(0, KEY)) + u64::from(thief.join().unwrap());
            assert_eq!(admitted, units);
            assert_eq!(world.units(0, KEY), 0);
        });
    }
}

/// Three threads for two units, one of them in the seat of the lease.
#[test]
fn two_thieves_and_the_owner_admit_what_was_leased() {
    explore(None, || {
        let world = World::new();
        world.set(KEY, FULL);
        world.lease(0, KEY, FULL, 2);
        let others = [0, 1].map(|seat| spawn(&world, move |world| world.check(seat, KEY)));
        let mut admitted = u64::from(world.check(1, KEY));
        for other in others {
            admitted += u64::from(other.join().unwrap());
        }
        assert_eq!(admitted, 2);
    });
}

/// Both take a lease with their check, in one seat or in two. Every charged unit is used or leased,
/// and the blocks are disjoint.
#[test]
fn leases_taken_together_are_disjoint() {
    for seats in [[0, 0], [0, 1]] {
        explore(None, move || {
            let world = World::new();
            world.set(KEY, NOW);
            world.warm(0, KEY);
            world.warm(1, KEY);
            let other = spawn(&world, move |world| world.check(seats[1], KEY));
            assert!(world.check(seats[0], KEY));
            assert!(other.join().unwrap());
            let leased = world.units(0, KEY) + world.units(1, KEY);
            assert_eq!(world.tat(KEY) - NOW, 2 + leased);
            assert!(leased >= LEAST - 1, "{leased}");
            let blocks = [0, 1].map(|stripe| world.leases.stripes[stripe].entry(KEY).lease_of(KEY));
            if let [Some(one), Some(two)] = blocks.map(|lease| lease.map(|lease| lease.block)) {
                assert!(one.end <= two.end - two.units || two.end <= one.end - one.units);
            }
        });
    }
}

/// A key displaces another key's lease while that is being used. The units that are left go back to
/// their word, and none is used for the wrong key.
#[test]
fn a_displaced_lease_is_used_or_returned() {
    explore(None, || {
        let world = World::new();
        world.set(KEY, NOW + 5);
        world.lease(0, KEY, NOW + 5, LEAST);
        world.set(OTHER, NOW);
        world.warm(0, OTHER);
        let user = spawn(&world, |world| world.check(0, KEY));
        assert!(world.check(0, OTHER));
        assert!(user.join().unwrap());
        // One unit was used before, one is used here. The other ones are back, leased still, or
        // void, because the word was charged between the end of the lease and its return.
        let others = world.tat(KEY) - NOW - 2;
        assert!(others == world.units(0, KEY) || others == LEAST, "{others}");
        assert_eq!(world.tat(OTHER) - NOW, 1 + world.units(0, OTHER));
    });
}

/// An entry passes to another key, with as many units, while its lease is being used.
#[test]
fn a_delayed_user_does_not_use_the_next_keys_unit() {
    explore(None, || {
        let world = World::new();
        world.set(KEY, FULL);
        world.lease(0, KEY, FULL, 1);
        let user = spawn(&world, |world| world.check(0, KEY));
        world.lease(0, OTHER, FULL, 1);
        let _ = user.join().unwrap();
        assert_eq!(world.units(0, OTHER), 1, "another key's unit was used");
    });
}

/// One thread's time is past the beginning of a leased interval, the other one's is not: the unit
/// is used at the earlier time or not at all.
#[test]
fn a_drained_unit_is_not_used() {
    for seat in [0, 1] {
        explore(None, move || {
            let world = World::new();
            // Intervals from NOW - 1 and from NOW; the word has no room at any of the times.
            world.set(KEY, FULL + 5);
            world.lease(0, KEY, NOW + 1, 2);
            let late = spawn(&world, move |world| world.check_at(seat, KEY, NOW));
            let early = world.check_at(0, KEY, NOW - 1);
            let late = late.join().unwrap();
            assert!(late || (early && seat == 1), "the second one may be used at NOW");
            assert!(!world.check_at(1, KEY, NOW + 1), "an expired unit was used");
        });
    }
}

/// A thread gives its lease back while another one charges the word: the units are back, or they
/// stay in the lease because the word was charged behind them.
#[test]
fn returned_units_are_not_lost_to_a_concurrent_charge() {
    explore(None, || {
        let world = World::new();
        world.set(KEY, NOW + 5);
        world.lease(0, KEY, NOW + 5, LEAST);
        let checker = spawn(&world, |world| world.check(1, KEY));
        world.return_all(0);
        assert!(checker.join().unwrap());
        let kept = world.units(0, KEY);
        assert!(kept == 0 || kept == LEAST);
        assert_eq!(world.tat(KEY) - NOW, 2 + kept);
    });
}

/// A thread gives its lease back while another one, which the word denies, steals units.
#[test]
fn a_return_and_a_theft_do_not_both_have_a_unit() {
    explore(None, || {
        let world = World::new();
        world.set(KEY, FULL);
        world.lease(0, KEY, FULL, 2);
        let thief = spawn(&world, |world| world.check(1, KEY));
        world.return_all(0);
        let admitted = u64::from(thief.join().unwrap());
        assert_eq!(world.tat(KEY), FULL - 2 + admitted + world.units(0, KEY));
    });
}

/// A peek at a key while a lease, of another key or with one unit that has not expired, is replaced
/// by one of one unit: its result is of the one or the other.
#[test]
fn a_look_is_not_fooled_by_an_entry_that_was_passed_on() {
    for (first, end) in [(OTHER, NOW + 5), (KEY, NOW + 1)] {
        explore(None, move || {
            let world = World::new();
            world.set(KEY, FULL);
            world.lease(0, first, end, 3);
            let looker = spawn(&world, |world| world.peek(0, KEY));
            world.lease(0, KEY, FULL, 1);
            let remaining = looker.join().unwrap();
            assert!(remaining <= 1, "{remaining}");
        });
    }
}

/// The key has no slot yet: leases are charged by claimers, one of which settles it.
#[test]
fn leases_taken_with_first_checks_are_disjoint() {
    explore(Some(FIRST), || {
        let world = World::new();
        world.warm(0, KEY);
        world.warm(1, KEY);
        let other = spawn(&world, |world| world.check(1, KEY));
        assert!(world.check(0, KEY));
        assert!(other.join().unwrap());
        let leased = world.units(0, KEY) + world.units(1, KEY);
        assert_eq!(world.tat(KEY) - NOW, 2 + leased);
    });
}

/// A lease is handed out, used by a thread that finds no room in the word, and displaced by another
/// key, all at once: what is charged and not used is in the lease, back, or void.
#[test]
fn a_lease_that_is_taken_stolen_and_displaced_is_used_once() {
    explore(Some(TRIO), || {
        let world = World::new();
        world.set(KEY, FULL);
        world.lease(0, KEY, FULL, 2);
        world.set(OTHER, NOW);
        world.warm(0, OTHER);
        let owner = spawn(&world, |world| world.check(0, KEY));
        let displacer = spawn(&world, |world| world.check(0, OTHER));
        let thief = world.check(1, KEY);
        let admitted = u64::from(owner.join().unwrap()) + u64::from(thief);
        assert!(displacer.join().unwrap());
        assert!(world.tat(KEY) >= FULL - 2 + admitted + world.units(0, KEY));
        assert!(world.tat(KEY) <= FULL);
        assert_eq!(world.tat(OTHER) - NOW, 1 + world.units(0, OTHER));
    });
}

/// A lease is taken while its key is reset and `next` follows: nothing that was charged before is
/// leased afterwards.
fn take_during_a_reset(next: impl Fn(&World)) -> Arc<World> {
    let world = World::new();
    world.set(KEY, NOW + 5);
    world.warm(0, KEY);
    let owner = spawn(&world, |world| world.check(0, KEY));
    world.reset(KEY);
    next(&world);
    assert!(owner.join().unwrap());
    world.assert_charged(KEY);
    world
}

#[test]
fn a_lease_that_is_being_taken_does_not_outlive_a_reset() {
    explore(None, || {
        take_during_a_reset(|_| ());
    });
}

/// The key has no slot yet: the lease is charged by the claim.
#[test]
fn a_lease_that_is_being_claimed_does_not_outlive_a_reset() {
    explore(Some(FIRST), || {
        let world = World::new();
        world.warm(0, KEY);
        let resetter = spawn(&world, |world| world.reset(KEY));
        assert!(world.check(0, KEY));
        resetter.join().unwrap();
        world.assert_charged(KEY);
    });
}

/// A thread gives its lease back while its key is reset: it is back, or forgotten.
#[test]
fn a_lease_that_is_being_returned_does_not_outlive_a_reset() {
    explore(None, || {
        let world = World::new();
        world.set(KEY, NOW + 5);
        world.lease(0, KEY, NOW + 5, LEAST);
        let owner = spawn(&world, |world| world.return_all(0));
        world.reset(KEY);
        owner.join().unwrap();
        assert_eq!((world.tat(KEY), world.units(0, KEY)), (NOW, 0));
    });
}

/// A thread gives leases back while the entry of one that is used up passes to another key: the new
/// lease is given back to that key's word, not to the one of the key before.
#[test]
fn units_are_not_returned_to_the_key_before() {
    explore(None, || {
        let world = World::new();
        world.set(KEY, NOW + 9);
        world.lease(0, KEY, NOW + 9, 0);
        world.set(OTHER, NOW);
        world.warm(0, OTHER);
        let returner = spawn(&world, |world| world.return_all(0));
        assert!(world.check(0, OTHER));
        returner.join().unwrap();
        assert_eq!(world.tat(KEY), NOW + 9, "used units were returned");
        assert_eq!(world.tat(OTHER) - NOW, 1 + world.units(0, OTHER));
    });
}

/// An entry is poisoned while a lease is being taken, and passes to another key right away: its
/// lease is wholly of one of both keys, and nothing of it was charged before the reset.
#[test]
fn a_poisoned_lease_does_not_name_the_next_one() {
    explore(None, || {
        let world = take_during_a_reset(|world| {
            world.try_lease(0, OTHER, FULL, LEAST);
        });
        if let Some(lease) = world.leases.stripes[0].entry(OTHER).lease_of(OTHER) {
            assert_eq!(lease.block.end, FULL);
        }
    });
}
