//! Transactions: what follows `MULTI` is queued, and run in one piece by `EXEC`.
//!
//! No command of the same connection comes between those of a transaction. Checks of other clients
//! may, on other threads, and a denial undoes nothing: it is an answer.

use super::command::Command;
use super::queue::{Full, Queue};
use super::reply::Reply;
use super::session::Session;
use super::spec::Spec;
use crate::config::bounds::TransactionBounds;
use crate::front::deadline::NOTICED_LATE;
use crate::telemetry::errors::RespError;
use crate::telemetry::log_throttle::SharedLogThrottle;

/// The replies to the commands of one transaction, in bytes, beyond which no further one is run.
const MAX_EXEC_REPLY_BYTES: usize = 1024 * 1024;

/// The lines of the log about transactions that are waited for no longer.
static EXPIRED: SharedLogThrottle = SharedLogThrottle::new("transactions that were aborted");

impl Session {
    /// [`Session::expire_transaction`] of a client which is never waited for, as it sends without
    /// pause what is not queued.
    pub fn expire_late_transaction(&mut self) {
        let deadline = self.transaction_deadline();
        if deadline.is_some_and(|at| at.elapsed() >= NOTICED_LATE) {
            self.expire_transaction();
        }
    }

    /// Aborts the open transaction, whose next command took too long to come, unless that is put
    /// off.
    pub fn expire_transaction(&mut self) {
        if !self.queue.as_mut().is_some_and(|queue| queue.has_expired()) {
            return;
        }
        self.abort_transaction();
        self.service().metrics().count_expired_transaction();
        if let Some(left_out) = EXPIRED.admit() {
            let problem = "a transaction is aborted: its next command took too long to come";
            tracing::warn!(frontend = "resp", left_out, "{problem}");
        }
    }
}

pub fn multi(session: &mut Session, _: &Command<'_>, reply: &mut Reply<'_>) {
    if session.queue.is_some() {
        return reply.error(b"ERR MULTI calls can not be nested");
    }
    session.queue = Some(Box::new(session.server.queue()));
    reply.ok();
}

pub fn exec(session: &mut Session, _: &Command<'_>, reply: &mut Reply<'_>) {
    let Some(queue) = session.queue.take() else {
        return reply.error(b"ERR EXEC without MULTI");
    };
    if queue.is_aborted() {
        return reply.error(b"EXECABORT Transaction discarded because of previous errors.");
    }
    reply.array(queue.len());
    let most = reply.out.len() + MAX_EXEC_REPLY_BYTES;
    let mut is_full = false;
    for command in queue.commands() {
        if reply.out.len() < most {
            session.answer(&command, reply.out);
            continue;
        }
        session.decide(reply.out);
        // The reason once: there may be thousands of them.
        if std::mem::replace(&mut is_full, true) {
            reply.error(b"ERR not run");
        } else {
            let problem = format!(
                "ERR not run: the replies of the transaction exceed {MAX_EXEC_REPLY_BYTES} bytes"
            );
            reply.error(problem.as_bytes());
        }
    }
    session.decide(reply.out);
}

pub fn discard(session: &mut Session, _: &Command<'_>, reply: &mut Reply<'_>) {
    match session.queue.take() {
        Some(_) => reply.ok(),
        None => reply.error(b"ERR DISCARD without MULTI"),
    }
}

/// Keys hold no values that could be compared, so a promise to watch one could not be kept.
pub fn watch(session: &mut Session, _: &Command<'_>, reply: &mut Reply<'_>) {
    reply.error(match session.queue {
        Some(_) => b"ERR WATCH inside MULTI is not allowed",
        None => b"ERR WATCH is not supported: there are no values to watch",
    });
}

/// Nothing is ever watched.
pub fn unwatch(_: &mut Session, _: &Command<'_>, reply: &mut Reply<'_>) {
    reply.ok();
}

/// Queues a well-formed command of an open transaction. False without room for it in all
/// transactions together.
pub fn queue(queue: &mut Queue, spec: &Spec, command: &Command<'_>, reply: &mut Reply<'_>) -> bool {
    let pushed = queue.push(command);
    match pushed {
        Ok(()) => reply.simple("QUEUED"),
        Err(Full::Transaction) => {
            let TransactionBounds { commands, bytes } = queue.bounds();
            let problem = format!(
                "ERR '{}' is not queued: a transaction takes at most {commands} commands and \
                 {bytes} bytes",
                spec.name
            );
            reply.error(problem.as_bytes());
        }
        Err(Full::Node) => {
            let problem = b"ERR too many commands are queued in all transactions together";
            reply.error_of(RespError::NoRoom, problem);
        }
    }
    pushed != Err(Full::Node)
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
