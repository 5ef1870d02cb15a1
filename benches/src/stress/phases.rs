//! Time stands still while all threads check, and moves when all have stopped. So each key must be
//! admitted exactly what it has room for: not a unit more, and not one less.

use core::cell::Cell;
use core::time::Duration;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use tidegate_engine::{Clock, KeyHash, Limiter, ManualClock, Quota, Timestamp};

use super::{Outcome, Settings, Violation, jitter};

const INTERVAL_NANOS: u64 = 999;
const BURST: u64 = 5;
const TAU_NANOS: u64 = BURST * INTERVAL_NANOS;
/// Checks of one thread in a phase.
const CHECKS_A_PHASE: u64 = 64;
/// Phases between two looks at the whole table.
const PHASES_A_SWEEP: u64 = 1_024;

/// Runs phases on `keys`, of which `at_once` are checked in a phase, each time others. If `evicts`
/// is not set, no key may ever be evicted.
///
/// # Errors
/// When a promise is not kept.
pub fn run(
    settings: &Settings,
    keys: &[KeyHash],
    at_once: usize,
    evicts: bool,
) -> Result<Outcome, Violation> {
    let half = Settings { checks: settings.checks / 2, ..*settings };
    // A limiter looks for a key's slot in one way or another, as its clock says.
    let one = run_half::<true>(&half, keys, at_once, evicts)?;
    let other = run_half::<false>(&half, keys, at_once, evicts)?;
    Ok(Outcome {
        checks: one.checks + other.checks,
        admitted: one.admitted + other.admitted,
        evicted: one.evicted + other.evicted,
        staleness: Duration::ZERO,
        leased: 0,
    })
}

fn run_half<const STALLS: bool>(
    settings: &Settings,
    keys: &[KeyHash],
    at_once: usize,
    evicts: bool,
) -> Result<Outcome, Violation> {
    let clock = Hesitant::<STALLS>::default();
    clock.time.advance(Duration::from_secs(1));
    let quota = Quota::new(1, Duration::from_nanos(INTERVAL_NANOS)).burst(BURST);
    let limiter = Limiter::builder(quota).capacity(1).clock(clock.clone());
    let limiter = limiter.build().map_err(|error| Violation::SetUp(error.to_string()))?;
    let phases = (settings.checks / (CHECKS_A_PHASE * settings.threads as u64)).max(1);

    let tallies: Vec<_> =
        (0..settings.threads).map(|_| Mutex::new(vec![Tally::default(); keys.len()])).collect();
    let (barrier, over) = (Barrier::new(settings.threads), AtomicBool::new(false));
    let book = Mutex::new(Book::new(&limiter, &clock.time, keys, evicts));
    let verdict = Mutex::new(Ok(()));
    thread::scope(|scope| {
        for number in 0..settings.threads {
            let (limiter, tallies, barrier) = (&limiter, &tallies, &barrier);
            let (over, book, verdict) = (&over, &book, &verdict);
            let seed = settings.seed;
            scope.spawn(move || {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ (number as u64 + 1) << 32);
                // The same on all threads.
                let mut plan = Xoshiro256PlusPlus::seed_from_u64(seed);
                for phase in 0..phases {
                    let first = plan.random_range(0..keys.len());
                    let pass = STEPS[plan.random_range(0..STEPS.len())];
                    // Every other phase all threads ask for the same keys in the same order.
                    let mut order = if phase % 2 == 0 { plan.clone() } else { rng.fork() };
                    let draw = || (first + order.random_range(0..at_once)) % keys.len();
                    check_all(limiter, keys, draw, &mut rng, &mut lock(&tallies[number]));
                    barrier.wait();
                    if number == 0 {
                        let audit = lock(book).close(phase, tallies, Duration::from_nanos(pass));
                        over.store(audit.is_err(), Ordering::Relaxed);
                        *lock(verdict) = audit;
                    }
                    barrier.wait();
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
    });
    verdict.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    let book = book.into_inner().unwrap_or_else(PoisonError::into_inner);
    book.sweep()?;
    Ok(Outcome {
        checks: book.checks,
        admitted: book.admitted,
        evicted: limiter.evicted(),
        staleness: Duration::ZERO,
        leased: 0,
    })
}

/// Stands still but for `time`. Threads that read it are delayed now and then, also those that have
/// claimed a slot and not settled in it yet: a claim ends with a reading.
#[derive(Clone, Debug, Default)]
struct Hesitant<const STALLS: bool> {
    time: ManualClock,
}

impl<const STALLS: bool> Clock for Hesitant<STALLS> {
    const STALLS: bool = STALLS;

    fn now(&self) -> Timestamp {
        thread_local! {
            static READINGS: Cell<u32> = const { Cell::new(0) };
        }
        let readings = READINGS.get().wrapping_add(1);
        READINGS.set(readings);
        // Primes, so that all kinds of readings are hit.
        if readings.is_multiple_of(509) {
            thread::yield_now();
        } else if readings.is_multiple_of(23) {
            for _ in 0..readings % 61 {
                core::hint::spin_loop();
            }
        }
        self.time.now()
    }
}

/// By how much time moves after a phase: so that keys have some, all or more of their burst back.
const STEPS: [u64; 7] =
    [0, 1, INTERVAL_NANOS / 2, INTERVAL_NANOS, 2 * INTERVAL_NANOS, TAU_NANOS, 2 * TAU_NANOS];

/// What one thread asked for and was given, of one key in one phase.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    asked: u64,
    admitted: u64,
}

fn check_all<const STALLS: bool>(
    limiter: &Limiter<Quota, Hesitant<STALLS>>,
    keys: &[KeyHash],
    mut draw: impl FnMut() -> usize,
    rng: &mut Xoshiro256PlusPlus,
    tallies: &mut [Tally],
) {
    for _ in 0..CHECKS_A_PHASE {
        let key = draw();
        jitter(rng);
        tallies[key].asked += 1;
        tallies[key].admitted += u64::from(limiter.check(keys[key]).is_allowed());
    }
}

/// What each key has been admitted, and so has to owe.
struct Book<'a, const STALLS: bool> {
    limiter: &'a Limiter<Quota, Hesitant<STALLS>>,
    clock: &'a ManualClock,
    keys: &'a [KeyHash],
    evicts: bool,
    now: u64,
    /// Theoretical arrival times, in nanoseconds.
    tats: Vec<u64>,
    checks: u64,
    admitted: u64,
    /// Units admitted beyond the bound.
    beyond: u64,
}

impl<'a, const STALLS: bool> Book<'a, STALLS> {
    fn new(
        limiter: &'a Limiter<Quota, Hesitant<STALLS>>,
        clock: &'a ManualClock,
        keys: &'a [KeyHash],
        evicts: bool,
    ) -> Self {
        let (now, tats) = (clock.now().as_nanos(), vec![0; keys.len()]);
        Self { limiter, clock, keys, evicts, now, tats, checks: 0, admitted: 0, beyond: 0 }
    }

    /// Audits a phase and moves time.
    fn close(
        &mut self,
        phase: u64,
        tallies: &[Mutex<Vec<Tally>>],
        pass: Duration,
    ) -> Result<(), Violation> {
        let mut sums = vec![Tally::default(); self.keys.len()];
        for tally in tallies {
            for (sum, tally) in sums.iter_mut().zip(lock(tally).iter_mut()) {
                sum.asked += tally.asked;
                sum.admitted += tally.admitted;
                *tally = Tally::default();
            }
        }
        for (key, Tally { asked, admitted }) in sums.into_iter().enumerate() {
            self.enter(phase, key, asked, admitted)?;
        }
        let evicted = self.limiter.evicted();
        if !self.evicts && evicted > 0 {
            return Err(Violation::Evicted(evicted));
        }
        if self.beyond > evicted * BURST {
            return Err(Violation::BeyondEvictions {
                beyond: self.beyond,
                forgotten: evicted * BURST,
            });
        }
        if phase.is_multiple_of(PHASES_A_SWEEP) {
            self.sweep()?;
        }
        self.clock.advance(pass);
        self.now += pass.as_nanos() as u64;
        Ok(())
    }

    fn enter(
        &mut self,
        phase: u64,
        key: usize,
        asked: u64,
        admitted: u64,
    ) -> Result<(), Violation> {
        let debt = self.tats[key].saturating_sub(self.now);
        let expected = asked.min(TAU_NANOS.saturating_sub(debt) / INTERVAL_NANOS);
        // A key that was evicted owes less than it took, never more.
        if admitted < expected || (admitted > expected && !self.evicts) {
            return Err(Violation::Admitted { phase, key, expected, admitted });
        }
        self.beyond += admitted - expected;
        self.checks += asked;
        self.admitted += admitted;
        if admitted > 0 {
            self.tats[key] = self.tats[key].max(self.now) + admitted * INTERVAL_NANOS;
        }
        if asked > 0 && !self.evicts {
            let expected = Duration::from_nanos(self.tats[key].saturating_sub(self.now));
            let found = self.limiter.peek(self.keys[key]).reset_after();
            if found != expected {
                return Err(Violation::Debt { key, expected, found });
            }
        }
        Ok(())
    }

    /// Looks through the whole table for keys that have two live words, or were never charged.
    fn sweep(&self) -> Result<(), Violation> {
        let mut seen = HashSet::new();
        for (hash, debt) in self.limiter.live() {
            let Some(key) = self.keys.iter().position(|key| *key == hash) else {
                return Err(Violation::SetUp(format!("{hash:?} was never checked")));
            };
            if !seen.insert(hash) {
                return Err(Violation::TwoWords { key });
            }
            let most = Duration::from_nanos(self.tats[key].saturating_sub(self.now));
            if debt > most {
                return Err(Violation::Debt { key, expected: most, found: debt });
            }
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
