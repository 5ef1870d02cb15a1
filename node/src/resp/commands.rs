//! The commands the node knows: one table for dispatch, arity and what `COMMAND` tells.

use super::parser::Command;
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
    /// What `COMMAND` says about it.
    pub flags: &'static [&'static str],
    pub run: fn(&mut Session, &Command<'_>, &mut Reply<'_>),
}

impl Spec {
    /// As `COMMAND` gives it: negative when it is a minimum.
    pub fn arity(&self) -> i64 {
        let least = i64::try_from(self.least).unwrap_or(i64::MAX);
        if self.least == self.most { least } else { -least }
    }
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
    Spec { name: "command", least: 1, most: ANY, key: 0, flags: &[], run: server::command },
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
