//! Commands that Redis clients send to any server to set up their connection, and `TIME`.

use jiff::Timestamp;

use super::auth::{Problem, log_in};
use super::client::{BAD_CLIENT_NAME, is_name, set_name};
use super::command::{Command, integer_of};
use super::reply::{Reply, Version};
use super::session::{DATABASES, Replies, Session};
use crate::telemetry::errors::RespError;

pub fn ping(_: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    match command.len() {
        1 => reply.simple("PONG"),
        _ => reply.bulk(command.arg(1)),
    }
}

pub fn echo(_: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    reply.bulk(command.arg(1));
}

pub fn quit(session: &mut Session, _: &Command<'_>, reply: &mut Reply<'_>) {
    session.closing = true;
    reply.ok();
}

pub fn reset(session: &mut Session, _: &Command<'_>, reply: &mut Reply<'_>) {
    session.version = Version::default();
    session.db = 0;
    // What is to be skipped is this command's reply.
    if session.replies != Replies::Skip {
        session.replies = Replies::default();
    }
    session.queue = None;
    session.is_let_in = session.server.password().is_none();
    session.client.names().client.clear();
    reply.simple("RESET");
}

pub fn select(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    let Some(index) = integer_of(command.arg(1)) else {
        return reply.error(b"ERR value is not an integer or out of range");
    };
    match u8::try_from(index) {
        Ok(index) if index < DATABASES => {
            session.db = index;
            reply.ok();
        }
        _ => reply.error(b"ERR DB index is out of range"),
    }
}

/// The seconds since 1970-01-01T00:00:00Z and the microseconds of the running one.
pub fn time(_: &mut Session, _: &Command<'_>, reply: &mut Reply<'_>) {
    let micros = Timestamp::now().as_microsecond();
    reply.array(2);
    for part in [micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000)] {
        reply.bulk(part.to_string().as_bytes());
    }
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`: all of it takes effect, or nothing.
pub fn hello(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    let version = match (command.len(), integer_of(command.arg(1))) {
        (1, _) => session.version,
        (_, Some(2)) => Version::Resp2,
        (_, Some(3)) => Version::Resp3,
        (_, Some(_)) => return reply.error(b"NOPROTO unsupported protocol version"),
        (_, None) => {
            return reply.error(b"ERR Protocol version is not an integer or out of range");
        }
    };
    let (mut name, mut login) = (None, None);
    let mut at = 2;
    while at < command.len() {
        let option = command.arg(at);
        let left = command.len() - at - 1;
        if option.eq_ignore_ascii_case(b"AUTH") && left >= 2 {
            login = Some((command.arg(at + 1), command.arg(at + 2)));
            at += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") && left >= 1 {
            name = Some(command.arg(at + 1));
            at += 2;
        } else {
            return reply.error(b"ERR Syntax error in HELLO");
        }
    }
    if let Err((kind, text)) = enter(session, login, name) {
        return reply.error_of(kind, text);
    }
    session.version = version;
    reply.version = version;
    greet(session, reply);
}

/// Lets a client in and names it, as far as it asks for that.
fn enter(
    session: &mut Session,
    login: Option<(&[u8], &[u8])>,
    name: Option<&[u8]>,
) -> Result<(), Problem> {
    let bad_name = |text| (RespError::InvalidRequest, text);
    if name.is_some_and(|name| !is_name(name)) {
        return Err(bad_name(BAD_CLIENT_NAME));
    }
    if let Some((user, password)) = login {
        log_in(session, user, password)?;
    }
    if !session.is_let_in {
        let text = b"NOAUTH HELLO must be called with the client already authenticated, otherwise \
            the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
            select the RESP protocol version at the same time";
        return Err((RespError::NoPassword, text));
    }
    name.map_or(Ok(()), |name| set_name(session, name).map_err(bad_name))
}

fn greet(session: &Session, reply: &mut Reply<'_>) {
    reply.map(7);
    for (field, value) in [("server", "tidegate"), ("version", env!("CARGO_PKG_VERSION"))] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (field, value) in [("proto", session.version.number()), ("id", session.client.id)] {
        reply.bulk(field.as_bytes());
        reply.integer(value);
    }
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}
