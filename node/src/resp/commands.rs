//! The table of commands, for dispatch, arity and `COMMAND`.

use super::command::Command;
use super::errors::{unknown_command, unknown_subcommand, wrong_arity};
use super::reply::Reply;
use super::session::Session;
use super::spec::{ANY, Spec};
use super::{server, throttle, transaction};

impl Session {
    /// Runs one command, or queues it in an open transaction, and appends its reply.
    pub fn run(&mut self, command: &Command<'_>, out: &mut Vec<u8>) {
        if command.len() == 0 {
            return;
        }
        self.count_command();
        self.answer(command, out);
    }

    /// [`Session::run`] for a command that has been counted.
    pub fn answer(&mut self, command: &Command<'_>, out: &mut Vec<u8>) {
        let mut reply = Reply { out, version: self.version };
        let Some(spec) = find(command.arg(0)) else {
            unknown_command(command, &mut reply);
            self.closing = is_http(command.arg(0));
            return self.abort_transaction();
        };
        if !spec.takes(command.len()) {
            wrong_arity(spec.name, None, &mut reply);
            return self.abort_transaction();
        }
        match &mut self.queue {
            Some(queue) if !spec.at_once => transaction::queue(queue, spec, command, &mut reply),
            _ => (spec.run)(self, command, &mut reply),
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

const FAST: &[&str] = &["fast"];
const NOSCRIPT: &[&str] = &["noscript"];
const NOSCRIPT_FAST: &[&str] = &["noscript", "fast"];
const NO_AUTH: &[&str] = &["noscript", "fast", "no_auth"];
const CHECK: &[&str] = &["write", "fast"];

/// The most frequent first.
pub static TABLE: [Spec; 17] = [
    Spec::new("cl.throttle", (5, 6), throttle::cl_throttle).flags(CHECK).with_key(),
    Spec::new("throttle", (5, 6), throttle::throttle).flags(CHECK).with_key(),
    Spec::new("multi", (1, 1), transaction::multi).flags(NOSCRIPT_FAST).at_once(),
    Spec::new("exec", (1, 1), transaction::exec).flags(NOSCRIPT).at_once(),
    Spec::new("ping", (1, 2), server::ping).flags(FAST),
    Spec::new("echo", (2, 2), server::echo).flags(FAST),
    Spec::new("discard", (1, 1), transaction::discard).flags(NOSCRIPT_FAST).at_once(),
    Spec::new("watch", (2, ANY), transaction::watch).flags(NOSCRIPT_FAST).at_once(),
    Spec::new("unwatch", (1, 1), transaction::unwatch).flags(NOSCRIPT_FAST),
    Spec::new("hello", (1, ANY), server::hello).flags(NO_AUTH),
    Spec::new("client", (2, ANY), server::client).flags(NOSCRIPT),
    Spec::new("command", (1, ANY), command),
    Spec::new("select", (2, 2), server::select).flags(FAST),
    Spec::new("info", (1, ANY), server::info),
    Spec::new("auth", (2, 3), server::auth).flags(NO_AUTH),
    Spec::new("quit", (1, ANY), server::quit).flags(NO_AUTH).at_once(),
    Spec::new("reset", (1, 1), server::reset).flags(NO_AUTH).at_once(),
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
