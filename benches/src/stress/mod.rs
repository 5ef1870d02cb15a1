//! Real threads against a ledger: more of them than cores, on keys that all compete for the same
//! few slots.
//!
//! [`phases`] stops time while threads check, so what each key is admitted is known to a unit;
//! [`timed`] lets time run and checks every interval against the bound. There are twice as many
//! keys as slots ([`keys::rivals`]). A few of them are checked concurrently; when their debt has
//! drained, others follow, most of which have no slot. So slots are reused throughout a run without
//! evictions; reuses are counted, and a run with too few of them fails. Windows are measured in
//! checks rather than time, so the speed of a build or machine does not matter. With leases keys
//! keep their slots: few are hot for long.

mod book;
pub mod keys;
pub mod ledger;
pub mod phases;
pub mod timed;
mod turn;

use core::fmt;
use core::time::Duration;

use rand::RngExt as _;
use rand::rngs::Xoshiro256PlusPlus;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock, KeyHash, Limiter, Quota};

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Approximate number of checks.
    pub checks: u64,
    /// Checking threads, at least 1.
    pub threads: usize,
    /// Seed of keys, order and pauses. It does not determine the order in which threads run, hence
    /// neither which keys have a slot nor which are checked next.
    pub seed: u64,
}

/// The result of a part without violations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Checks made.
    pub checks: u64,
    /// Checks that were allowed.
    pub admitted: u64,
    /// Live keys that were evicted.
    pub evicted: u64,
    /// Slots reused by another key, counted if the previous key has no slot afterwards; not counted
    /// with leases.
    pub handovers: u64,
    /// Units that a key was denied or owes without having taken them, in phases with evictions.
    pub strays: u64,
    /// The maximum staleness of the clock.
    pub staleness: Duration,
    /// Sum of the units of a key that threads found leased before returning theirs.
    pub leased: u64,
}

impl Outcome {
    /// At least one check in this many finds that its key has lost its slot.
    const CHECKS_A_HANDOVER: u64 = 100;
    /// Number of checks after which all slots have been used.
    const WARM_UP: u64 = 20_000;

    /// The outcome, if slots were reused often enough.
    fn with_handovers(self) -> Result<Self, Violation> {
        let least = self.checks.saturating_sub(Self::WARM_UP) / Self::CHECKS_A_HANDOVER;
        match self.handovers {
            handovers if handovers < least => Err(Violation::Settled { handovers, least }),
            _ => Ok(self),
        }
    }
}

/// A violated guarantee, or a part that could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A key was not admitted exactly the cost it had room for.
    Admitted {
        /// The number of the phase.
        phase: u64,
        /// The index of the key.
        key: usize,
        /// The expected cost.
        expected: u64,
        /// The admitted cost.
        admitted: u64,
    },
    /// The debt lost by evictions does not match their number.
    Forgotten {
        /// The number of the phase.
        phase: u64,
        /// The minimum number of evictions that can lose as much debt.
        least: u64,
        /// The maximum number of evictions that can lose as little debt.
        most: u64,
        /// Evictions in the phase.
        evicted: u64,
    },
    /// More charges landed on other keys than equal words can explain.
    Strayed {
        /// Units that a key was denied or owes without having taken them.
        charges: u64,
        /// The allowed number.
        most: u64,
    },
    /// Slots were seldom reused, so the coverage is too low.
    Settled {
        /// The number of reuses.
        handovers: u64,
        /// The required number.
        least: u64,
    },
    /// The debt of a key differs from its charges.
    Debt {
        /// The index of the key.
        key: usize,
        /// The expected debt.
        expected: Duration,
        /// The debt found.
        found: Duration,
    },
    /// A key has two live words.
    TwoWords {
        /// The index of the key.
        key: usize,
    },
    /// Keys were evicted although all have room.
    Evicted(u64),
    /// An interval admitted more than burst + rate * (length + staleness).
    Interval {
        /// The index of the key.
        key: usize,
        /// By how much the interval is too short for what it admitted.
        missing: Duration,
    },
    /// The part could not be run.
    SetUp(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted { phase, key, expected, admitted } => {
                write!(f, "phase {phase}: key {key} was admitted {admitted}, expected {expected}")
            }
            Self::Forgotten { phase, least, most, evicted } => {
                write!(f, "phase {phase}: {evicted} evictions, {least} to {most} forgot debt")
            }
            Self::Strayed { charges, most } => {
                write!(f, "{charges} charges landed on other keys, expected {most} at most")
            }
            Self::Settled { handovers, least } => {
                write!(f, "slots changed hands {handovers} times only, expected {least}")
            }
            Self::Debt { key, expected, found } => {
                write!(f, "key {key} owes {found:?}, expected {expected:?}")
            }
            Self::TwoWords { key } => write!(f, "key {key} has two live words"),
            Self::Evicted(keys) => write!(f, "{keys} keys were evicted though all have room"),
            Self::Interval { key, missing } => {
                write!(f, "key {key}: an interval is {missing:?} too short for what it admitted")
            }
            Self::SetUp(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Violation {}

/// The theoretical arrival time of each key in nanoseconds, 0 for keys without a slot: read at a
/// time before all checks, no debt has drained.
fn tats<C: Clock>(limiter: &Limiter<Quota, C>, keys: &[KeyHash], origin: Timestamp) -> Vec<u64> {
    let debts = keys.iter().map(|key| limiter.check_at(*key, 0, origin).reset_after());
    debts
        .map(|debt| if debt.is_zero() { 0 } else { origin.as_nanos() + debt.as_nanos() as u64 })
        .collect()
}

/// The number of keys that have lost their slot.
fn handovers(before: &[u64], after: &[u64]) -> u64 {
    before.iter().zip(after).filter(|(before, after)| **before > 0 && **after == 0).count() as u64
}

/// Varies where threads interleave: often no pause, sometimes a short spin, now and then a yield.
fn jitter(rng: &mut Xoshiro256PlusPlus) {
    match rng.random_range(0..4_096_u32) {
        0 => std::thread::yield_now(),
        pause @ 1..512 => {
            for _ in 0..pause / 8 {
                core::hint::spin_loop();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
