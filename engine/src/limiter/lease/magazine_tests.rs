//! What threads have cached, with several threads played by one thread.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::key::KeyHash;
use crate::limiter::Limiter;
use crate::limiter::mode::{Extended, Mode};
use crate::rule::gcra::{Gcra, Tat};
use crate::rule::quota::Quota;
use crate::table::Table;
use crate::time::{Clock as _, ManualClock};

use super::entry::LeaseEpoch;
use super::magazine::{BACKING, CACHED_SHARE, CachedUnits, LimiterId, MAX_CACHED, Magazines};
use super::{ENTRIES, LeasedCheck, Leases, Seat};

const BURST: u64 = 100_000;
/// Units that are held of the largest lease.
const MOST: u64 = MAX_CACHED;
const KEY: KeyHash = KeyHash::from_bits(1);
/// Has an entry of its own, and the same magazine.
const OTHER: KeyHash = KeyHash::from_bits(1 + ENTRIES as u64 / 2);

fn limiter() -> Limiter<Quota, ManualClock> {
    let quota = Quota::per_second(1).burst(BURST);
    let table = Table::new(2, Tat).unwrap();
    let leases = Leases::striped(MOST * CACHED_SHARE, &Gcra::exact(&quota).unwrap(), 2);
    Limiter::for_tests(
        quota,
        ManualClock::new(),
        table,
        leases.map_or(Mode::Word, |leases| Mode::Extended(Extended::Leased(leases))),
    )
}

fn held(limiter: &Limiter<Quota, ManualClock>, key: KeyHash) -> u64 {
    limiter.leases_on().cached(key).map_or(0, |(_, _, block)| block.units)
}

/// Checks until the most units are held and more are leased. Returns how many were admitted.
fn hold(limiter: &Limiter<Quota, ManualClock>, key: KeyHash) -> u64 {
    let mut admitted = 0;
    while held(limiter, key) < MOST || limiter.leased(key) < 3 * MOST + 2 {
        assert!(limiter.check(key).is_allowed());
        admitted += 1;
    }
    admitted
}

/// Another thread in the same seat uses a unit of the lease.
fn use_one_as_another(limiter: &Limiter<Quota, ManualClock>) {
    let theirs = Magazines::empty();
    theirs.swap();
    assert!(limiter.check(KEY).is_allowed());
    theirs.swap();
}

/// Seconds until the first unit that is held has begun, at time 0.
fn until_first(limiter: &Limiter<Quota, ManualClock>) -> u64 {
    debt(limiter, KEY) - limiter.leased(KEY)
}

/// Checks until nothing is admitted any more.
fn exhaust(limiter: &Limiter<Quota, ManualClock>, key: KeyHash) -> u64 {
    (0..2 * BURST).take_while(|_| limiter.check(key).is_allowed()).count() as u64
}

/// The debt in the key's word, in units.
fn debt(limiter: &Limiter<Quota, ManualClock>, key: KeyHash) -> u64 {
    let (table, gcra) = limiter.parts();
    let now = gcra.scale().instant(limiter.clock().now());
    super::tat_of(table, key, now).saturating_sub(now) / gcra.interval()
}

/// Charges the key's word with one unit.
fn charge(limiter: &Limiter<Quota, ManualClock>, key: KeyHash) {
    let (table, gcra) = limiter.parts();
    table.home(key).update(0, || 0, |tat, _| Some(tat + gcra.interval()));
}

#[test]
fn what_is_held_is_a_small_part_of_a_lease() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    assert_eq!(limiter.leases_on().max_cached, MOST);
    // Used up one by one, and then there are as many again.
    for left in (0..MOST).rev() {
        assert!(limiter.check(KEY).is_allowed());
        assert_eq!(held(&limiter, KEY), left);
    }
    assert!(limiter.check(KEY).is_allowed());
    assert_eq!(held(&limiter, KEY), MOST);
}

/// Other threads are denied while a thread holds units, and nothing else is left; the units are
/// still the thread's then.
#[test]
fn others_do_not_find_what_is_held() {
    Seat::sit(0);
    let limiter = limiter();
    let mut admitted = hold(&limiter, KEY);
    let theirs = Magazines::empty();
    theirs.swap();
    Seat::sit(1);
    admitted += exhaust(&limiter, KEY);
    assert_eq!(admitted, BURST - MOST);
    assert_eq!(limiter.leased(KEY), 0, "what other threads hold is not counted");
    theirs.swap();
    assert_eq!(limiter.leased(KEY), MOST);
    assert_eq!(exhaust(&limiter, KEY), MOST);
}

/// A cost above what is held is paid by the held units and the lease together, unless other threads
/// have used units in between.
#[test]
fn a_cost_is_paid_by_what_is_held_and_its_lease() {
    for between in [false, true] {
        Seat::sit(0);
        let limiter = limiter();
        hold(&limiter, KEY);
        let mut owed = debt(&limiter, KEY);
        let leased = limiter.leased(KEY);
        if between {
            use_one_as_another(&limiter);
        }
        let cost = leased - MOST;
        assert!(limiter.check_n(KEY, cost).is_allowed());
        owed += if between { cost } else { 0 };
        assert_eq!(debt(&limiter, KEY), owed, "used in between: {between}");
        assert_eq!(held(&limiter, KEY), MOST);
    }
}

/// What is held of a key in one limiter is not used for the same key in another, to which the
/// magazine passes in the end.
#[test]
fn what_is_held_of_one_limiter_is_used_in_no_other() {
    Seat::sit(0);
    let (one, other) = (limiter(), limiter());
    let first = hold(&one, KEY);
    assert_eq!(held(&other, KEY), 0);
    let second = hold(&other, KEY);
    assert_eq!(held(&one, KEY), 0);
    assert_eq!(second + exhaust(&other, KEY), BURST);
    drop(other);
    assert_eq!(first + exhaust(&one, KEY), BURST - MOST);
}

/// Threads come and go: what they hold when they end is lost, and little compared with what they
/// have used.
#[test]
fn what_threads_hold_when_they_end_is_a_small_part_of_what_they_used() {
    const ALIVE: usize = 3;
    for (threads, turns) in [(3_000, 10), (600, 30), (60, 400)] {
        Seat::sit(0);
        let limiter = limiter();
        let (mut alive, mut used) = (VecDeque::new(), 0);
        for _ in 0..threads {
            alive.push_back(Magazines::empty());
            for _ in 0..turns {
                for magazines in &alive {
                    magazines.swap();
                    assert!(limiter.check(KEY).is_allowed());
                    magazines.swap();
                    used += 1;
                }
            }
            if alive.len() == ALIVE {
                alive.pop_front();
            }
        }
        let lost = debt(&limiter, KEY) - limiter.leased(KEY) - used;
        assert!(lost > 0 || turns < 30, "nothing was held");
        assert!(lost <= used / u64::from(BACKING), "{lost} of {used}");
    }
}

/// What is held of a lease that cannot be returned is in the lease again, where other threads find
/// it, unless they have used units in between.
#[test]
fn what_cannot_be_returned_is_left_to_others() {
    for between in [false, true] {
        Seat::sit(0);
        let limiter = limiter();
        let mut admitted = hold(&limiter, KEY) + 1;
        let leased = limiter.leased(KEY);
        let theirs = Magazines::empty();
        theirs.swap();
        Seat::sit(usize::from(!between));
        assert!(limiter.check(KEY).is_allowed());
        theirs.swap();
        Seat::sit(1);
        charge(&limiter, KEY);
        Seat::sit(0);
        limiter.return_leases();
        assert_eq!(limiter.leased(KEY), leased - u64::from(between));
        assert_eq!(held(&limiter, KEY), if between { MOST } else { 0 });
        theirs.swap();
        admitted += 1 + exhaust(&limiter, KEY);
        assert_eq!(admitted, if between { BURST - MOST } else { BURST });
        theirs.swap();
    }
}

/// A word that is lower for a moment than what a lease ends at, as while it is lowered, makes a
/// check use none of the lease and of what is held.
#[test]
fn what_is_void_for_a_moment_is_not_used_up() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    // No other lease is taken instead.
    limiter.leases_on().stripes[0].entry(KEY).heat.lost(KEY, BURST);
    let leased = limiter.leased(KEY);
    let (table, gcra) = limiter.parts();
    let before = super::tat_of(table, KEY, 0);
    table.home(KEY).update(0, || 0, |_, _| Some(gcra.interval()));
    assert!(limiter.check(KEY).is_allowed());
    assert_eq!(debt(&limiter, KEY), 2);
    table.home(KEY).update(0, || 0, |_, _| Some(before));
    assert_eq!(limiter.leased(KEY), leased);
}

/// What a thread holds before a gap stays when its lease is returned, and is void after a refund.
#[test]
fn what_is_held_without_a_lease_is_void_after_a_refund() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    use_one_as_another(&limiter);
    limiter.return_leases();
    assert_eq!(held(&limiter, KEY), MOST);
    let theirs = Magazines::empty();
    theirs.swap();
    limiter.refund(KEY, 2);
    theirs.swap();
    assert_eq!(held(&limiter, KEY), 0);
}

/// What a thread holds and gives back is not lost: it may hold as much again at once.
#[test]
fn what_is_given_back_by_its_thread_backs_as_before() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    limiter.refund(KEY, 1);
    assert_eq!((held(&limiter, KEY), limiter.leased(KEY)), (0, 0));
    // Takes a lease, and then what is held.
    for holds in [0, MOST] {
        assert!(limiter.check(KEY).is_allowed());
        assert_eq!(held(&limiter, KEY), holds);
    }
}

/// A lease that begins where void units end does not make them usable.
#[test]
fn what_is_void_is_not_joined_to_the_next_lease() {
    Seat::sit(0);
    let limiter = limiter();
    let mut admitted = hold(&limiter, KEY);
    let theirs = Magazines::empty();
    theirs.swap();
    // Recalls the lease, but not what the other thread holds: the word ends one unit before its
    // end.
    limiter.refund(KEY, 1);
    admitted += 1;
    assert!(limiter.check(KEY).is_allowed());
    assert!(limiter.leased(KEY) > 0);
    theirs.swap();
    // After a loss, units have to be backed anew.
    for _ in 0..BACKING {
        assert_eq!(held(&limiter, KEY), 0);
        assert!(limiter.check(KEY).is_allowed());
        admitted += 1;
    }
    admitted += exhaust(&limiter, KEY);
    assert_eq!(admitted, BURST + 1 - MOST);
}

/// A key that was evicted and charged up to what a thread holds, and not up to the end of the
/// lease.
#[test]
fn what_remains_apart_from_what_is_held_may_be_used() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    let end = CachedUnits::of(KEY).unwrap().block.end;
    let (table, gcra) = limiter.parts();
    table.home(KEY).update(0, || 0, |_, _| Some(end + gcra.interval()));
    let decision = limiter.check(KEY);
    assert!(decision.is_allowed());
    assert_eq!(limiter.leased(KEY), MOST - 1);
    assert_eq!(decision.remaining(), BURST - debt(&limiter, KEY) + MOST - 1);
}

/// The same for held units that are void while the lease is not.
#[test]
fn what_is_held_and_void_does_not_remain() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    let (table, gcra) = limiter.parts();
    table.home(KEY).update(0, || 0, |_, _| Some(gcra.interval()));
    for _ in 0..3 * MOST {
        let decision = limiter.check(KEY);
        assert_eq!(decision.remaining(), BURST - debt(&limiter, KEY) + limiter.leased(KEY));
    }
}

/// Keys that alternate lose nothing; one that is no longer checked makes room in the end.
#[test]
fn what_is_held_stays_until_it_has_been_in_the_way_for_long() {
    Seat::sit(0);
    let limiter = limiter();
    let mut admitted = [0; 2];
    // Runs of which one is too short for a magazine to pass, and two are not.
    for _ in 0..2 * BURST / 40 {
        for (key, admitted) in [KEY, OTHER].into_iter().zip(&mut admitted) {
            *admitted += (0..40).filter(|_| limiter.check(key).is_allowed()).count() as u64;
        }
    }
    assert_eq!(admitted, [BURST; 2]);

    let limiter = self::limiter();
    hold(&limiter, OTHER);
    let first = hold(&limiter, KEY);
    assert_eq!(held(&limiter, OTHER), 0);
    let mut passed = 0;
    while held(&limiter, OTHER) == 0 {
        assert!(limiter.check(OTHER).is_allowed());
        passed += 1;
    }
    assert!(passed > 64, "{passed}");
    assert_eq!(held(&limiter, KEY), 0);
    assert_eq!(debt(&limiter, KEY) - limiter.leased(KEY), first + MOST);
}

/// A thread that may not hold what it does any more puts none of it back into the lease.
#[test]
fn a_lease_never_becomes_more() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    CachedUnits::lost(KEY);
    let ((table, gcra), leases) = (limiter.parts(), limiter.leases_on());
    let entry = leases.stripes[0].entry(KEY);
    let units = || entry.lease_of(KEY).unwrap().block.units;
    let before = units();
    let check = LeasedCheck { gcra, table, key: KEY, cost: 1, now: 0, reread: || 0 };
    assert!(leases.use_lease(Seat::here(), entry, &check).is_some());
    assert_eq!((units(), held(&limiter, KEY)), (before, MOST - 1));
}

/// What a thread holds expires while it is idle: it may hold nothing more before it has used more.
#[test]
fn what_has_drained_while_cached_backs_nothing() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    let until_drained = debt(&limiter, KEY) - limiter.leased(KEY) + MOST;
    limiter.clock().advance(Duration::from_secs(until_drained));
    for _ in 0..BACKING {
        assert!(limiter.check(KEY).is_allowed());
        assert_eq!(held(&limiter, KEY), 0);
    }
}

/// A magazine of a limiter that was dropped does not back units of another one at its address.
#[test]
fn what_was_used_of_another_entry_backs_nothing() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    let backed = |epoch| {
        CachedUnits::leave(KEY, 0);
        let id = LimiterId::at(&limiter.leases_on().stripes);
        CachedUnits::allowance(KEY, id, epoch, 0, BACKING)
    };
    let epoch = CachedUnits::of(KEY).unwrap().epoch;
    assert!(backed(epoch) >= Some(MOST));
    assert_eq!(backed(LeaseEpoch::of(epoch.get() + 1)), Some(0));
}

/// What expires in a magazine counts as expired in its lease, so that a key that is checked too
/// seldom is not leased.
#[test]
fn what_drains_while_cached_is_backed_anew() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    let entry = limiter.leases_on().stripes[0].entry(KEY);
    let backed = entry.heat.backed(KEY);
    limiter.clock().advance(Duration::from_secs(until_first(&limiter) + 4));
    let decision = limiter.check(KEY);
    assert!(decision.is_allowed());
    assert_eq!(decision.remaining(), BURST - debt(&limiter, KEY) + limiter.leased(KEY));
    assert_eq!(held(&limiter, KEY), MOST - 5);
    assert!(entry.heat.backed(KEY) < backed);
}

/// As [`a_cost_is_paid_by_what_is_held_and_its_lease`], where some of what is held has expired.
#[test]
fn a_cost_is_paid_by_what_is_left_cached_and_its_lease() {
    for between in [false, true] {
        Seat::sit(0);
        let limiter = limiter();
        hold(&limiter, KEY);
        limiter.clock().advance(Duration::from_secs(until_first(&limiter) + 4));
        let (mut owed, leased) = (debt(&limiter, KEY), limiter.leased(KEY));
        if between {
            use_one_as_another(&limiter);
        }
        // All that the lease had.
        let cost = leased - (MOST - 4);
        assert!(limiter.check_n(KEY, cost).is_allowed());
        owed += if between { cost } else { 0 };
        assert_eq!(debt(&limiter, KEY), owed, "used in between: {between}");
        assert_eq!(limiter.leased(KEY), leased - if between { 1 } else { cost });
    }
}

#[test]
fn a_cached_unit_that_has_begun_is_not_used() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    limiter.clock().advance(Duration::from_secs(until_first(&limiter)) + Duration::from_nanos(1));
    assert!(limiter.check(KEY).is_allowed());
    assert_eq!(held(&limiter, KEY), MOST - 2);
}

/// Other threads have used up the word and the lease; of what is held, what has not expired is
/// admitted.
#[test]
fn what_is_left_cached_is_used() {
    Seat::sit(0);
    let limiter = limiter();
    hold(&limiter, KEY);
    limiter.clock().advance(Duration::from_secs(until_first(&limiter) + 4));
    let theirs = Magazines::empty();
    theirs.swap();
    Seat::sit(1);
    exhaust(&limiter, KEY);
    theirs.swap();
    Seat::sit(0);
    assert_eq!(exhaust(&limiter, KEY), MOST - 4);
}

#[test]
fn what_is_held_is_returned_and_reset() {
    for (returns, alone) in [(true, false), (true, true), (false, false), (false, true)] {
        Seat::sit(0);
        let limiter = limiter();
        let mut used = hold(&limiter, KEY);
        // The lease has no units but what is held of it.
        while alone && limiter.leased(KEY) > held(&limiter, KEY) {
            assert!(limiter.check(KEY).is_allowed());
            used += 1;
        }
        assert!(debt(&limiter, KEY) > used);
        if returns {
            limiter.return_leases();
            assert_eq!(debt(&limiter, KEY), used);
        } else {
            limiter.reset(KEY);
        }
        assert_eq!((held(&limiter, KEY), limiter.leased(KEY)), (0, 0));
        assert_eq!(exhaust(&limiter, KEY), if returns { BURST - used } else { BURST });
    }
}
