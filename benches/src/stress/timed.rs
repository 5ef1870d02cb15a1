//! Time runs, and every interval of every key is held against the bound.

use core::time::Duration;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use tidegate_engine::{Clock, KeyHash, Limiter, Quota, RecentClock, TscClock};

use super::ledger::{Admission, Ledger};
use super::{Outcome, Settings, Violation, jitter};

/// A rate at which some checks of a key are denied, and a key that rests for a moment is fresh.
const INTERVAL_NANOS: u64 = 3_000;
const BURST: u64 = 4;
/// Keys that are checked at once, and how many checks later the next ones follow.
const KEYS_AT_ONCE: usize = 12;
const CHECKS_A_WINDOW: u64 = 128;
/// Checks of one thread between two audits.
const CHECKS_A_ROUND: u64 = 20_000;
/// How often the recent clock is kept up.
const UPKEEP_INTERVAL: Duration = Duration::from_micros(200);

/// Runs with a counter read in each check.
///
/// # Errors
/// When a promise is not kept.
pub fn run_precise(settings: &Settings, keys: &[KeyHash]) -> Result<Outcome, Violation> {
    run(settings, keys, TscClock::new(), |_| Duration::ZERO)
}

/// Runs with a recent clock, whose staleness counts as part of each interval.
///
/// # Errors
/// When a promise is not kept, or the upkeep thread is not to be had.
pub fn run_recent(settings: &Settings, keys: &[KeyHash]) -> Result<Outcome, Violation> {
    let clock = RecentClock::start(UPKEEP_INTERVAL)
        .map_err(|error| Violation::SetUp(format!("upkeep thread: {error}")))?;
    run(settings, keys, clock, RecentClock::staleness)
}

fn run<C: Clock + Sync>(
    settings: &Settings,
    keys: &[KeyHash],
    clock: C,
    staleness: impl Fn(&C) -> Duration + Sync,
) -> Result<Outcome, Violation> {
    let quota = Quota::new(1, Duration::from_nanos(INTERVAL_NANOS)).burst(BURST);
    let limiter = Limiter::builder(quota).capacity(1).clock(clock);
    let limiter = limiter.build().map_err(|error| Violation::SetUp(error.to_string()))?;
    let rounds = (settings.checks / (CHECKS_A_ROUND * settings.threads as u64)).max(1);
    // The time that counts is that of a counter, whatever clock the limiter has.
    let truth = TscClock::new();

    let logs: Vec<_> =
        (0..settings.threads).map(|_| Mutex::new(vec![Vec::new(); keys.len()])).collect();
    let barrier = Barrier::new(settings.threads);
    let ledgers: Vec<_> = keys.iter().map(|_| Mutex::new(Ledger::new(INTERVAL_NANOS))).collect();
    thread::scope(|scope| {
        for number in 0..settings.threads {
            let (limiter, truth, logs) = (&limiter, &truth, &logs);
            let (barrier, ledgers) = (&barrier, &ledgers);
            let seed = settings.seed;
            scope.spawn(move || {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ (number as u64 + 1) << 32);
                for _ in 0..rounds {
                    check_all(limiter, keys, truth, &mut rng, &mut lock(&logs[number]));
                    barrier.wait();
                    // Threads share the ledgers out among them.
                    for key in (number..keys.len()).step_by(logs.len()) {
                        let mut batch: Vec<_> = logs
                            .iter()
                            .flat_map(|log| core::mem::take(&mut lock(log)[key]))
                            .collect();
                        lock(&ledgers[key]).enter(&mut batch);
                    }
                    barrier.wait();
                }
            });
        }
    });
    let staleness = staleness(limiter.clock());
    let checks = rounds * CHECKS_A_ROUND * settings.threads as u64;
    let mut admitted = 0;
    for (key, ledger) in ledgers.into_iter().enumerate() {
        let ledger = ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
        admitted += ledger.admitted();
        let most = (BURST * INTERVAL_NANOS + staleness.as_nanos() as u64).cast_signed();
        if ledger.worst() > most {
            let missing = Duration::from_nanos((ledger.worst() - most).cast_unsigned());
            return Err(Violation::Interval { key, missing });
        }
    }
    match limiter.evicted() {
        0 => Ok(Outcome { checks, admitted, evicted: 0, staleness }),
        evicted => Err(Violation::Evicted(evicted)),
    }
}

fn check_all<C: Clock>(
    limiter: &Limiter<Quota, C>,
    keys: &[KeyHash],
    truth: &TscClock,
    rng: &mut Xoshiro256PlusPlus,
    log: &mut [Vec<Admission>],
) {
    let mut first = 0;
    for check in 0..CHECKS_A_ROUND {
        if check.is_multiple_of(CHECKS_A_WINDOW) {
            first = rng.random_range(0..keys.len());
        }
        let key = (first + rng.random_range(0..KEYS_AT_ONCE)) % keys.len();
        jitter(rng);
        let before = truth.now().as_nanos();
        let allowed = limiter.check(keys[key]).is_allowed();
        let after = truth.now().as_nanos();
        if allowed {
            log[key].push(Admission { before, after });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
