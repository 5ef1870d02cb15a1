//! The table of commands, for dispatch, arity and `COMMAND`.

use super::command::Command;
use super::describe::{Filter, describe};
use super::errors::{unknown_command, unknown_subcommand, wrong_arity, wrong_exec};
use super::parser::{Parser, ProtocolError};
use super::reply::Reply;
use super::session::{Replies, Session};
use super::spec::{ANY, Spec, Subcommand, folded};
use super::{auth, client, info, parameters, server, throttle, transaction};
use crate::telemetry::errors::RespError;
use crate::telemetry::log_throttle::SharedLogThrottle;

/// The lines of the log about commands for which all transactions together leave no room.
static NOT_QUEUED: SharedLogThrottle = SharedLogThrottle::new("transactions that were refused");

impl Session {
    /// Runs one command, or queues it in an open transaction, and appends its reply, unless that is
    /// to a check which waits for others: [`Session::decide`] then appends it. How many bytes were
    /// taken back, as the client wants none: they were work all the same.
    pub fn run(&mut self, command: &Command<'_>, out: &mut Vec<u8>) -> usize {
        if command.len() == 0 {
            return 0;
        }
        self.count_command();
        let found = self.next(command, out);
        let before = out.len();
        self.answer_as(found, command, out);
        if self.replies == Replies::On {
            return 0;
        }
        self.decide(out);
        let made = out.len() - before;
        self.leave_out(before, out);
        made
    }

    /// Runs the command at the front of `input`, if it is there: its length in bytes, and how many
    /// bytes of replies were made and left out.
    ///
    /// # Errors
    /// A violation of the protocol.
    #[inline]
    pub fn run_next(
        &mut self,
        parser: &mut Parser,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<(usize, usize)>, ProtocolError> {
        if parser.is_at_start()
            && let Some(length) = self.ask_again(input, out)
        {
            return Ok(Some((length, 0)));
        }
        parser.is_guarded = !self.is_let_in;
        let next = parser.next(input)?;
        Ok(next.map(|(command, length)| (length, self.run(&command, out))))
    }

    /// Takes back the reply to the command that has just been run, and the only one after `before`.
    fn leave_out(&mut self, before: usize, out: &mut Vec<u8>) {
        out.truncate(before);
        self.replies = match self.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
            replies => replies,
        };
    }

    /// [`Session::run`] for a command that has been counted.
    pub fn answer(&mut self, command: &Command<'_>, out: &mut Vec<u8>) {
        let found = self.next(command, out);
        self.answer_as(found, command, out);
    }

    /// Finds a command. Unless it joins the checks that wait, these are decided and answered first.
    fn next(&mut self, command: &Command<'_>, out: &mut Vec<u8>) -> Option<Found> {
        let found = find(command.arg(0));
        // None waits before a password is given, nor in a transaction, which other commands begin.
        let joins = found.is_some_and(|(_, spec)| spec.is_check && spec.takes(command.len()));
        if !joins {
            self.decide(out);
        }
        found
    }

    fn answer_as(&mut self, found: Option<Found>, command: &Command<'_>, out: &mut Vec<u8>) {
        let mut reply = Reply::new(out, self.version);
        self.answer_with(found, command, &mut reply);
        self.count_errors(&reply);
    }

    fn answer_with(&mut self, found: Option<Found>, command: &Command<'_>, reply: &mut Reply<'_>) {
        let Some((number, spec)) = found else {
            unknown_command(command, reply);
            self.closing = is_http(command.arg(0));
            return self.abort_transaction();
        };
        if !spec.takes(command.len()) {
            if spec.name == "exec" {
                self.queue = None;
                return wrong_exec(reply);
            }
            wrong_arity(spec.name, None, reply);
            return self.abort_transaction();
        }
        if !takes_subcommand(spec, command, reply) {
            return self.abort_transaction();
        }
        self.last = Some(number);
        if !self.is_let_in && !spec.flags.contains(&"no_auth") {
            return reply.error_of(RespError::NoPassword, auth::REQUIRED);
        }
        match &mut self.queue {
            Some(_) if client::changes_replies(command) => {
                reply.error(b"ERR Command not allowed inside a transaction");
                self.abort_transaction();
            }
            Some(queue) if !spec.at_once => {
                if !transaction::queue(queue, spec, command, reply) {
                    self.service().metrics().count_not_queued();
                    if let Some(left_out) = NOT_QUEUED.admit() {
                        let problem = "a transaction is refused: too many commands are queued";
                        tracing::warn!(frontend = "resp", left_out, "{problem}");
                    }
                }
            }
            _ => (spec.run)(self, command, reply),
        }
    }
}

/// Whether the subcommand, where one is needed, exists and takes as many arguments: otherwise
/// appends the error.
fn takes_subcommand(spec: &Spec, command: &Command<'_>, reply: &mut Reply<'_>) -> bool {
    if spec.subcommands.is_empty() || command.len() == 1 {
        return true;
    }
    let asked = command.arg(1);
    let is_it = |(name, ..): &&Subcommand| asked.eq_ignore_ascii_case(name.as_bytes());
    match spec.subcommands.iter().find(is_it) {
        None => unknown_subcommand(asked, reply),
        Some((name, least, most)) if !(*least..=*most).contains(&command.len()) => {
            wrong_arity(spec.name, Some(name), reply);
        }
        Some(_) => return true,
    }
    false
}

/// Whether this is a line of an HTTP request. A web page can make a browser send one to any
/// address, with commands of the page's choice in its body: the connection ends before them.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// The number of a command, and what is known of it.
type Found = (u8, &'static Spec);

/// The command of this name, in any case.
fn find(name: &[u8]) -> Option<Found> {
    let name = folded(name);
    (0..).zip(&TABLE).find(|(_, spec)| spec.folded == name)
}

/// The name of the command of this number.
fn name_of(number: u8) -> Option<&'static str> {
    TABLE.get(usize::from(number)).map(|spec| spec.name)
}

const FAST: &[&str] = &["fast"];
const NOSCRIPT: &[&str] = &["noscript"];
const NOSCRIPT_FAST: &[&str] = &["noscript", "fast"];
const NO_AUTH: &[&str] = &["noscript", "fast", "no_auth"];
const CHECK: &[&str] = &["write", "fast"];

const CONNECTION: &str = "@connection";
const SERVER: &str = "@dangerous";
const TRANSACTION: &str = "@transaction";

/// The most frequent first.
pub static TABLE: [Spec; 20] = [
    Spec::new("cl.throttle", (5, 6), throttle::cl_throttle).check().are("@keyspace", CHECK),
    Spec::new("throttle", (5, 6), throttle::throttle).check().are("@keyspace", CHECK),
    Spec::new("multi", (1, 1), transaction::multi).at_once().are(TRANSACTION, NOSCRIPT_FAST),
    Spec::new("exec", (1, 1), transaction::exec).at_once().are(TRANSACTION, NOSCRIPT),
    Spec::new("ping", (1, 2), server::ping).are(CONNECTION, FAST),
    Spec::new("echo", (2, 2), server::echo).are(CONNECTION, FAST),
    Spec::new("discard", (1, 1), transaction::discard).at_once().are(TRANSACTION, NOSCRIPT_FAST),
    Spec::new("watch", (2, ANY), transaction::watch).at_once().are(TRANSACTION, NOSCRIPT_FAST),
    Spec::new("unwatch", (1, 1), transaction::unwatch).are(TRANSACTION, NOSCRIPT_FAST),
    Spec::new("hello", (1, ANY), server::hello).are(CONNECTION, NO_AUTH),
    Spec::new("client", (2, ANY), client).with(&client::SUBCOMMANDS).are(CONNECTION, NOSCRIPT),
    Spec::new("select", (2, 2), server::select).are(CONNECTION, FAST),
    Spec::new("command", (1, ANY), command).with(&SUBCOMMANDS).are(CONNECTION, &[]),
    Spec::new("info", (1, ANY), info::info).are(SERVER, &[]),
    Spec::new("dbsize", (1, 1), info::dbsize).are("@keyspace", &["readonly", "fast"]),
    Spec::new("time", (1, 1), server::time).are(SERVER, FAST),
    Spec::new("config", (2, ANY), parameters::config)
        .with(&parameters::SUBCOMMANDS)
        .are(SERVER, NOSCRIPT),
    Spec::new("auth", (2, 3), auth::auth).are(CONNECTION, NO_AUTH),
    Spec::new("quit", (1, ANY), server::quit).at_once().are(CONNECTION, NO_AUTH),
    Spec::new("reset", (1, 1), server::reset).at_once().are(CONNECTION, NO_AUTH),
];

fn client(session: &mut Session, command: &Command<'_>, reply: &mut Reply<'_>) {
    client::run(session, command, reply, name_of);
}

/// Those of `COMMAND`.
const SUBCOMMANDS: [Subcommand; 4] =
    [("count", 2, 2), ("docs", 2, ANY), ("info", 2, ANY), ("list", 2, ANY)];

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
        list(command, reply);
    } else if command.len() == 2 {
        describe_all(reply);
    } else {
        reply.array(command.len() - 2);
        for name in command.args_from(2) {
            match find(name) {
                Some((_, spec)) => describe(spec, reply),
                None => reply.null(),
            }
        }
    }
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`
fn list(command: &Command<'_>, reply: &mut Reply<'_>) {
    let filter = match command.len() {
        2 => Some(Filter::All),
        5 if command.arg(2).eq_ignore_ascii_case(b"filterby") => {
            Filter::of(command.arg(3), command.arg(4))
        }
        _ => None,
    };
    let Some(filter) = filter else { return reply.error(b"ERR syntax error") };
    let listed: Vec<&Spec> = TABLE.iter().filter(|spec| filter.passes(spec)).collect();
    reply.array(listed.len());
    for spec in listed {
        reply.bulk(spec.name.as_bytes());
    }
}

fn describe_all(reply: &mut Reply<'_>) {
    reply.array(TABLE.len());
    for spec in &TABLE {
        describe(spec, reply);
    }
}
