//! Leases through the public interface: what is admitted, with real threads and without.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_engine::limiter::MAX_LEASE_UNITS;
use tidegate_engine::{Clock, Limiter, ManualClock, Quota};

const THREADS: usize = 4;

fn leasing(quota: Quota, units: u64) -> Limiter<Quota, ManualClock> {
    let limiter =
        Limiter::builder(quota).lease_units(units).clock(ManualClock::new()).build().unwrap();
    assert!(limiter.lease_units() > 0, "nothing is leased");
    limiter
}

/// A burst large enough for leases on a machine of any size.
const BURST: u64 = 200_000;

fn admitted(limiter: &Limiter<Quota, ManualClock>, key: &str, tries: u64) -> u64 {
    (0..tries).map(|_| u64::from(limiter.check(key).is_allowed())).sum()
}

/// The total debt of all keys, in units.
fn debt(limiter: &Limiter<Quota, ManualClock>) -> u64 {
    let unit = limiter.quota().debt_of(1).as_nanos();
    limiter.live().map(|(_, debt)| (debt.as_nanos() / unit) as u64).sum()
}

#[test]
fn nothing_is_leased_unless_asked_for_and_worth_it() {
    let units = |burst, units| {
        let quota = Quota::per_second(1_000).burst(burst);
        Limiter::builder(quota).lease_units(units).build().unwrap().lease_units()
    };
    assert_eq!(units(BURST, 0), 0);
    assert_eq!(units(BURST, 3), 0, "too small to be worth it");
    assert_eq!(units(63, 64), 0, "a sixteenth of the burst is too small");
    assert_eq!(units(BURST, 64), 64);
    assert_eq!(units(u64::from(u32::MAX), u64::MAX), MAX_LEASE_UNITS);
    let blocked = Limiter::builder(Quota::per_second(0)).lease_units(64).build().unwrap();
    assert_eq!(blocked.lease_units(), 0);
    assert!(!blocked.check("key").is_allowed());
}

/// Time stands still, so threads together are admitted exactly the burst: a unit used twice makes
/// it more, and one that stays in a lease while another thread is denied makes it less.
#[test]
fn threads_admit_exactly_the_burst() {
    for round in 0..20 {
        let limiter = leasing(Quota::per_second(1).burst(BURST), 1 << round.min(9) << 2);
        let start = Barrier::new(THREADS);
        let total: u64 = thread::scope(|scope| {
            let ask = || {
                start.wait();
                admitted(&limiter, "key", BURST)
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(total, BURST);
        assert_eq!(debt(&limiter), BURST);
    }
}

/// Hot keys evict each other's leases, threads return theirs, and a key's units are always those of
/// its own burst.
#[test]
fn keys_that_take_turns_keep_to_their_bursts() {
    const KEYS: usize = 300;
    const EACH: u64 = 20_000;
    let limiter = leasing(Quota::per_second(1).burst(EACH), 64);
    let ledger: Vec<_> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let (limiter, ledger) = (&limiter, &ledger);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..EACH as usize / 100 {
                    for key in 0..KEYS {
                        let key = (key * 7 + thread * 31) % KEYS;
                        let admitted = admitted(limiter, &key.to_string(), 40);
                        ledger[key].fetch_add(admitted, Ordering::Relaxed);
                    }
                    if round % 16 == thread {
                        limiter.return_leases();
                    }
                }
            });
        }
    });
    for (key, total) in ledger.iter().enumerate() {
        let total = total.load(Ordering::Relaxed) + admitted(limiter, &key.to_string(), EACH);
        assert!(total <= EACH, "key {key}: {total}");
        // What a lease loses when its entry goes to another key.
        assert!(total >= EACH - EACH / 8, "key {key}: {total}");
    }
}

/// The clock moves while threads check, lease and steal.
#[test]
fn threads_keep_to_the_rate_while_time_passes() {
    const TICKS: u64 = 2_000;
    /// Units that drain each tick.
    const TICK: u64 = 500;
    let quota = Quota::new(1, Duration::from_nanos(100)).burst(20_000);
    let limiter = leasing(quota, 64);
    let over = AtomicBool::new(false);
    let total: u64 = thread::scope(|scope| {
        let ask = || {
            let mut sum = 0;
            while !over.load(Ordering::Relaxed) {
                sum += admitted(&limiter, "key", 100);
            }
            sum
        };
        let threads: Vec<_> = (0..THREADS - 1).map(|_| scope.spawn(ask)).collect();
        for tick in 0..TICKS {
            limiter.clock().advance(quota.debt_of(TICK));
            // Sometimes the key is exhausted between ticks and sometimes not.
            if tick % 32 == 0 {
                thread::yield_now();
            }
        }
        over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let bound = quota.burst_size() + TICKS * TICK;
    assert!(total <= bound, "{total} of {bound}");
}

#[test]
fn a_thread_that_ends_leaves_its_leases_to_others() {
    const LEASE: u64 = 64;
    let limiter = leasing(Quota::per_second(1).burst(BURST), LEASE);
    let theirs =
        thread::scope(|scope| scope.spawn(|| admitted(&limiter, "key", 30_001)).join().unwrap());
    assert!(debt(&limiter) > theirs, "it had no lease");
    // All but what it had cached.
    let admitted = theirs + admitted(&limiter, "key", BURST);
    assert!((BURST - LEASE / 4..=BURST).contains(&admitted), "{admitted}");
}

#[test]
fn returned_units_are_back_in_their_word() {
    let limiter = leasing(Quota::per_second(1).burst(BURST), 64);
    let mut used = admitted(&limiter, "key", 5_000);
    while debt(&limiter) == used {
        used += admitted(&limiter, "key", 1);
    }
    let before = limiter.peek("key");
    assert_eq!(limiter.leased("key"), debt(&limiter) - used);
    limiter.return_leases();
    assert_eq!(debt(&limiter), used);
    assert_eq!(limiter.leased("key"), 0);
    assert_eq!(limiter.peek("key").remaining(), BURST - used);
    assert_eq!(before.remaining(), BURST - used, "a peek counts what its thread has leased");
    assert!(before.reset_after() > limiter.peek("key").reset_after());
    limiter.return_leases();
    assert_eq!(debt(&limiter), used);
}

/// A single thread sees the figures of a limiter without leases, except the time to reset.
#[test]
fn every_operation_agrees_with_a_limiter_without_leases() {
    let quota = Quota::new(1, Duration::from_micros(1)).burst(BURST);
    let leased = leasing(quota, 200);
    let plain = Limiter::builder(quota).clock(ManualClock::new()).build().unwrap();
    let other = Quota::new(1, Duration::from_micros(3)).burst(BURST);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let keys = ["key"; 70];
    let mut held = false;
    for round in 0..1_000_u64 {
        ours.clear();
        theirs.clear();
        match round % 5 {
            0 => {
                leased.check_many(&keys, &mut ours);
                plain.check_many(&keys, &mut theirs);
            }
            1 => {
                ours.push(leased.check_n("key", 1 + round % 150));
                theirs.push(plain.check_n("key", 1 + round % 150));
            }
            2 => {
                ours.push(leased.check_at("key", 2, leased.clock().now()));
                theirs.push(plain.check_at("key", 2, plain.clock().now()));
            }
            3 => {
                ours.push(leased.peek("key"));
                theirs.push(plain.peek("key"));
            }
            _ => {
                // Another quota is decided by the word alone, which counts leased units as taken.
                let ours = leased.check_with("key", 1, &other).unwrap();
                let theirs = plain.check_with("key", 1, &other).unwrap();
                assert_eq!(ours.is_allowed(), theirs.is_allowed());
                assert!(ours.remaining() <= theirs.remaining());
            }
        }
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.is_allowed(), theirs.is_allowed(), "round {round}");
            assert_eq!(ours.remaining(), theirs.remaining(), "round {round}");
            assert_eq!(ours.limit(), theirs.limit());
            assert!(ours.reset_after() >= theirs.reset_after());
            held |= ours.reset_after() > theirs.reset_after();
        }
    }
    assert!(held, "nothing was leased");
}

#[test]
fn a_cost_above_the_lease_asks_the_word() {
    let limiter = leasing(Quota::per_second(1).burst(BURST), 64);
    let mut used = admitted(&limiter, "key", 5_000);
    while debt(&limiter) - used < 40 {
        used += admitted(&limiter, "key", 1);
    }
    let leased = debt(&limiter) - used;
    assert!(limiter.check_n("key", leased + 1).is_allowed());
    assert_eq!(debt(&limiter), used + leased + leased + 1, "the word paid");
    assert!(limiter.check_n("key", leased).is_allowed());
    assert_eq!(debt(&limiter), used + leased + leased + 1, "the lease paid");
    assert!(!limiter.check_n("key", BURST).is_allowed());
    assert_eq!(limiter.check_n("key", BURST + 1).retry_after(), None);
}

#[test]
fn a_reset_forgets_leases_too() {
    let limiter = leasing(Quota::per_second(1).burst(BURST), 64);
    admitted(&limiter, "key", 5_000);
    while limiter.leased("key") == 0 {
        assert!(limiter.check("key").is_allowed());
    }
    limiter.reset("key");
    assert_eq!(limiter.leased("key"), 0);
    assert_eq!(admitted(&limiter, "key", 2 * BURST), BURST);
}
