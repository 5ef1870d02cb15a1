//! Real threads against a ledger: more of them than cores, on keys that all want the same few
//! slots.
//!
//! [`phases`] holds time still while threads check, so what each key was admitted is known to a
//! unit; [`timed`] lets it run and holds every interval against the bound. Keys share one home, so
//! the slots there change hands all the time.

pub mod keys;
pub mod ledger;
pub mod phases;
pub mod timed;

use core::fmt;
use core::time::Duration;

use rand::RngExt as _;
use rand::rngs::Xoshiro256PlusPlus;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Checks in all, about.
    pub checks: u64,
    /// Threads that check at once, at least 1.
    pub threads: usize,
    /// What keys, order and pauses follow from; not the order in which threads run.
    pub seed: u64,
}

/// What happened in a part that kept its promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Checks made.
    pub checks: u64,
    /// Checks that were allowed.
    pub admitted: u64,
    /// Live keys that were forgotten.
    pub evicted: u64,
    /// By how much the clock was late at most.
    pub staleness: Duration,
    /// Units of a key that were found leased by threads about to give theirs back, all times together.
    pub leased: u64,
}

/// A promise that was not kept, or a part that could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A key was admitted another cost than it had room for.
    Admitted {
        /// The number of the phase.
        phase: u64,
        /// The number of the key.
        key: usize,
        /// What it should have been admitted.
        expected: u64,
        /// What it was admitted.
        admitted: u64,
    },
    /// More was admitted beyond the bound than evicted keys can explain.
    BeyondEvictions {
        /// Units admitted beyond the bound.
        beyond: u64,
        /// Units that the evicted keys can have owed.
        forgotten: u64,
    },
    /// A key owes another debt than it was charged.
    Debt {
        /// The number of the key.
        key: usize,
        /// What it should owe.
        expected: Duration,
        /// What it owes.
        found: Duration,
    },
    /// A key has two live words.
    TwoWords {
        /// The number of the key.
        key: usize,
    },
    /// Keys were evicted that all have room.
    Evicted(u64),
    /// An interval admitted more than burst + rate * (length + staleness).
    Interval {
        /// The number of the key.
        key: usize,
        /// How much too short the interval is for what it admitted.
        missing: Duration,
    },
    /// It could not be run.
    SetUp(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted { phase, key, expected, admitted } => {
                write!(f, "phase {phase}: key {key} was admitted {admitted}, expected {expected}")
            }
            Self::BeyondEvictions { beyond, forgotten } => {
                write!(f, "{beyond} units beyond the bound, evictions explain {forgotten}")
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

/// Lets threads meet at other places each time: often not at all, sometimes for a moment, now and
/// then the processor is given away.
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
