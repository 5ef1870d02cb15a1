//! Checks of one connection that are decided together.
//!
//! Checks that follow each other under one quota share a reading of the clock, and wait for memory
//! at the same time. The decisions are those of the same checks one after another, and so are the
//! replies: before anything else is answered, what waits is decided.

use std::time::Duration;

use tidegate_engine::{Decision, KeyHash, Quota};

use super::spelling::Spelling;
use crate::front::units::seconds_up;

/// The most checks that are decided together: enough to wait for memory together, and so few that
/// their replies are a small part of a batch's.
pub const MAX_TOGETHER: usize = 128;

/// Checks that wait to be decided, all on the same terms.
#[derive(Debug, Default)]
pub struct Checks {
    pub terms: Option<BatchTerms>,
    /// The last one that was read as a whole.
    pub last: Option<Spelled>,
    /// Keys and costs.
    pub waiting: Vec<(KeyHash, u64)>,
    /// Those on the checks that were decided last.
    pub decisions: Vec<Decision>,
}

impl Checks {
    /// Whether one more on these terms may wait with the others.
    pub fn take(&self, terms: &BatchTerms) -> bool {
        self.waiting.len() < MAX_TOGETHER && self.terms.as_ref() == Some(terms)
    }
}

/// How a check was spelled, and what that says.
#[derive(Debug)]
pub struct Spelled {
    pub spelling: Spelling,
    pub terms: BatchTerms,
    pub cost: u64,
    /// The number of its command.
    pub command: Option<u8>,
}

/// Whose command syntax the check has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// redis-cell's.
    Cell,
    /// throttlecrab's.
    Crab,
}

impl Dialect {
    /// The burst beyond what is given as the largest one, in units.
    pub const fn beyond_burst(self) -> u64 {
        match self {
            Self::Cell => 1,
            Self::Crab => 0,
        }
    }

    /// The answer to a check.
    #[inline]
    pub fn figures(self, decision: &Decision) -> [i64; 5] {
        let (limit, remaining) = (integer(decision.limit()), integer(decision.remaining()));
        let (is_allowed, reset) = (decision.is_allowed(), seconds(decision.reset_after()));
        match self {
            Self::Cell => {
                let retry = if is_allowed { -1 } else { retry_seconds(decision) };
                [i64::from(!is_allowed), limit, remaining, retry, reset]
            }
            Self::Crab => [i64::from(is_allowed), limit, remaining, reset, retry_seconds(decision)],
        }
    }
}

/// What checks that are decided together have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchTerms {
    pub dialect: Dialect,
    pub quota: Quota,
}

/// Seconds until the cost fits; -1 when it never does.
fn retry_seconds(decision: &Decision) -> i64 {
    decision.retry_after().map_or(-1, seconds)
}

fn seconds(duration: Duration) -> i64 {
    integer(seconds_up(duration))
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
