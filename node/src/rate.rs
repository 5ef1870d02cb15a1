//! Rates as people write them: `100/s`, `5000/h`.

use std::fmt;
use std::str::FromStr;

use tidegate_engine::{Limiter, ManualClock, Quota, QuotaError};

/// The largest count of a rate, in units a period.
pub const MAX_COUNT: u64 = 1_000_000_000;

/// A count from 1 to [`MAX_COUNT`] each second, minute, hour or day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u64,
    period: Period,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Second,
    Minute,
    Hour,
    Day,
}

impl Rate {
    /// The quota of this rate and `burst` units at once, which may be one that no limiter enforces.
    pub const fn quota(self, burst: u64) -> Quota {
        let quota = match self.period {
            Period::Second => Quota::per_second(self.count),
            Period::Minute => Quota::per_minute(self.count),
            Period::Hour => Quota::per_hour(self.count),
            Period::Day => Quota::per_day(self.count),
        };
        quota.burst(burst)
    }

    /// As [`Rate::quota`], if it can be enforced. Builds a small limiter: for what is read once.
    pub fn enforceable(self, burst: u64) -> Result<Quota, QuotaError> {
        let quota = self.quota(burst);
        enforceable(&quota).map(|()| quota)
    }
}

/// Whether the engine can enforce the quota.
fn enforceable(quota: &Quota) -> Result<(), QuotaError> {
    use tidegate_engine::BuildError;

    let any = Limiter::builder(Quota::per_second(1)).capacity(1).clock(ManualClock::new());
    match any.build() {
        Ok(limiter) => limiter.check_with("", 0, quota).map(|_| ()),
        Err(BuildError::Quota(error)) => Err(error),
        // Not an error of the quota: building its limiter reports it.
        Err(_) => Ok(()),
    }
}

/// Why a text is not a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateError {
    Syntax,
    Count,
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let (count, period) = text.split_once('/').ok_or(RateError::Syntax)?;
        let period = match period {
            "s" => Period::Second,
            "m" => Period::Minute,
            "h" => Period::Hour,
            "d" => Period::Day,
            _ => return Err(RateError::Syntax),
        };
        if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(RateError::Syntax);
        }
        // Only digits, so the only failure is a number that is too large.
        let count = count.parse().map_err(|_| RateError::Count)?;
        if !(1..=MAX_COUNT).contains(&count) {
            return Err(RateError::Count);
        }
        Ok(Self { count, period })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = match self.period {
            Period::Second => 's',
            Period::Minute => 'm',
            Period::Hour => 'h',
            Period::Day => 'd',
        };
        write!(f, "{}/{period}", self.count)
    }
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str("a rate is written COUNT/s, COUNT/m, COUNT/h or COUNT/d"),
            Self::Count => write!(f, "the count of a rate is an integer from 1 to {MAX_COUNT}"),
        }
    }
}

impl std::error::Error for RateError {}

#[cfg(test)]
#[path = "rate_tests.rs"]
mod tests;
