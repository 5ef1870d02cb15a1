//! Time runs, and every interval of every key is checked against the bound.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError, RwLock};
use std::thread;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use tidegate_engine::clock::{RecentClock, Timestamp, TscClock};
use tidegate_engine::{Clock, KeyHash, Limiter, Quota};

use super::ledger::{Admission, Ledger};
use super::{Outcome, Settings, Violation, handovers, jitter, tats, turn};

/// The enforced quota, and how keys are chosen.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The emission interval in nanoseconds; the minimum if it is paced.
    interval: u64,
    burst: u64,
    /// The maximum lease in units, 0 for none.
    lease: u64,
    /// Keys that are checked concurrently.
    keys_at_once: usize,
    windows: Windows,
}

/// When the keys change.
#[derive(Clone, Copy, Debug)]
enum Windows {
    /// After this number of checks of all threads together, which all check the same keys. These
    /// have drained before others follow, so that only checked keys are live.
    Shared(u64),
    /// After this number of checks of one thread, which has its own keys.
    Own(u64),
}

/// In a window a key can be admitted one and a half bursts, and gets checks for two: the interval
/// is [`paced`].
const BRISK: Load =
    Load { interval: 1_000, burst: 4, lease: 0, keys_at_once: 32, windows: Windows::Shared(256) };
/// Checks of all keys of a window in which one unit of each refills.
const CHECKS_AN_INTERVAL: u64 = 128;
/// Checks per trial, and number of trials.
const CHECKS_A_TRIAL: u64 = 1_024;
const TRIALS: usize = 8;
/// Few keys for as long as it takes to lease them, then a pause in which leases drain; the burst is
/// per stripe of leases, of which there is one for each processor.
const HOT: Load =
    Load { interval: 20_000, burst: 512, lease: 32, keys_at_once: 4, windows: Windows::Own(4_096) };
/// Maximum number of stripes of leases.
const MAX_STRIPES: usize = 64;
/// Average number of checks after which a thread returns its leases.
const CHECKS_A_RETURN: u32 = 700;
/// Checks of one thread between two audits, unless windows determine it.
const CHECKS_A_ROUND: u64 = 20_000;
/// The upkeep interval of the recent clock.
const UPKEEP_INTERVAL: Duration = Duration::from_micros(200);

/// Runs with a clock that is read in each check.
///
/// # Errors
/// When a guarantee is violated, or slots are seldom reused.
pub fn run_precise(settings: &Settings, keys: &[KeyHash]) -> Result<Outcome, Violation> {
    let load = paced(BRISK, settings, keys)?;
    run(settings, keys, load, TscClock::new(), |_| Duration::ZERO)?.with_handovers()
}

/// Runs with a recent clock, whose staleness counts as part of each interval.
///
/// # Errors
/// When a guarantee is violated, slots are seldom reused, or the upkeep thread cannot be started.
pub fn run_recent(settings: &Settings, keys: &[KeyHash]) -> Result<Outcome, Violation> {
    let clock = RecentClock::start(UPKEEP_INTERVAL)
        .map_err(|error| Violation::SetUp(format!("upkeep thread: {error}")))?;
    let load = paced(BRISK, settings, keys)?;
    run(settings, keys, load, clock, RecentClock::staleness)?.with_handovers()
}

/// Runs with a clock that is read in each check, and with threads that lease units of the keys,
/// steal them from each other, evict each other's leases and return their own.
///
/// # Errors
/// When a guarantee is violated, or nothing was leased.
pub fn run_leased(settings: &Settings, keys: &[KeyHash]) -> Result<Outcome, Violation> {
    let stripes = thread::available_parallelism().map_or(1, usize::from).next_power_of_two();
    let load = Load { burst: HOT.burst * stripes.min(MAX_STRIPES) as u64, ..HOT };
    let outcome = run(settings, keys, load, TscClock::new(), |_| Duration::ZERO)?;
    if outcome.leased == 0 {
        return Err(Violation::SetUp("nothing was leased".to_owned()));
    }
    Ok(outcome)
}

/// The load with an interval proportional to the speed of this build on this machine, so that keys
/// run out and recover in each window. The fastest of several trials counts, because other load
/// only slows them down.
///
/// The guarantees hold at any interval; this one determines the coverage.
fn paced(load: Load, settings: &Settings, keys: &[KeyHash]) -> Result<Load, Violation> {
    let (limiter, truth) = (limiter(load, TscClock::new())?, TscClock::new());
    let turn: Vec<_> = (0..load.keys_at_once).collect();
    let round =
        Round { limiter: &limiter, keys, load, truth: &truth, turn: &turn, checks: CHECKS_A_TRIAL };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(settings.seed);
    let trials = (0..TRIALS).map(|_| {
        let mut log = vec![Vec::new(); keys.len()];
        let start = truth.now();
        round.check_all(&mut rng, &mut log);
        truth.now().since(start).as_nanos() as u64
    });
    let fastest = trials.min().unwrap_or(0);
    let cores = thread::available_parallelism().map_or(1, usize::from).min(settings.threads) as u64;
    let interval = fastest * CHECKS_AN_INTERVAL / (CHECKS_A_TRIAL * cores);
    Ok(Load { interval: interval.max(load.interval), ..load })
}

fn limiter<C: Clock>(load: Load, clock: C) -> Result<Limiter<Quota, C>, Violation> {
    let quota = Quota::new(1, Duration::from_nanos(load.interval)).burst(load.burst);
    let limiter = Limiter::builder(quota).capacity(13_107).lease_units(load.lease).clock(clock);
    limiter.build().map_err(|error| Violation::SetUp(error.to_string()))
}

fn run<C: Clock + Sync>(
    settings: &Settings,
    keys: &[KeyHash],
    load: Load,
    clock: C,
    staleness: impl Fn(&C) -> Duration + Sync,
) -> Result<Outcome, Violation> {
    let limiter = limiter(load, clock)?;
    let threads = settings.threads as u64;
    let checks_a_round = match load.windows {
        Windows::Shared(checks) => (checks / threads).max(1),
        Windows::Own(_) => CHECKS_A_ROUND,
    };
    let rounds = (settings.checks / (checks_a_round * threads)).max(1);
    // Time is measured by the counter, whatever clock the limiter has.
    let truth = TscClock::new();

    let logs: Vec<_> =
        (0..settings.threads).map(|_| Mutex::new(vec![Vec::new(); keys.len()])).collect();
    let barrier = Barrier::new(settings.threads);
    let ledgers: Vec<_> = keys.iter().map(|_| Mutex::new(Ledger::new(load.interval))).collect();
    let leased = AtomicU64::new(0);
    let rests = RwLock::new(Rests::new(limiter.clock().now(), keys, load, settings.seed));
    thread::scope(|scope| {
        for number in 0..settings.threads {
            let (limiter, truth, logs) = (&limiter, &truth, &logs);
            let (barrier, ledgers, leased, rests) = (&barrier, &ledgers, &leased, &rests);
            let seed = settings.seed;
            scope.spawn(move || {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ (number as u64 + 1) << 32);
                for _ in 0..rounds {
                    {
                        let rests = rests.read().unwrap_or_else(PoisonError::into_inner);
                        let (turn, checks) = (&rests.turn, checks_a_round);
                        let round = Round { limiter, keys, load, truth, turn, checks };
                        let found = round.check_all(&mut rng, &mut lock(&logs[number]));
                        leased.fetch_add(found, Ordering::Relaxed);
                    }
                    barrier.wait();
                    // The ledgers are divided among the threads.
                    for key in (number..keys.len()).step_by(logs.len()) {
                        let mut batch: Vec<_> = logs
                            .iter()
                            .flat_map(|log| core::mem::take(&mut lock(log)[key]))
                            .collect();
                        lock(&ledgers[key]).enter(&mut batch);
                    }
                    if number == 0 && matches!(load.windows, Windows::Shared(_)) {
                        let mut rests = rests.write().unwrap_or_else(PoisonError::into_inner);
                        rests.rest(limiter, keys, load);
                    }
                    barrier.wait();
                }
            });
        }
    });
    let staleness = staleness(limiter.clock());
    let checks = rounds * checks_a_round * threads;
    let handovers = rests.into_inner().unwrap_or_else(PoisonError::into_inner).handovers;
    let leased = leased.into_inner();
    let admitted = admitted_within(ledgers, load, staleness)?;
    match limiter.evicted() {
        0 => Ok(Outcome { checks, admitted, handovers, staleness, leased, ..Outcome::default() }),
        evicted => Err(Violation::Evicted(evicted)),
    }
}

/// What all keys were admitted together, if none was admitted more than the bound in any interval.
fn admitted_within(
    ledgers: Vec<Mutex<Ledger>>,
    load: Load,
    staleness: Duration,
) -> Result<u64, Violation> {
    let most = (load.burst * load.interval + staleness.as_nanos() as u64).cast_signed();
    let mut admitted = 0;
    for (key, ledger) in ledgers.into_iter().enumerate() {
        let ledger = ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
        admitted += ledger.admitted();
        if ledger.worst() > most {
            let missing = Duration::from_nanos((ledger.worst() - most).cast_unsigned());
            return Err(Violation::Interval { key, missing });
        }
    }
    Ok(admitted)
}

/// State shared by the threads between windows.
struct Rests {
    /// A time before all checks.
    origin: Timestamp,
    /// The theoretical arrival time of each key after the last window.
    tats: Vec<u64>,
    handovers: u64,
    /// The keys of the next window.
    turn: Vec<usize>,
    rng: Xoshiro256PlusPlus,
}

impl Rests {
    fn new(origin: Timestamp, keys: &[KeyHash], load: Load, seed: u64) -> Self {
        let (tats, mut rng) = (vec![0; keys.len()], Xoshiro256PlusPlus::seed_from_u64(seed));
        let turn = turn::draw(&tats, load.keys_at_once, &mut rng);
        Self { origin, tats, handovers: 0, turn, rng }
    }

    /// Counts the slots that were reused, and waits until all debt has drained.
    fn rest<C: Clock>(&mut self, limiter: &Limiter<Quota, C>, keys: &[KeyHash], load: Load) {
        let tats = tats(limiter, keys, self.origin);
        self.handovers += handovers(&self.tats, &tats);
        self.turn = turn::draw(&tats, load.keys_at_once, &mut self.rng);
        let drained = tats.iter().max().copied().unwrap_or(0);
        self.tats = tats;
        while limiter.clock().now().as_nanos() <= drained + load.interval {
            thread::yield_now();
        }
    }
}

/// The checks of a thread between two audits.
struct Round<'r, C> {
    limiter: &'r Limiter<Quota, C>,
    keys: &'r [KeyHash],
    load: Load,
    truth: &'r TscClock,
    /// The first keys to check.
    turn: &'r [usize],
    checks: u64,
}

impl<C: Clock> Round<'_, C> {
    /// Returns the number of units found leased.
    fn check_all(&self, rng: &mut Xoshiro256PlusPlus, log: &mut [Vec<Admission>]) -> u64 {
        let Self { limiter, keys, load, truth, .. } = self;
        let (mut turn, mut leased) = (self.turn.to_vec(), 0);
        for check in 0..self.checks {
            if let Windows::Own(checks) = load.windows
                && check.is_multiple_of(checks)
            {
                let first = rng.random_range(0..keys.len());
                turn = (first..first + load.keys_at_once).map(|key| key % keys.len()).collect();
            }
            let key = turn[rng.random_range(0..turn.len())];
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
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
