//! Why a run has no figures to show.

use core::fmt;
use core::time::Duration;

/// A claim that did not hold, or a measurement that could not be made. Figures of a run that fails
/// are void.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Failure {
    /// Another share of the checks was allowed than the workload is named after.
    Share {
        /// The limiter that decided.
        contender: String,
        /// Checks that should have been allowed.
        expected: u64,
        /// Checks that were allowed.
        allowed: u64,
        /// Checks in all.
        checks: u64,
    },
    /// A key was denied while the keys were put in place, before anything was timed.
    WarmUp {
        /// The limiter that decided.
        contender: String,
        /// The key that was denied.
        key: String,
    },
    /// Another number of keys is live than was put in place.
    LiveKeys {
        /// The limiter that was asked.
        contender: String,
        /// Keys put in place.
        expected: usize,
        /// Keys found.
        found: usize,
    },
    /// Live keys were forgotten to make room.
    Evicted {
        /// The limiter that was asked.
        contender: String,
        /// Keys forgotten.
        keys: u64,
    },
    /// A sampled key owes another debt than its checks add up to.
    Debt {
        /// The key.
        key: String,
        /// The least it may owe.
        low: Duration,
        /// The most it may owe.
        high: Duration,
        /// What it owes.
        found: Duration,
    },
    /// A limiter or a helper could not be set up.
    SetUp(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { contender, expected, allowed, checks } => write!(
                f,
                "{contender}: {allowed} of {checks} checks were allowed, expected {expected}"
            ),
            Self::WarmUp { contender, key } => {
                write!(f, "{contender}: key {key} was denied during warm-up")
            }
            Self::LiveKeys { contender, expected, found } => {
                write!(f, "{contender}: {found} keys are live, expected {expected}")
            }
            Self::Evicted { contender, keys } => {
                write!(f, "{contender}: {keys} live keys were evicted, expected none")
            }
            Self::Debt { key, low, high, found } => {
                write!(f, "key {key} owes {found:?}, expected {low:?} to {high:?}")
            }
            Self::SetUp(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failure {}
