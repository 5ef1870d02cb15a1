//! `INFO` and `DBSIZE`.

use super::command::Command;
use super::reply::Reply;
use super::session::Session;

/// Some clients require this field to choose their commands. Redis of this version supports both
/// protocols and `CLIENT SETINFO`, as this server does.
const REDIS_VERSION: &str = "7.4.0";

type Lines = Vec<(&'static str, String)>;
/// The title of a section, and what makes its lines.
type Section = (&'static str, fn(&Session) -> Lines);

const SECTIONS: [Section; 7] = [
    ("Server", server_lines),
    ("Clients", client_lines),
    ("Memory", memory_lines),
    ("Persistence", persistence_lines),
    ("Stats", stats_lines),
    ("Replication", replication_lines),
    ("Keyspace", keyspace_lines),
];

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
    for (title, lines) in SECTIONS.iter().filter(|(title, _)| wanted(title)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        text.push_str("# ");
        text.push_str(title);
        text.push_str("\r\n");
        for (name, value) in lines(session) {
            text.push_str(name);
            text.push(':');
            text.push_str(&value);
            text.push_str("\r\n");
        }
    }
    reply.verbatim(text.as_bytes());
}

/// The number of keys in debt, of all limits: databases share them.
pub fn dbsize(session: &mut Session, _: &Command<'_>, reply: &mut Reply<'_>) {
    reply.integer(i64::try_from(session.service().keys()).unwrap_or(i64::MAX));
}

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
    vec![
        ("connected_clients", connected.to_string()),
        ("maxclients", session.server.bounds().max_clients.to_string()),
        // No command waits.
        ("blocked_clients", "0".to_owned()),
    ]
}

fn memory_lines(session: &Session) -> Lines {
    let resident = session.server.resident_bytes().to_string();
    vec![("used_memory", resident.clone()), ("used_memory_rss", resident)]
}

/// Nothing is saved.
fn persistence_lines(_: &Session) -> Lines {
    let fields = ["loading", "rdb_bgsave_in_progress", "aof_rewrite_in_progress"];
    fields.map(|field| (field, "0".to_owned())).into()
}

fn stats_lines(session: &Session) -> Lines {
    let metrics = session.service().metrics();
    let (allowed, denied) = session.server.meter().decisions();
    vec![
        ("total_connections_received", metrics.resp_accepted().to_string()),
        ("total_commands_processed", session.server.commands().to_string()),
        ("rejected_connections", metrics.resp_refused().to_string()),
        ("allowed_decisions", allowed.to_string()),
        ("denied_decisions", denied.to_string()),
    ]
}

/// As clients see it, each node is a server of its own.
fn replication_lines(_: &Session) -> Lines {
    vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]
}

/// Each key is forgotten once its debt has drained.
fn keyspace_lines(session: &Session) -> Lines {
    let keys = session.service().keys();
    vec![("db0", format!("keys={keys},expires={keys},avg_ttl=0"))]
}

#[cfg(test)]
#[path = "info_tests.rs"]
mod tests;
