//! Commands that Redis clients send to any server: connection set-up and introspection.

use super::command::{Command, integer_of};
use super::errors::{unknown_subcommand, wrong_arity};
use super::reply::{Reply, Version};
use super::session::Session;
use crate::net::MAX_CONNECTIONS;

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
    session.name.clear();
    session.queue = None;
    reply.simple("RESET");
}

pub fn select(_: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    match integer_of(command.arg(1)) {
        Some(0) => reply.ok(),
        Some(_) => reply.error(b"ERR DB index is out of range"),
        None => reply.error(b"ERR value is not an integer or out of range"),
    }
}

/// There is one user, without a password: any password is accepted.
pub fn auth(_: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    match command.len() {
        2 => reply.error(b"ERR AUTH was called, but no password is set for the default user"),
        _ if is_user(command.arg(1)) => reply.ok(),
        _ => reply.error(WRONG_PASSWORD),
    }
}

const WRONG_PASSWORD: &[u8] = b"WRONGPASS invalid username-password pair or user is disabled.";

fn is_user(name: &[u8]) -> bool {
    name == b"default"
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
    let mut name = None;
    let mut at = 2;
    while at < command.len() {
        let option = command.arg(at);
        let left = command.len() - at - 1;
        if option.eq_ignore_ascii_case(b"AUTH") && left >= 2 {
            if !is_user(command.arg(at + 1)) {
                return reply.error(WRONG_PASSWORD);
            }
            at += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") && left >= 1 {
            if !is_client_name(command.arg(at + 1)) {
                return reply.error(BAD_CLIENT_NAME);
            }
            name = Some(command.arg(at + 1));
            at += 2;
        } else {
            return reply.error(b"ERR Syntax error in HELLO");
        }
    }
    session.version = version;
    if let Some(name) = name {
        session.name = name.to_vec();
    }
    reply.version = version;
    greet(session, reply);
}

fn greet(session: &Session, reply: &mut Reply<'_>) {
    reply.map(7);
    for (field, value) in [("server", "tidegate"), ("version", env!("CARGO_PKG_VERSION"))] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (field, value) in [("proto", session.version.number()), ("id", session.id)] {
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

pub fn client(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    let asked = command.arg(1);
    let is = |name: &str| asked.eq_ignore_ascii_case(name.as_bytes());
    let arity = |name, length, reply: &mut Reply<'_>| {
        let right = command.len() == length;
        if !right {
            wrong_arity("client", Some(name), reply);
        }
        right
    };
    if is("setinfo") {
        if arity("setinfo", 4, reply) {
            set_info(command.arg(2), reply);
        }
    } else if is("setname") {
        if arity("setname", 3, reply) {
            set_name(session, command.arg(2), reply);
        }
    } else if is("getname") {
        if arity("getname", 2, reply) {
            match session.name.as_slice() {
                [] => reply.null(),
                name => reply.bulk(name),
            }
        }
    } else if is("id") {
        if arity("id", 2, reply) {
            reply.integer(session.id);
        }
    } else {
        unknown_subcommand(asked, reply);
    }
}

/// The name and version of a client's library are accepted and ignored.
fn set_info(attribute: &[u8], reply: &mut Reply<'_>) {
    let known = [&b"lib-name"[..], b"lib-ver"];
    if known.iter().any(|name| attribute.eq_ignore_ascii_case(name)) {
        reply.ok();
    } else {
        reply.error(b"ERR Unrecognized option for CLIENT SETINFO");
    }
}

fn set_name(session: &mut Session, name: &[u8], reply: &mut Reply<'_>) {
    if is_client_name(name) {
        session.name = name.to_vec();
        reply.ok();
    } else {
        reply.error(BAD_CLIENT_NAME);
    }
}

const BAD_CLIENT_NAME: &[u8] =
    b"ERR Client names are at most 256 bytes without spaces, newlines or special characters";
/// The longest client name, in bytes.
const MAX_CLIENT_NAME: usize = 256;

fn is_client_name(name: &[u8]) -> bool {
    name.len() <= MAX_CLIENT_NAME && name.iter().all(u8::is_ascii_graphic)
}

/// `INFO [section]...`: the sections of these names, or all of them.
pub fn info(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    let wanted = |section: &str| {
        let all = ["all", "everything", "default", section];
        command.len() == 1
            || command
                .args_from(1)
                .any(|name| all.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes())))
    };
    let mut text = String::new();
    for (section, title, lines) in [
        ("server", "Server", server_lines(session)),
        ("clients", "Clients", client_lines(session)),
        ("stats", "Stats", stats_lines(session)),
    ] {
        if wanted(section) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str("# ");
            text.push_str(title);
            text.push_str("\r\n");
            for (name, value) in lines {
                text.push_str(name);
                text.push(':');
                text.push_str(&value);
                text.push_str("\r\n");
            }
        }
    }
    reply.verbatim(&text);
}

/// Some clients require this field to choose their commands. Redis of this version supports both
/// protocols and `CLIENT SETINFO`, as this server does.
const REDIS_VERSION: &str = "7.4.0";

type Lines = Vec<(&'static str, String)>;

fn server_lines(session: &Session) -> Lines {
    vec![
        ("tidegate_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("redis_version", REDIS_VERSION.to_owned()),
        ("redis_mode", "standalone".to_owned()),
        ("process_id", std::process::id().to_string()),
        ("tcp_port", session.server.port().to_string()),
        ("uptime_in_seconds", session.server.uptime().as_secs().to_string()),
    ]
}

fn client_lines(session: &Session) -> Lines {
    let connected = session.service().metrics().resp_connections();
    vec![("connected_clients", connected.to_string()), ("maxclients", MAX_CONNECTIONS.to_string())]
}

fn stats_lines(session: &Session) -> Lines {
    let metrics = session.service().metrics();
    let (allowed, denied) = metrics.resp_decisions();
    vec![
        ("total_connections_received", metrics.resp_accepted().to_string()),
        ("total_commands_processed", session.server.commands().to_string()),
        ("rejected_connections", metrics.resp_refused().to_string()),
        ("allowed_decisions", allowed.to_string()),
        ("denied_decisions", denied.to_string()),
    ]
}
