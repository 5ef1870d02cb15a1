//! Checks of one connection that are decided together.
//!
//! Checks that follow each other under one quota share a reading of the clock, and wait for memory
//! at the same time. The decisions are those of the same checks one after another, and so are the
//! replies: before anything else is answered, what waits is decided.

use tidegate_engine::{Decision, KeyHash};

use super::reply::Reply;
use super::session::Session;
use super::throttle::{Terms, refusal};
use crate::service::{CheckError, Rule};

/// The most checks that are decided together: enough to wait for memory together, and so few that
/// their replies are a small part of a batch's.
const MAX_TOGETHER: usize = 128;

/// Checks that wait to be decided, all on the same terms.
#[derive(Debug, Default)]
pub struct Checks {
    terms: Option<Terms>,
    /// Keys and costs.
    waiting: Vec<(KeyHash, u64)>,
    decisions: Vec<Decision>,
}

impl Session {
    /// Asks for a check; it is decided, and answered, by [`Session::decide`] at the latest.
    ///
    /// # Errors
    /// When the key is out of range: there will be no answer.
    pub fn ask(
        &mut self,
        terms: &Terms,
        key: &[u8],
        cost: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), CheckError> {
        let key = self.service().key(key)?;
        let is_next = |checks: &Checks| {
            checks.waiting.len() < MAX_TOGETHER && checks.terms.as_ref() == Some(terms)
        };
        if !self.checks.as_deref().is_some_and(is_next) {
            self.decide(out);
        }
        let checks = self.checks.get_or_insert_default();
        checks.terms = Some(*terms);
        checks.waiting.push((key, cost));
        Ok(())
    }

    /// Decides the checks that wait, and appends the replies to them.
    pub fn decide(&mut self, out: &mut Vec<u8>) {
        let Some(checks) = &mut self.checks else { return };
        let Checks { terms, waiting, decisions } = &mut **checks;
        let Some(Terms { dialect, quota }) = terms else { return };
        if waiting.is_empty() {
            return;
        }
        let (service, meter) = (self.server.service(), self.server.meter());
        let mut reply = Reply { out, version: self.version };
        match service.check_many(Rule::Inline(quota), waiting, meter, decisions) {
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
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
