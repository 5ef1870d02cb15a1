//! The obvious limiter on a concurrent map: GCRA on one atomic word per key.
//!
//! The maps have their default hashers, room for all keys from the start, and never remove a key,
//! as a real limiter would have to.

use core::hint::black_box;
use core::num::NonZeroU32;
use std::sync::atomic::AtomicU64;

use quanta::Clock;

use super::gcra::Gcra;
use crate::contenders::Contender;
use crate::failure::Failure;
use crate::workloads::Plan;

/// The arithmetic, on quanta's clock.
#[derive(Debug)]
struct Clocked {
    clock: Clock,
    start: u64,
    gcra: Gcra,
}

impl Clocked {
    fn new(plan: &Plan) -> Self {
        let clock = Clock::new();
        let start = clock.raw();
        Self { clock, start, gcra: Gcra::new(plan) }
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.delta_as_nanos(self.start, self.clock.raw())
    }

    #[inline]
    fn admit(&self, word: &AtomicU64, now: u64, units: u32) -> Result<(), u64> {
        self.gcra.admit(word, now, units)
    }
}

/// papaya's map, pinned for each check.
#[derive(Debug)]
pub struct PapayaU64 {
    gcra: Clocked,
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
    const AGAINST: &'static str = "precise-u64";
    type Key = u64;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let words = papaya::HashMap::with_capacity(plan.keys);
        Ok(Self { gcra: Clocked::new(plan), words })
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

/// scc's `HashMap`, read first, since most keys are present.
#[derive(Debug)]
pub struct SccU64 {
    gcra: Clocked,
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
    const AGAINST: &'static str = "precise-u64";
    type Key = u64;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let words = scc::HashMap::with_capacity(plan.keys);
        Ok(Self { gcra: Clocked::new(plan), words })
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
