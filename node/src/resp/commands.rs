//! The table of commands, for dispatch, arity and `COMMAND`.

use super::command::Command;
use super::errors::{unknown_command, unknown_subcommand, wrong_arity};
use super::reply::Reply;
use super::session::Session;
use super::{server, throttle};

/// One command.
pub struct Spec {
    /// In lower case.
    pub name: &'static str,
    /// The fewest arguments, the name included.
    pub least: usize,
    /// The most arguments, the name included.
    pub most: usize,
    /// The position of the key; 0 without one.
    pub key: i64,
    /// The flags in `COMMAND`.
    pub flags: &'static [&'static str],
    pub run: fn(&mut Session, &Command<'_>, &mut Reply<'_>),
}

impl Spec {
    /// The arity in `COMMAND`: negative when it is a minimum.
    pub fn arity(&self) -> i64 {
        let least = i64::try_from(self.least).unwrap_or(i64::MAX);
        if self.least == self.most { least } else { -least }
    }
}

impl Session {
    /// Runs one command and appends its reply.
    pub fn run(&mut self, command: &Command<'_>, out: &mut Vec<u8>) {
        let mut reply = Reply { out, version: self.version };
        if command.len() == 0 {
            return;
        }
        self.count_command();
        match find(command.arg(0)) {
            None => {
                unknown_command(command, &mut reply);
                self.closing = is_http(command.arg(0));
            }
            Some(spec) if !(spec.least..=spec.most).contains(&command.len()) => {
                wrong_arity(spec.name, None, &mut reply);
            }
            Some(spec) => (spec.run)(self, command, &mut reply),
        }
    }
}

/// Whether this is a line of an HTTP request. A web page can make a browser send one to any
/// address, with commands of the page's choice in its body: the connection ends before them.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// The command of this name, in any case.
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

const ANY: usize = usize::MAX;

/// The most frequent first.
pub static TABLE: [Spec; 12] = [
    Spec {
        name: "cl.throttle",
        least: 5,
        most: 6,
        key: 1,
        flags: &["write", "fast"],
        run: throttle::cl_throttle,
    },
    Spec {
        name: "throttle",
        least: 5,
        most: 6,
        key: 1,
        flags: &["write", "fast"],
        run: throttle::throttle,
    },
    Spec { name: "ping", least: 1, most: 2, key: 0, flags: &["fast"], run: server::ping },
    Spec { name: "echo", least: 2, most: 2, key: 0, flags: &["fast"], run: server::echo },
    Spec {
        name: "hello",
        least: 1,
        most: ANY,
        key: 0,
        flags: &["noscript", "fast", "no_auth"],
        run: server::hello,
    },
    Spec { name: "client", least: 2, most: ANY, key: 0, flags: &["noscript"], run: server::client },
    Spec { name: "command", least: 1, most: ANY, key: 0, flags: &[], run: command },
    Spec { name: "select", least: 2, most: 2, key: 0, flags: &["fast"], run: server::select },
    Spec { name: "info", least: 1, most: ANY, key: 0, flags: &[], run: server::info },
    Spec {
        name: "auth",
        least: 2,
        most: 3,
        key: 0,
        flags: &["noscript", "fast", "no_auth"],
        run: server::auth,
    },
    Spec {
        name: "quit",
        least: 1,
        most: ANY,
        key: 0,
        flags: &["noscript", "fast", "no_auth"],
        run: server::quit,
    },
    Spec {
        name: "reset",
        least: 1,
        most: 1,
        key: 0,
        flags: &["noscript", "fast", "no_auth"],
        run: server::reset,
    },
];

/// `COMMAND [COUNT | DOCS | LIST | INFO [name]...]`
fn command(_: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    let asked = command.arg(1);
    let is = |name: &str| asked.eq_ignore_ascii_case(name.as_bytes());
    if command.len() == 1 {
        describe_all(reply);
    } else if is("count") {
        reply.count(TABLE.len());
    } else if is("docs") {
        // Without documentation clients use their own.
        reply.map(0);
    } else if is("list") {
        reply.array(TABLE.len());
        for spec in &TABLE {
            reply.bulk(spec.name.as_bytes());
        }
    } else if is("info") && command.len() == 2 {
        describe_all(reply);
    } else if is("info") {
        reply.array(command.len() - 2);
        for name in command.args_from(2) {
            match find(name) {
                Some(spec) => describe(spec, reply),
                None => reply.null(),
            }
        }
    } else {
        unknown_subcommand(asked, reply);
    }
}

fn describe_all(reply: &mut Reply<'_>) {
    reply.array(TABLE.len());
    for spec in &TABLE {
        describe(spec, reply);
    }
}

/// Name, arity, flags, then the first key, the last and the step between them.
fn describe(spec: &Spec, reply: &mut Reply<'_>) {
    reply.array(6);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity());
    reply.set(spec.flags.len());
    for flag in spec.flags {
        reply.simple(flag);
    }
    for place in [spec.key, spec.key, spec.key.min(1)] {
        reply.integer(place);
    }
}
