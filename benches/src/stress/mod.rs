//! Real threads against a ledger: more of them than cores, on keys that all want the same few
//! slots.
//!
//! [`phases`] holds time still while threads check, so what each key was admitted is known to a
//! unit; [`timed`] lets it run and holds every interval against the bound. There are twice as many keys
//! as slots ([`keys::rivals`]). A few of them are checked at once; when their debt has drained, others
//! follow, most of which have no slot. So slots change hands for as long as a run lasts and no key is
//! evicted; how often they do is counted, and a run in which they seldom do fails. Windows of checks have a
//! number and no length of time, so it does not matter how fast a build or a machine is. With leases keys
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
use tidegate_engine::{Clock, KeyHash, Limiter, Quota, Timestamp};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Checks in all, about.
    pub checks: u64,
    /// Threads that check at once, at least 1.
    pub threads: usize,
    /// What keys, order and pauses follow from; not the order in which threads run, and so not who has a
    /// slot and who is checked next.
    pub seed: u64,
}

/// What happened in a part that kept its promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Checks made.
    pub checks: u64,
    /// Checks that were allowed.
    pub admitted: u64,
    /// Live keys that were forgotten.
    pub evicted: u64,
    /// Slots that went from one key to another, as far as the first one was without a slot afterwards; not
    /// counted with leases.
    pub handovers: u64,
    /// Units that a key was denied or owes and did not take, in phases in which keys were evicted.
    pub strays: u64,
    /// By how much the clock was late at most.
    pub staleness: Duration,
    /// Units of a key that were found leased by threads about to give theirs back, all times together.
    pub leased: u64,
}

impl Outcome {
    /// Of so many checks one finds its key without the slot that it had, at the least.
    const CHECKS_A_HANDOVER: u64 = 100;
    /// Checks after which all slots have been used.
    const WARM_UP: u64 = 20_000;

    /// The outcome, if slots changed hands all the time.
    fn with_handovers(self) -> Result<Self, Violation> {
        let least = self.checks.saturating_sub(Self::WARM_UP) / Self::CHECKS_A_HANDOVER;
        match self.handovers {
            handovers if handovers < least => Err(Violation::Settled { handovers, least }),
            _ => Ok(self),
        }
    }
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
    /// The debt that keys forgot does not fit the number of evictions.
    Forgotten {
        /// The number of the phase.
        phase: u64,
        /// The evictions that it takes to forget as much.
        least: u64,
        /// The evictions that can have forgotten so little.
        most: u64,
        /// Evictions in the phase.
        evicted: u64,
    },
    /// Charges landed on other keys, more of them than equal words can explain.
    Strayed {
        /// Units that a key was denied or owes and did not take.
        charges: u64,
        /// How many there may be.
        most: u64,
    },
    /// Slots stay with their keys, so that little was tried out.
    Settled {
        /// How often a slot changed hands.
        handovers: u64,
        /// How often it should have.
        least: u64,
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

/// The theoretical arrival time of each key in nanoseconds, 0 for those without a slot: to a look at a time before
/// all checks, no debt has drained.
fn tats<C: Clock>(limiter: &Limiter<Quota, C>, keys: &[KeyHash], origin: Timestamp) -> Vec<u64> {
    let debts = keys.iter().map(|key| limiter.check_at(*key, 0, origin).reset_after());
    debts
        .map(|debt| if debt.is_zero() { 0 } else { origin.as_nanos() + debt.as_nanos() as u64 })
        .collect()
}

/// How many keys had a slot and have none.
fn handovers(before: &[u64], after: &[u64]) -> u64 {
    before.iter().zip(after).filter(|(before, after)| **before > 0 && **after == 0).count() as u64
}

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
