//! Time runs, and every interval of every key is held against the bound.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use tidegate_engine::{Clock, KeyHash, Limiter, Quota, RecentClock, TscClock};

use super::ledger::{Admission, Ledger};
use super::{Outcome, Settings, Violation, jitter};

/// What is enforced, and how keys are asked for.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The emission interval in nanoseconds.
    interval: u64,
    burst: u64,
    /// The largest lease in units, 0 for none.
    lease: u64,
    /// Keys that a thread checks at once, and how many checks later the next ones follow.
    keys_at_once: usize,
    checks_a_window: u64,
}

/// A rate at which some checks of a key are denied, and a key that rests for a moment is fresh.
const BRISK: Load =
    Load { interval: 3_000, burst: 4, lease: 0, keys_at_once: 12, checks_a_window: 128 };
/// Few keys for as long as it takes to lease them, and a rest in which leases drain; the burst is for one
/// stripe of leases, of which there is one for each processor.
const HOT: Load =
    Load { interval: 20_000, burst: 512, lease: 32, keys_at_once: 4, checks_a_window: 4_096 };
/// The most stripes of leases.
const MAX_STRIPES: usize = 64;
/// Checks of a thread, on the average, after which it gives its leases back.
const CHECKS_A_RETURN: u32 = 700;
/// Checks of one thread between two audits.
const CHECKS_A_ROUND: u64 = 20_000;
/// How often the recent clock is kept up.
const UPKEEP_INTERVAL: Duration = Duration::from_micros(200);

/// Runs with a counter read in each check.
///
/// # Errors
/// When a promise is not kept.
pub fn run_precise(settings: &Settings, keys: &[KeyHash]) -> Result<Outcome, Violation> {
    run(settings, keys, BRISK, TscClock::new(), |_| Duration::ZERO)
}

/// Runs with a recent clock, whose staleness counts as part of each interval.
///
/// # Errors
/// When a promise is not kept, or the upkeep thread is not to be had.
pub fn run_recent(settings: &Settings, keys: &[KeyHash]) -> Result<Outcome, Violation> {
    let clock = RecentClock::start(UPKEEP_INTERVAL)
        .map_err(|error| Violation::SetUp(format!("upkeep thread: {error}")))?;
    run(settings, keys, BRISK, clock, RecentClock::staleness)
}

/// Runs with a counter read in each check, and with threads that lease units of the keys, steal them from
/// each other, push each other's leases out and give theirs back.
///
/// # Errors
/// When a promise is not kept, or nothing was leased.
pub fn run_leased(settings: &Settings, keys: &[KeyHash]) -> Result<Outcome, Violation> {
    let stripes = thread::available_parallelism().map_or(1, usize::from).next_power_of_two();
    let load = Load { burst: HOT.burst * stripes.min(MAX_STRIPES) as u64, ..HOT };
    let outcome = run(settings, keys, load, TscClock::new(), |_| Duration::ZERO)?;
    if outcome.leased == 0 {
        return Err(Violation::SetUp("nothing was leased".to_owned()));
    }
    Ok(outcome)
}

fn run<C: Clock + Sync>(
    settings: &Settings,
    keys: &[KeyHash],
    load: Load,
    clock: C,
    staleness: impl Fn(&C) -> Duration + Sync,
) -> Result<Outcome, Violation> {
    let quota = Quota::new(1, Duration::from_nanos(load.interval)).burst(load.burst);
    let limiter = Limiter::builder(quota).capacity(1).leases(load.lease).clock(clock);
    let limiter = limiter.build().map_err(|error| Violation::SetUp(error.to_string()))?;
    let rounds = (settings.checks / (CHECKS_A_ROUND * settings.threads as u64)).max(1);
    // The time that counts is that of a counter, whatever clock the limiter has.
    let truth = TscClock::new();

    let logs: Vec<_> =
        (0..settings.threads).map(|_| Mutex::new(vec![Vec::new(); keys.len()])).collect();
    let barrier = Barrier::new(settings.threads);
    let ledgers: Vec<_> = keys.iter().map(|_| Mutex::new(Ledger::new(load.interval))).collect();
    let leased = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..settings.threads {
            let (limiter, truth, logs) = (&limiter, &truth, &logs);
            let (barrier, ledgers, leased) = (&barrier, &ledgers, &leased);
            let seed = settings.seed;
            scope.spawn(move || {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ (number as u64 + 1) << 32);
                for _ in 0..rounds {
                    let found =
                        check_all(limiter, keys, load, truth, &mut rng, &mut lock(&logs[number]));
                    leased.fetch_add(found, Ordering::Relaxed);
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
        let most = (load.burst * load.interval + staleness.as_nanos() as u64).cast_signed();
        if ledger.worst() > most {
            let missing = Duration::from_nanos((ledger.worst() - most).cast_unsigned());
            return Err(Violation::Interval { key, missing });
        }
    }
    match limiter.evicted() {
        0 => Ok(Outcome { checks, admitted, evicted: 0, staleness, leased: leased.into_inner() }),
        evicted => Err(Violation::Evicted(evicted)),
    }
}

/// Returns the units that were found leased.
fn check_all<C: Clock>(
    limiter: &Limiter<Quota, C>,
    keys: &[KeyHash],
    load: Load,
    truth: &TscClock,
    rng: &mut Xoshiro256PlusPlus,
    log: &mut [Vec<Admission>],
) -> u64 {
    let (mut first, mut leased) = (0, 0);
    for check in 0..CHECKS_A_ROUND {
        if check.is_multiple_of(load.checks_a_window) {
            first = rng.random_range(0..keys.len());
        }
        let key = (first + rng.random_range(0..load.keys_at_once)) % keys.len();
        jitter(rng);
        if load.lease > 0 && rng.random_ratio(1, CHECKS_A_RETURN) {
            leased += limiter.leased(keys[key]);
            limiter.return_leases();
        }
        let before = truth.now().as_nanos();
        let allowed = limiter.check(keys[key]).is_allowed();
        let after = truth.now().as_nanos();
        if allowed {
            log[key].push(Admission { before, after });
        }
    }
    leased
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
