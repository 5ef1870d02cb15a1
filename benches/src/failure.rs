//! Why a run has no valid figures.

use core::fmt;
use core::time::Duration;

/// A failed audit or measurement. Figures of a run that fails are void.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Failure {
    /// The share of allowed checks is not the one that the workload is named after.
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
    /// A key was denied while keys were inserted, before the timed part.
    WarmUp {
        /// The limiter that decided.
        contender: String,
        /// The key that was denied.
        key: String,
    },
    /// The number of live keys is not the number inserted.
    LiveKeys {
        /// The limiter.
        contender: String,
        /// Keys inserted.
        expected: usize,
        /// Keys found.
        found: usize,
    },
    /// Live keys were evicted.
    Evicted {
        /// The limiter.
        contender: String,
        /// Keys evicted.
        keys: u64,
    },
    /// The debt of a sampled key differs from the sum of its checks.
    Debt {
        /// The key.
        key: String,
        /// The minimum debt.
        low: Duration,
        /// The maximum debt.
        high: Duration,
        /// The debt found.
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
