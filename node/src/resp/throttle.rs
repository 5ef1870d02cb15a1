//! `CL.THROTTLE` and `THROTTLE`: two spellings of one check, under a quota given with it.

use std::time::Duration;

use tidegate_engine::{Decision, Quota, QuotaError};

use super::command::{Command, integer_of};
use super::reply::Reply;
use super::session::Session;
use crate::service::CheckError;
use crate::units::seconds_up;

/// By whom the check is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// redis-cell's.
    Cell,
    /// throttlecrab's.
    Crab,
}

impl Dialect {
    /// The burst beyond what is given as the largest one, in units.
    const fn beyond_burst(self) -> u64 {
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
pub struct Terms {
    pub dialect: Dialect,
    pub quota: Quota,
}

/// `CL.THROTTLE key max_burst count_per_period period_seconds [quantity]`, where the burst is
/// `max_burst` plus one unit.
pub fn cl_throttle(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    answer(session, command, reply, Dialect::Cell);
}

/// `THROTTLE key max_burst count period_seconds [quantity]`, where `max_burst` is the burst itself.
pub fn throttle(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    answer(session, command, reply, Dialect::Crab);
}

fn answer(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>, dialect: Dialect) {
    let asked = asked(command, dialect).and_then(|(terms, cost)| {
        session.ask(&terms, command.arg(1), cost, reply.out).map_err(refusal)
    });
    if let Err(text) = asked {
        session.decide(reply.out);
        reply.error(text.as_bytes());
    }
}

/// The terms and the cost.
#[inline]
fn asked(command: &Command<'_>, dialect: Dialect) -> Result<(Terms, u64), &'static str> {
    let max_burst = at_least(0, command.arg(2), "ERR max_burst must be 0 or more")?;
    let count = at_least(1, command.arg(3), "ERR count per period must be 1 or more")?;
    let period = at_least(1, command.arg(4), "ERR period must be 1 second or more")?;
    let cost = match command.len() {
        ..=5 => 1,
        _ => at_least(0, command.arg(5), "ERR quantity must be 0 or more")?,
    };
    let quota = Quota::new(count, Duration::from_secs(period));
    // Each is at most i64::MAX, so the sum fits.
    let quota = quota.burst(max_burst + dialect.beyond_burst());
    Ok((Terms { dialect, quota }, cost))
}

fn at_least(least: i64, text: &[u8], otherwise: &'static str) -> Result<u64, &'static str> {
    let value = integer_of(text).ok_or("ERR value is not an integer or out of range")?;
    if value < least {
        return Err(otherwise);
    }
    u64::try_from(value).map_err(|_| otherwise)
}

/// What is wrong with a check.
pub fn refusal(error: CheckError) -> &'static str {
    match error {
        CheckError::Key => "ERR the key must be 1 to 1024 bytes",
        CheckError::UnknownLimit => "ERR no such limit",
        CheckError::Quota(QuotaError::ZeroBurst) => "ERR max_burst must be 1 or more",
        CheckError::Quota(QuotaError::RateTooHigh) => {
            "ERR the rate must be at most 1000000000 per second"
        }
        CheckError::Quota(QuotaError::PeriodTooLong) => "ERR the period is too long",
        CheckError::Quota(_) => "ERR the burst takes too long to refill at this rate",
    }
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
