//! What refunds lose next to leases, in time that stands still: what a key owes in the end beyond
//! what was admitted less what was given back, and what can still be used of leases.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::base::key::KeyHash;
use crate::limiter::Limiter;
use crate::limiter::mode::{Extended, Mode};
use crate::rule::gcra::{Gcra, Tat};
use crate::rule::quota::Quota;
use crate::table::Table;
use crate::time::{Clock as _, ManualClock};

use super::magazine::{MAX_CACHED, Magazines};
use super::{LEAST, LeasedCheck, Leases, Lowered, Refund, Seat};

const THREADS: usize = 8;
const KEY: KeyHash = KeyHash::from_bits(1);
/// Never used up, and never drains.
const BURST: u64 = 100_000_000;
/// Units of the largest lease.
const LEASES: [u64; 2] = [64, 1_024];
/// Admitted checks after which no key is hotter.
const HOTTEST: u64 = 100_000;
/// Of what is admitted, the largest share that may be lost, as a divisor.
const LOST: u64 = 8;

fn limiter(units: u64) -> Limiter<Quota, ManualClock> {
    let quota = Quota::per_second(1).burst(BURST);
    let table = Table::new(1, Tat).unwrap();
    let leases = Leases::striped(units, &Gcra::exact(&quota).unwrap(), THREADS).unwrap();
    Limiter::for_tests(quota, ManualClock::new(), table, Mode::Extended(Extended::Leased(leases)))
}

/// What was done to the key.
#[derive(Debug, Default)]
struct Account {
    admitted: AtomicU64,
    refunded: AtomicU64,
}

impl Account {
    fn check(&self, limiter: &Limiter<Quota, ManualClock>, checks: u64) {
        for _ in 0..checks {
            assert!(limiter.check(KEY).is_allowed());
        }
        self.admitted.fetch_add(checks, Ordering::Relaxed);
    }

    fn refund(&self, limiter: &Limiter<Quota, ManualClock>, units: u64) {
        limiter.refund(KEY, units);
        self.refunded.fetch_add(units, Ordering::Relaxed);
    }

    fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    /// The units that are lost, if `held` are cached by other threads than the caller's.
    fn lost(&self, limiter: &Limiter<Quota, ManualClock>, held: u64) -> u64 {
        let (table, gcra) = limiter.parts();
        let now = gcra.scale().instant(limiter.clock().now());
        let debt = super::tat_of(table, KEY, now).saturating_sub(now) / gcra.interval();
        let used = self.admitted() - self.refunded.load(Ordering::Relaxed);
        (debt - used).checked_sub(limiter.leased(KEY) + held).expect("units are counted twice")
    }
}

/// Units of the calling thread's cache that can be used.
fn held(limiter: &Limiter<Quota, ManualClock>) -> u64 {
    limiter.leases_on().cached(KEY).map_or(0, |(_, _, block)| block.units)
}

/// Leases, units that are given back at a time, and admitted checks before.
fn cases() -> impl Iterator<Item = (u64, u64, u64)> {
    LEASES.into_iter().flat_map(|units| {
        [1, 10, 100, 1_000]
            .into_iter()
            .flat_map(move |size| [0, HOTTEST].map(|before| (units, size, before)))
    })
}

/// How often a test gives back `size` units.
fn rounds(size: u64) -> u64 {
    (100_000 / size).clamp(300, 10_000)
}

/// One thread that gives back what it was admitted loses nothing, whether the key was hot before
/// or not.
#[test]
fn what_one_thread_gives_back_is_free_again() {
    for (units, size, before) in cases() {
        Seat::sit(0);
        let (limiter, account) = (limiter(units), Account::default());
        account.check(&limiter, before);
        for _ in 0..rounds(size) {
            account.check(&limiter, size);
            account.refund(&limiter, size);
        }
        let lost = account.lost(&limiter, 0);
        assert_eq!(lost, 0, "leases of {units}, {size} at a time after {before}");
    }
}

/// Several threads, played by one, of which each checks and gives back what another was admitted.
#[test]
fn what_threads_give_back_by_turns_is_free_again() {
    for (units, size, before) in cases() {
        let (limiter, account) = (limiter(units), Account::default());
        let threads: Vec<_> = (0..THREADS).map(|_| Magazines::empty()).collect();
        let as_thread = |thread: usize, act: &dyn Fn()| {
            Seat::sit(thread);
            threads[thread].swap();
            act();
            threads[thread].swap();
        };
        for thread in 0..THREADS {
            as_thread(thread, &|| account.check(&limiter, before / 4));
        }
        let (mut random, mut owed) = (1_u64, 0);
        for _ in 0..2 * rounds(size) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let gives_back = owed >= size && random >> 32 & 1 == 0;
            let thread = random as usize % THREADS;
            if gives_back {
                as_thread(thread, &|| account.refund(&limiter, size));
                owed -= size;
            } else {
                as_thread(thread, &|| account.check(&limiter, size));
                owed += size;
            }
        }
        let magazines = |magazines: &Magazines| {
            magazines.swap();
            let held = held(&limiter);
            magazines.swap();
            held
        };
        let lost = account.lost(&limiter, threads.iter().map(magazines).sum());
        let refunded = account.refunded.into_inner();
        assert!(
            lost <= refunded / LOST,
            "{lost} lost of {refunded} given back: leases of {units}, {size} at a time after \
             {before}"
        );
    }
}

/// Threads that check and give back at the same time.
#[test]
fn what_threads_give_back_at_once_is_free_again() {
    for (units, size, before) in cases() {
        let (limiter, account) = (&limiter(units), &Account::default());
        let start = &Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(move || {
                    account.check(limiter, before / 4);
                    start.wait();
                    for _ in 0..rounds(size) / 2 {
                        account.check(limiter, size);
                        account.refund(limiter, size);
                    }
                });
            }
        });
        // What the threads held when they ended is among it.
        let lost = account.lost(limiter, 0).saturating_sub(THREADS as u64 * MAX_CACHED);
        let admitted = account.admitted();
        assert!(
            lost <= admitted / LOST,
            "{lost} lost of {admitted} admitted: leases of {units}, {size} at a time after {before}"
        );
    }
}

/// Two leases: to give back what is left of the one behind moves the word to before the end of the
/// other.
#[test]
fn leases_that_follow_each_other_are_recalled_one_by_one() {
    let (limiter, account) = (limiter(64), Account::default());
    // The stripe that is looked at first has the lease that ends first.
    let admitted = [0, 1].map(|stripe| {
        Seat::sit(stripe);
        let leased = limiter.leased(KEY);
        while limiter.leased(KEY) == leased {
            account.check(&limiter, 1);
        }
        account.admitted()
    });
    assert_eq!(limiter.leased(KEY), 8);
    // One unit more than was admitted between the leases.
    account.refund(&limiter, admitted[1] - admitted[0] + 1);
    assert_eq!((account.lost(&limiter, 0), limiter.leased(KEY)), (0, 0));
}

/// What a thread holds is lost to another's refund, and is no part of its own later one.
#[test]
fn what_is_cached_and_void_is_not_given_back() {
    Seat::sit(0);
    let (limiter, account) = (limiter(64), Account::default());
    while held(&limiter) < 4 || limiter.leased(KEY) < 8 {
        account.check(&limiter, 1);
    }
    let held = held(&limiter);
    let theirs = Magazines::empty();
    theirs.swap();
    account.refund(&limiter, 1);
    account.check(&limiter, 1);
    assert!(limiter.leased(KEY) > 0);
    theirs.swap();
    account.refund(&limiter, 1);
    assert_eq!(account.lost(&limiter, 0), held);
}

/// A lease of a key that was evicted is void, and so is no part of a refund.
#[test]
fn a_lease_of_a_forgotten_key_is_not_given_back() {
    let (limiter, account) = (limiter(64), Account::default());
    Seat::sit(0);
    while limiter.leased(KEY) < 8 {
        account.check(&limiter, 1);
    }
    let (table, gcra) = limiter.parts();
    // As many units as the word of a key that was evicted and charged again.
    table.home(KEY).update(0, || 0, |_, _| Some(20 * gcra.interval()));
    limiter.refund(KEY, 2);
    assert_eq!(super::tat_of(table, KEY, 0), 18 * gcra.interval());
}

/// A refund meets a lease that is being taken, and another one that is being recalled: both are
/// lost, and so is what backed them.
#[test]
fn a_lease_that_is_lost_to_a_refund_backs_no_other() {
    const NOW: u64 = 0;
    let limiter = limiter(64);
    let ((table, gcra), leases) = (limiter.parts(), limiter.leases_on());
    let entry = leases.stripes[0].entry(KEY);
    let warm = || (0..64).for_each(|_| entry.heat.admitted(KEY));
    let meet = || {
        assert!(entry.recall(KEY, 0, u64::MAX).is_none(), "the entry is busy");
        NOW
    };
    Seat::sit(0);
    warm();
    // The key has no slot yet, so the clock is read again while the entry is busy.
    let check = LeasedCheck { gcra, table, key: KEY, cost: 1, now: NOW, reread: meet };
    assert!(leases.decide(Seat::here, check).is_allowed());
    assert_eq!((limiter.leased(KEY), entry.heat.backed(KEY)), (0, 0));

    warm();
    assert!(limiter.check(KEY).is_allowed());
    assert!(limiter.leased(KEY) >= LEAST);
    let from = super::tat_of(table, KEY, NOW);
    let to = from - gcra.interval();
    table.home(KEY).update(NOW, || NOW, |_, _| Some(to));
    leases.recall(Seat::here(), &Refund { gcra, table, key: KEY, now: meet }, Lowered { from, to });
    assert_eq!((limiter.leased(KEY), entry.heat.backed(KEY)), (0, 0));
    assert_eq!(super::tat_of(table, KEY, NOW), to);
}

/// A key that is refunded as often as charged is not leased, or soon no more: leases that are
/// recalled are taken in vain.
#[test]
fn a_key_that_is_refunded_as_often_as_charged_takes_no_leases() {
    Seat::sit(0);
    let (limiter, account) = (limiter(64), Account::default());
    let taken = |size| {
        let mut taken = 0;
        for _ in 0..4_000 / size {
            for _ in 0..size {
                account.check(&limiter, 1);
                taken += u64::from(limiter.leased(KEY) > 0);
            }
            account.refund(&limiter, size);
        }
        taken
    };
    assert_eq!([taken(1), taken(40)], [0, 0]);
    account.check(&limiter, HOTTEST);
    assert!(taken(1) > 0);
    assert_eq!(taken(1), 0);
}
