//! `CL.THROTTLE` and `THROTTLE`: two spellings of one check, under a quota given with it.

use std::time::Duration;

use tidegate_engine::{Quota, QuotaError};

use super::checks::{BatchTerms, Checks, Dialect, Spelled};
use super::command::{Command, integer_of};
use super::reply::Reply;
use super::session::{Replies, Session};
use super::spelling::Spelling;
use crate::service::{CheckError, LimitSelector};

impl Session {
    /// Asks for the check at the front of `input`, if it is spelled as the last one: the length of
    /// its command in bytes. `None` where it is not, or something else than a key matters.
    #[inline]
    pub fn ask_again(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let is_plain = self.is_let_in && self.queue.is_none() && self.replies == Replies::On;
        let last = self.checks.as_ref().and_then(|checks| checks.last.as_ref());
        let Spelled { spelling, terms, cost, command } = last.filter(|_| is_plain)?;
        let (key, length) = spelling.key(input)?;
        let (terms, cost, command) = (*terms, *cost, *command);
        self.ask(&terms, key, cost, out).ok()?;
        self.count_command();
        self.last = command;
        Some(length)
    }

    /// Asks for a check; it is decided, and answered, by [`Session::decide`] at the latest.
    ///
    /// # Errors
    /// When the key is out of range: there will be no answer.
    pub fn ask(
        &mut self,
        terms: &BatchTerms,
        key: &[u8],
        cost: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), CheckError> {
        let key = self.service().key(key)?;
        if !self.checks.as_deref().is_some_and(|checks| checks.take(terms)) {
            self.decide(out);
        }
        let checks = self.checks.get_or_insert_default();
        checks.terms = Some(*terms);
        checks.waiting.push((key, cost));
        Ok(())
    }

    /// Remembers how a check was spelled that has just been asked for.
    fn remember(&mut self, command: &Command<'_>, (terms, cost): (BatchTerms, u64)) {
        let last = self.last;
        if let Some(checks) = &mut self.checks {
            let spelling = Spelling::of(command);
            checks.last = spelling.map(|spelling| Spelled { spelling, terms, cost, command: last });
        }
    }

    /// Decides the checks that wait, and appends the replies to them.
    pub fn decide(&mut self, out: &mut Vec<u8>) {
        let Some(checks) = &mut self.checks else { return };
        let Checks { terms, waiting, decisions, .. } = &mut **checks;
        let Some(BatchTerms { dialect, quota }) = terms else { return };
        if waiting.is_empty() {
            return;
        }
        let (service, meter) = (self.server.service(), self.server.meter());
        let mut reply = Reply::new(out, self.version);
        match service.check_many(LimitSelector::Inline(quota), waiting, meter, decisions) {
            Ok(_) => {
                for decision in decisions {
                    reply.integers(dialect.figures(decision));
                }
            }
            Err(error) => {
                for _ in &*waiting {
                    reply.error(refusal(error).as_bytes());
                }
            }
        }
        waiting.clear();
        self.count_errors(&reply);
    }
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
        session.ask(&terms, command.arg(1), cost, reply.out).map_err(refusal)?;
        session.remember(command, (terms, cost));
        Ok(())
    });
    if let Err(text) = asked {
        session.decide(reply.out);
        reply.error(text.as_bytes());
    }
}

/// The terms and the cost.
#[inline]
fn asked(command: &Command<'_>, dialect: Dialect) -> Result<(BatchTerms, u64), &'static str> {
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
    Ok((BatchTerms { dialect, quota }, cost))
}

fn at_least(least: i64, text: &[u8], otherwise: &'static str) -> Result<u64, &'static str> {
    let value = integer_of(text).ok_or("ERR value is not an integer or out of range")?;
    if value < least {
        return Err(otherwise);
    }
    u64::try_from(value).map_err(|_| otherwise)
}

/// What is wrong with a check.
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
