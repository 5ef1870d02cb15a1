//! `CLIENT`: what a connection is called, and which there are.

use super::command::{Command, integer_of};
use super::reply::Reply;
use super::session::{Replies, Session};
use super::spec::{ANY, Subcommand};

/// The longest name of a client, of its library or of that one's version, in bytes.
const MAX_NAME_BYTES: usize = 256;
pub const BAD_CLIENT_NAME: &[u8] =
    b"ERR Client names are at most 256 bytes without spaces, newlines or special characters";

/// The name of a command by its number.
pub type NameOf = fn(u8) -> Option<&'static str>;

pub const SUBCOMMANDS: [Subcommand; 9] = [
    ("setinfo", 4, 4),
    ("setname", 3, 3),
    ("getname", 2, 2),
    ("id", 2, 2),
    ("info", 2, 2),
    ("list", 2, ANY),
    ("reply", 3, 3),
    ("no-evict", 3, 3),
    ("no-touch", 3, 3),
];

pub fn run(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>, name_of: NameOf) {
    match command.arg(1).to_ascii_lowercase().as_slice() {
        b"setinfo" => set_info(session, command, reply),
        b"setname" => match set_name(session, command.arg(2)) {
            Ok(()) => reply.ok(),
            Err(problem) => reply.error(problem),
        },
        b"getname" => match session.client.names().client.as_slice() {
            [] => reply.null(),
            name => reply.bulk(name),
        },
        b"id" => reply.integer(session.client.id),
        b"info" => {
            session.note_activity();
            let mut line = Vec::new();
            session.client.describe(session.service().now(), name_of, &mut line);
            reply.verbatim(&line);
        }
        b"list" => list(session, command, reply, name_of),
        b"reply" => set_replies(session, command.arg(2), reply),
        // No connection is closed to make room, and no key is older for being looked at.
        _ if is_switch(command.arg(2)) => reply.ok(),
        _ => reply.error(SYNTAX),
    }
}

/// Whether this is `CLIENT REPLY`, which a transaction could not be answered after.
pub fn changes_replies(command: &Command<'_>) -> bool {
    command.arg(0).eq_ignore_ascii_case(b"client") && command.arg(1).eq_ignore_ascii_case(b"reply")
}

const SYNTAX: &[u8] = b"ERR syntax error";

fn is_switch(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"on") || text.eq_ignore_ascii_case(b"off")
}

/// Names the client.
///
/// # Errors
/// The error to answer with; the name stays as it was.
pub fn set_name(session: &Session, name: &[u8]) -> Result<(), &'static [u8]> {
    if !is_name(name) {
        return Err(BAD_CLIENT_NAME);
    }
    session.client.names().client = name.to_vec();
    Ok(())
}

/// Whether a client may be called that.
pub fn is_name(name: &[u8]) -> bool {
    name.len() <= MAX_NAME_BYTES && name.iter().all(u8::is_ascii_graphic)
}

fn set_info(session: &Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    let (attribute, value) = (command.arg(2), command.arg(3));
    let mut names = session.client.names();
    let (name, of) = if attribute.eq_ignore_ascii_case(b"lib-name") {
        ("lib-name", &mut names.library)
    } else if attribute.eq_ignore_ascii_case(b"lib-ver") {
        ("lib-ver", &mut names.library_version)
    } else {
        return reply.error(b"ERR Unrecognized option for CLIENT SETINFO");
    };
    if is_name(value) {
        *of = value.to_vec();
        reply.ok();
    } else {
        let problem = format!("ERR {name} cannot contain spaces, newlines or special characters.");
        reply.error(problem.as_bytes());
    }
}

/// `CLIENT LIST [TYPE type] [ID id...]`
fn list(session: &Session, command: &Command<'_>, reply: &mut Reply<'_>, name_of: NameOf) {
    let (mut is_other_type, mut ids) = (false, None);
    let mut at = 2;
    while at < command.len() {
        let (option, value) = (command.arg(at), command.arg(at + 1));
        if option.eq_ignore_ascii_case(b"type") && at + 1 < command.len() {
            is_other_type = match value.to_ascii_lowercase().as_slice() {
                b"normal" => false,
                b"master" | b"replica" | b"slave" | b"pubsub" => true,
                _ => return reply.error(b"ERR Unknown client type"),
            };
            at += 2;
        } else if option.eq_ignore_ascii_case(b"id") && at + 1 < command.len() {
            let numbers: Option<Vec<i64>> =
                command.args_from(at + 1).map(|id| integer_of(id).filter(|id| *id > 0)).collect();
            let Some(numbers) = numbers else { return reply.error(b"ERR Invalid client ID") };
            ids = Some(numbers);
            at = command.len();
        } else {
            return reply.error(SYNTAX);
        }
    }
    session.note_activity();
    let ids = if is_other_type { Some(&[][..]) } else { ids.as_deref() };
    let clients = session.server.clients();
    reply.verbatim(&clients.list(session.service().now(), name_of, ids));
}

/// `CLIENT REPLY ON | OFF | SKIP`
fn set_replies(session: &mut Session, mode: &[u8], reply: &mut Reply<'_>) {
    if mode.eq_ignore_ascii_case(b"on") {
        session.replies = Replies::On;
        reply.ok();
    } else if mode.eq_ignore_ascii_case(b"off") {
        session.replies = Replies::Off;
    } else if mode.eq_ignore_ascii_case(b"skip") {
        if session.replies != Replies::Off {
            session.replies = Replies::SkipNext;
        }
    } else {
        reply.error(SYNTAX);
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
