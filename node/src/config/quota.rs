//! Quotas as people write them, in the engine's grammar: `100/s`, `5/15m`, `1000/d burst 50`.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use tidegate_engine::rule::{AnyRule, ParseRuleError};
use tidegate_engine::{Limiter, ManualClock, Quota, QuotaError};

/// A quota that was read, next to which a burst may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenQuota {
    quota: Quota,
    /// Why no burst may be given next to it, if none may.
    no_burst: Option<NoBurst>,
}

impl WrittenQuota {
    /// The quota, with the burst that is given next to it, if there is one. It may be one that no
    /// limiter enforces.
    ///
    /// # Errors
    /// When the text has a burst as well, or cannot have one.
    pub fn with_burst(self, burst: Option<u64>) -> Result<Quota, NoBurst> {
        match (burst, self.no_burst) {
            (Some(_), Some(why)) => Err(why),
            (Some(units), None) => Ok(self.quota.burst(units)),
            (None, _) => Ok(self.quota),
        }
    }
}

/// Whether the engine can enforce the quota. Builds a small limiter: for what is read once.
///
/// # Errors
/// Why it cannot.
pub fn enforceable(quota: &Quota) -> Result<(), Unenforceable> {
    use tidegate_engine::BuildError;

    let any = Limiter::builder(Quota::per_second(1)).capacity(1).clock(ManualClock::new());
    match any.build() {
        Ok(limiter) => limiter.check_with("", 0, quota).map(|_| ()).map_err(Unenforceable),
        Err(BuildError::Quota(error)) => Err(Unenforceable(error)),
        // Not an error of the quota: building its limiter reports it.
        Err(_) => Ok(()),
    }
}

impl FromStr for WrittenQuota {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        match text.parse().map_err(RateError::Text)? {
            AnyRule::Quota(quota) => {
                let mut words = text.split_ascii_whitespace();
                let no_burst = words.find_map(|word| match word {
                    "burst" => Some(NoBurst::Twice),
                    "blocked" => Some(NoBurst::Blocked),
                    "unlimited" => Some(NoBurst::Unlimited),
                    _ => None,
                });
                // As `0/s`.
                let is_blocked = quota.is_blocked().then_some(NoBurst::Blocked);
                Ok(Self { quota, no_burst: no_burst.or(is_blocked) })
            }
            window => Err(RateError::Window(window)),
        }
    }
}

impl fmt::Display for WrittenQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota.fmt(f)
    }
}

/// Why a text is not a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateError {
    Text(ParseRuleError),
    /// It is another rule.
    Window(AnyRule),
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::Window(rule) => {
                write!(f, "a node enforces no windows, such as `{rule}`, but quotas such as 100/m")
            }
        }
    }
}

impl Error for RateError {}

/// Why a burst may not be given next to a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBurst {
    /// It is given in the text as well.
    Twice,
    /// Nothing is admitted.
    Blocked,
    /// Everything is admitted.
    Unlimited,
}

impl fmt::Display for NoBurst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = match self {
            Self::Twice => return f.write_str("the rate has a burst as well: give one of them"),
            Self::Blocked => "blocked",
            Self::Unlimited => "unlimited",
        };
        write!(f, "does not go with `{rate}`: leave it out, or give a rate such as 100/m")
    }
}

/// Why a quota cannot be enforced, in the words of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unenforceable(pub QuotaError);

impl Unenforceable {
    /// The field at fault: the burst, if it `has_burst` in a field of its own.
    pub fn field(self, has_burst: bool) -> &'static str {
        use QuotaError::{BurstTooLong, StrictBurst, ZeroBurst};

        let is_of_burst = matches!(self.0, ZeroBurst | BurstTooLong | StrictBurst);
        if has_burst && is_of_burst { "burst" } else { "rate" }
    }
}

impl fmt::Display for Unenforceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            QuotaError::ZeroBurst => {
                f.write_str("burst must be at least 1 (the rate `blocked` admits nothing)")
            }
            QuotaError::ZeroPeriod => {
                f.write_str("period must be longer than 0 (the rate `unlimited` admits everything)")
            }
            error => error.fmt(f),
        }
    }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
