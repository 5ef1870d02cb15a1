//! `CONFIG GET`: what clients ask of a server before they use it. Nothing can be set.

use super::command::{Command, MAX_ARG_BYTES};
use super::reply::Reply;
use super::session::{DATABASES, Session};
use super::spec::{ANY, Subcommand};
use crate::front::units::seconds_up;

/// The longest pattern, in bytes: longer than any name.
const MAX_PATTERN_BYTES: usize = 64;

pub const SUBCOMMANDS: [Subcommand; 1] = [("get", 3, ANY)];

/// `CONFIG GET pattern...`
pub fn config(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    let asked = |name: &str| command.args_from(2).any(|pattern| matches(pattern, name.as_bytes()));
    let found: Vec<_> = parameters(session).into_iter().filter(|(name, _)| asked(name)).collect();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

fn parameters(session: &Session) -> [(&'static str, String); 9] {
    let bounds = session.server.bounds();
    [
        ("appendonly", "no".to_owned()),
        ("databases", DATABASES.to_string()),
        ("maxclients", bounds.max_clients.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", session.server.port().to_string()),
        ("proto-max-bulk-len", MAX_ARG_BYTES.to_string()),
        ("save", String::new()),
        ("timeout", bounds.idle_timeout.map_or(0, seconds_up).to_string()),
    ]
}

/// Whether a name matches a pattern, in which `*` stands for any bytes and `?` for one, whatever
/// the case. Takes at most `pattern.len() * name.len()` steps; a long pattern matches nothing.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if pattern.len() > MAX_PATTERN_BYTES {
        return false;
    }
    let (mut at, mut read) = (0, 0);
    // Where the last star stands, and up to where it has taken the name.
    let mut star = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == b'?' || byte.eq_ignore_ascii_case(&name[read]) => {
                (at, read) = (at + 1, read + 1);
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, read) = (place + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_question_marks_stand_for_bytes() {
        let matches = |pattern: &str| matches(pattern.as_bytes(), b"maxmemory");
        for pattern in
            ["maxmemory", "MAXmemory", "*", "max*", "*memory", "m*m*y", "maxm?mory", "**"]
        {
            assert!(matches(pattern), "{pattern}");
        }
        assert!(matches(&"*".repeat(64)));
        for pattern in ["", "?", "max", "memory", "*x", "maxmemory?", "m*q*y", "save"] {
            assert!(!matches(pattern), "{pattern}");
        }
    }

    #[test]
    fn a_long_pattern_matches_nothing() {
        assert!(!matches(&[b'*'; 65], b"save"));
    }
}
