//! Time is stopped while threads check, and advances when all have finished. So each key must be
//! admitted exactly what it has room for, to the unit. With evictions a key may be admitted more,
//! by the debt it lost, as bounded by the number of evictions.

use core::cell::Cell;
use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError, RwLock};
use std::thread;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock, KeyHash, Limiter, ManualClock, Quota};

use super::book::{BURST, Book, INTERVAL_NANOS, TAU_NANOS, Tally, lock};
use super::{Outcome, Settings, Violation, jitter, turn};

/// Approximate number of checks of all threads in a phase.
const CHECKS_A_PHASE: u64 = 256;

/// Runs phases on `keys`, of which `at_once` are checked in a phase. They change when time has
/// advanced by a whole burst, so that only they are live, and slots are reused after their keys'
/// debt has drained; no key may ever be evicted. If `evicts` is set, they change in each phase.
///
/// # Errors
/// When a guarantee is violated, or slots are seldom reused.
pub fn run(
    settings: &Settings,
    keys: &[KeyHash],
    at_once: usize,
    evicts: bool,
) -> Result<Outcome, Violation> {
    let half = Settings { checks: settings.checks / 2, ..*settings };
    // The clock determines how a limiter probes for a key's slot.
    let one = run_half::<true>(&half, keys, at_once, evicts)?;
    let other = run_half::<false>(&half, keys, at_once, evicts)?;
    let outcome = Outcome {
        checks: one.checks + other.checks,
        admitted: one.admitted + other.admitted,
        evicted: one.evicted + other.evicted,
        handovers: one.handovers + other.handovers,
        strays: one.strays + other.strays,
        ..Outcome::default()
    };
    outcome.with_handovers()
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
    let limiter = Limiter::builder(quota).capacity(13_107).clock(clock.clone());
    let limiter = limiter.build().map_err(|error| Violation::SetUp(error.to_string()))?;
    let checks = (CHECKS_A_PHASE / settings.threads as u64).max(1);
    let phases = (settings.checks / (checks * settings.threads as u64)).max(1);

    let tallies: Vec<_> =
        (0..settings.threads).map(|_| Mutex::new(vec![Tally::default(); keys.len()])).collect();
    let (barrier, over) = (Barrier::new(settings.threads), AtomicBool::new(false));
    let book = Mutex::new(Book::new(&limiter, &clock.time, keys, evicts));
    let verdict = Mutex::new(Ok(()));
    let turn = RwLock::new((0..at_once).collect::<Vec<_>>());
    thread::scope(|scope| {
        for number in 0..settings.threads {
            let (limiter, tallies, barrier) = (&limiter, &tallies, &barrier);
            let (over, book, verdict) = (&over, &book, &verdict);
            let turn = &turn;
            let seed = settings.seed;
            scope.spawn(move || {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ (number as u64 + 1) << 32);
                // The same on all threads.
                let mut plan = Xoshiro256PlusPlus::seed_from_u64(seed);
                let mut next = plan.fork();
                for phase in 0..phases {
                    let pass = STEPS[plan.random_range(0..STEPS.len())];
                    // Every other phase all threads check the same keys in the same order.
                    let mut order = if phase % 2 == 0 { plan.clone() } else { rng.fork() };
                    {
                        let turn = turn.read().unwrap_or_else(PoisonError::into_inner);
                        let draw = || turn[order.random_range(0..turn.len())];
                        let mut tallies = lock(&tallies[number]);
                        check_all(limiter, keys, checks, draw, &mut rng, &mut tallies);
                    }
                    barrier.wait();
                    if number == 0 {
                        let mut book = lock(book);
                        let audit = book.close(phase, tallies, Duration::from_nanos(pass));
                        over.store(audit.is_err(), Ordering::Relaxed);
                        if evicts || pass >= TAU_NANOS {
                            *turn.write().unwrap_or_else(PoisonError::into_inner) =
                                turn::draw(&book.tats, at_once, &mut next);
                        }
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
    Ok(book.outcome())
}

/// Stopped except for `time`. Threads that read it are delayed now and then, including those that
/// have claimed a slot but not committed it yet: a claim ends with a reading.
#[derive(Clone, Debug, Default)]
struct Hesitant<const STALLS: bool> {
    time: ManualClock,
}

impl<const STALLS: bool> Clock for Hesitant<STALLS> {
    fn waits_for_loads(&self) -> bool {
        STALLS
    }

    fn now(&self) -> Timestamp {
        thread_local! {
            static READINGS: Cell<u32> = const { Cell::new(0) };
        }
        let readings = READINGS.get().wrapping_add(1);
        READINGS.set(readings);
        // Primes, so that all kinds of readings are delayed.
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

/// By how much time advances after a phase: keys regain some, all or more of their burst.
const STEPS: [u64; 7] =
    [0, 1, INTERVAL_NANOS / 2, INTERVAL_NANOS, 2 * INTERVAL_NANOS, TAU_NANOS, 2 * TAU_NANOS];

fn check_all<const STALLS: bool>(
    limiter: &Limiter<Quota, Hesitant<STALLS>>,
    keys: &[KeyHash],
    checks: u64,
    mut draw: impl FnMut() -> usize,
    rng: &mut Xoshiro256PlusPlus,
    tallies: &mut [Tally],
) {
    for _ in 0..checks {
        let key = draw();
        jitter(rng);
        tallies[key].asked += 1;
        tallies[key].admitted += u64::from(limiter.check(keys[key]).is_allowed());
    }
}
