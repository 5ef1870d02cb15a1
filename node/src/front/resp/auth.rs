//! `AUTH`: there is one user, with a password where one is configured.

use super::command::Command;
use super::reply::Reply;
use super::session::Session;
use crate::telemetry::errors::RespError;

/// The error that a client is answered with.
pub type Problem = (RespError, &'static [u8]);

/// The only user.
const DEFAULT_USER: &[u8] = b"default";

/// The wrong passwords of a connection, after which it is closed.
const MAX_GUESSES: u32 = 10;

/// The error for commands of clients that have not given the password.
pub const REQUIRED: &[u8] = b"NOAUTH Authentication required.";

/// `AUTH [user] password`
pub fn auth(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    let last = command.arg(command.len() - 1);
    let user = if command.len() == 2 { DEFAULT_USER } else { command.arg(1) };
    match log_in(session, user, last) {
        Ok(()) => reply.ok(),
        Err((kind, text)) => reply.error_of(kind, text),
    }
}

/// Lets a client in that gives the password. Without a password no client is let in that way: a
/// client that gives a password believes that others are kept out.
///
/// # Errors
/// The error to answer with; nothing changes.
pub fn log_in(session: &mut Session, user: &[u8], given: &[u8]) -> Result<(), Problem> {
    match session.server.password() {
        None if user == DEFAULT_USER => Err(NOT_CONFIGURED),
        None => Err(WRONG),
        Some(password) if user == DEFAULT_USER && password.is(given) => {
            session.is_let_in = true;
            Ok(())
        }
        Some(_) => {
            session.guesses += 1;
            session.closing |= session.guesses >= MAX_GUESSES;
            session.server.count_guess(session.client.peer());
            Err(WRONG)
        }
    }
}

const WRONG: Problem =
    (RespError::WrongPassword, b"WRONGPASS invalid username-password pair or user is disabled.");
const NOT_CONFIGURED: Problem = (
    RespError::InvalidRequest,
    b"ERR AUTH <password> called without any password configured for the \
    default user. Are you sure your configuration is correct?",
);

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
