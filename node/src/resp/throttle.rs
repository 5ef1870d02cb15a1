//! `CL.THROTTLE` and `THROTTLE`: two spellings of one check, under a quota given with it.

use std::time::Duration;

use tidegate_engine::{Decision, Quota, QuotaError};

use super::command::{Command, integer_of};
use super::reply::Reply;
use super::session::Session;
use crate::service::CheckError;
use crate::units::seconds_up;

/// `CL.THROTTLE key max_burst count_per_period period_seconds [quantity]`, where the burst is
/// `max_burst` plus one unit.
pub fn cl_throttle(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    answer(session, command, reply, 1, |decision| {
        [
            i64::from(!decision.is_allowed()),
            integer(decision.limit()),
            integer(decision.remaining()),
            if decision.is_allowed() { -1 } else { retry_seconds(decision) },
            seconds(decision.reset_after()),
        ]
    });
}

/// `THROTTLE key max_burst count period_seconds [quantity]`, where `max_burst` is the burst itself.
pub fn throttle(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    answer(session, command, reply, 0, |decision| {
        [
            i64::from(decision.is_allowed()),
            integer(decision.limit()),
            integer(decision.remaining()),
            seconds(decision.reset_after()),
            retry_seconds(decision),
        ]
    });
}

fn answer(
    session: &mut Session,
    command: &Command<'_>,
    reply: &mut Reply<'_>,
    beyond_burst: u64,
    figures: impl FnOnce(&Decision) -> [i64; 5],
) {
    let decision = asked(command, beyond_burst)
        .and_then(|asked| session.check(&asked.quota, command.arg(1), asked.cost).map_err(refusal));
    match decision {
        Ok(decision) => reply.integers(figures(&decision)),
        Err(text) => reply.error(text.as_bytes()),
    }
}

struct Asked {
    quota: Quota,
    cost: u64,
}

fn asked(command: &Command<'_>, beyond_burst: u64) -> Result<Asked, &'static str> {
    let max_burst = at_least(0, command.arg(2), "ERR max_burst must be 0 or more")?;
    let count = at_least(1, command.arg(3), "ERR count per period must be 1 or more")?;
    let period = at_least(1, command.arg(4), "ERR period must be 1 second or more")?;
    let cost = match command.len() {
        ..=5 => 1,
        _ => at_least(0, command.arg(5), "ERR quantity must be 0 or more")?,
    };
    // Each is at most i64::MAX, so the sum fits.
    let quota = Quota::new(count, Duration::from_secs(period)).burst(max_burst + beyond_burst);
    Ok(Asked { quota, cost })
}

fn at_least(least: i64, text: &[u8], otherwise: &'static str) -> Result<u64, &'static str> {
    let value = integer_of(text).ok_or("ERR value is not an integer or out of range")?;
    if value < least {
        return Err(otherwise);
    }
    u64::try_from(value).map_err(|_| otherwise)
}

fn refusal(error: CheckError) -> &'static str {
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
