//! GCRA on one atomic word, for peers without an algorithm.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::workloads::Plan;

/// The arithmetic, in nanoseconds on any clock.
#[derive(Debug)]
pub struct Gcra {
    interval: u64,
    tolerance: u64,
}

impl Gcra {
    pub fn new(plan: &Plan) -> Self {
        let interval = plan.interval.as_nanos() as u64;
        Self { interval, tolerance: interval * u64::from(plan.burst.get()) }
    }

    /// Checks the word, a theoretical arrival time; the error is how long to wait if the units do
    /// not fit.
    #[inline]
    pub fn admit(&self, word: &AtomicU64, now: u64, units: u32) -> Result<(), u64> {
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
