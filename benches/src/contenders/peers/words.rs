//! What one would write with a concurrent map: GCRA on one atomic word a key.
//!
//! The maps have their default hashers, room for all keys from the start, and never let a key go:
//! a real limiter would have to.

use core::hint::black_box;
use core::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use quanta::Clock;

use crate::contenders::Contender;
use crate::failure::Failure;
use crate::workloads::Plan;

/// The arithmetic, in nanoseconds since the start, by quanta's clock.
#[derive(Debug)]
struct Gcra {
    clock: Clock,
    start: u64,
    interval: u64,
    tolerance: u64,
}

impl Gcra {
    fn new(plan: &Plan) -> Self {
        let clock = Clock::new();
        let start = clock.raw();
        let interval = plan.interval.as_nanos() as u64;
        Self { clock, start, interval, tolerance: interval * u64::from(plan.burst.get()) }
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.delta_as_nanos(self.start, self.clock.raw())
    }

    /// The word is the theoretical arrival time; how long to wait if the units do not fit.
    #[inline]
    fn admit(&self, word: &AtomicU64, now: u64, units: u32) -> Result<(), u64> {
        let cost = self.interval * u64::from(units);
        let latest = now + self.tolerance;
        // Relaxed: a word guards no other memory.
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let next = seen.max(now) + cost;
            if next > latest {
                return Err(next - latest);
            }
            match word.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(current) => seen = current,
            }
        }
    }
}

/// papaya's map, pinned for each check.
#[derive(Debug)]
pub struct PapayaU64 {
    gcra: Gcra,
    words: papaya::HashMap<u64, AtomicU64>,
}

impl PapayaU64 {
    #[inline]
    fn ask(&self, key: u64, units: u32) -> Result<(), u64> {
        let words = self.words.pin();
        let word = words.get_or_insert_with(key, AtomicU64::default);
        self.gcra.admit(word, self.gcra.now(), units)
    }
}

impl Contender for PapayaU64 {
    const NAME: &'static str = "papaya-u64";
    const BESIDE: &'static str = "precise-u64";
    type Key = u64;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let words = papaya::HashMap::with_capacity(plan.keys);
        Ok(Self { gcra: Gcra::new(plan), words })
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        black_box(self.ask(*key, 1)).is_ok()
    }

    fn admit(&self, key: &u64, units: NonZeroU32) -> bool {
        self.ask(*key, units.get()).is_ok()
    }

    fn live_keys(&self) -> Option<usize> {
        Some(self.words.len())
    }
}

/// scc's `HashMap`, read first, since most keys are there.
#[derive(Debug)]
pub struct SccU64 {
    gcra: Gcra,
    words: scc::HashMap<u64, AtomicU64>,
}

impl SccU64 {
    #[inline]
    fn ask(&self, key: u64, units: u32) -> Result<(), u64> {
        let now = self.gcra.now();
        let known = self.words.read_sync(&key, |_, word| self.gcra.admit(word, now, units));
        known.unwrap_or_else(|| {
            let entry = self.words.entry_sync(key).or_default();
            self.gcra.admit(&entry, now, units)
        })
    }
}

impl Contender for SccU64 {
    const NAME: &'static str = "scc-u64";
    const BESIDE: &'static str = "precise-u64";
    type Key = u64;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let words = scc::HashMap::with_capacity(plan.keys);
        Ok(Self { gcra: Gcra::new(plan), words })
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        black_box(self.ask(*key, 1)).is_ok()
    }

    fn admit(&self, key: &u64, units: NonZeroU32) -> bool {
        self.ask(*key, units.get()).is_ok()
    }

    fn live_keys(&self) -> Option<usize> {
        Some(self.words.len())
    }
}
