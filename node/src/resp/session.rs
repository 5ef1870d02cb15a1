//! What one client has set up, and how its commands are run.

use std::sync::Arc;

use tidegate_engine::{Decision, Quota};

use super::commands;
use super::parser::{Command, ProtocolError};
use super::reply::{Reply, Version};
use super::server::ServerInfo;
use crate::service::{CheckError, Service, Tally};

/// How much of a client's own words an error repeats, in bytes.
const MAX_ECHO_BYTES: usize = 128;

/// The state of one connection beside its bytes.
#[derive(Debug)]
pub struct Session {
    pub id: i64,
    pub version: Version,
    /// What the client calls itself; empty until it does.
    pub name: Vec<u8>,
    /// Whether the connection is to be closed once the replies are out.
    pub closing: bool,
    pub server: Arc<ServerInfo>,
    service: Arc<Service>,
    /// What was decided since the last [`Session::settle`].
    tally: Tally,
    commands: u64,
}

impl Session {
    pub fn new(id: i64, service: Arc<Service>, server: Arc<ServerInfo>) -> Self {
        Self {
            id,
            version: Version::default(),
            name: Vec::new(),
            closing: false,
            server,
            service,
            tally: Tally::default(),
            commands: 0,
        }
    }

    /// Runs one command and appends its reply.
    pub fn run(&mut self, command: &Command<'_>, out: &mut Vec<u8>) {
        let mut reply = Reply { out, version: self.version };
        if command.len() == 0 {
            return;
        }
        self.commands += 1;
        match commands::find(command.arg(0)) {
            None => {
                unknown(command, &mut reply);
                self.closing = is_http(command.arg(0));
            }
            Some(spec) if !(spec.least..=spec.most).contains(&command.len()) => {
                wrong_arity(spec.name, None, &mut reply);
            }
            Some(spec) => (spec.run)(self, command, &mut reply),
        }
    }

    /// Answers what is not the protocol, and gives the connection up.
    pub fn fail(&mut self, error: ProtocolError, out: &mut Vec<u8>) {
        self.give_up(error.message(), out);
    }

    /// Says why the connection is given up.
    pub fn give_up(&mut self, problem: &str, out: &mut Vec<u8>) {
        let mut reply = Reply { out, version: self.version };
        reply.error(format!("ERR {problem}").as_bytes());
        self.closing = true;
    }

    /// Decides under a quota given with the call.
    #[inline]
    pub fn check(&mut self, quota: &Quota, key: &[u8], cost: u64) -> Result<Decision, CheckError> {
        let decision = self.service.check_inline(quota, key, cost)?;
        self.tally.count(&decision, cost);
        Ok(decision)
    }

    /// Adds what was counted since the last call to the node's figures, which all connections
    /// write: once for a batch of commands rather than for each.
    pub fn settle(&mut self) {
        self.service.metrics().settle_resp(&std::mem::take(&mut self.tally));
        self.server.count_commands(std::mem::take(&mut self.commands));
    }

    pub fn service(&self) -> &Service {
        &self.service
    }
}

/// The error for a number of arguments that a command, or one of its subcommands, does not take.
pub fn wrong_arity(name: &str, subcommand: Option<&str>, reply: &mut Reply<'_>) {
    let bar = if subcommand.is_some() { "|" } else { "" };
    let subcommand = subcommand.unwrap_or("");
    let text = format!("ERR wrong number of arguments for '{name}{bar}{subcommand}' command");
    reply.error(text.as_bytes());
}

/// The error for a subcommand that a command does not have.
pub fn unknown_subcommand(subcommand: &[u8], reply: &mut Reply<'_>) {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(shortened(subcommand));
    text.push(b'\'');
    reply.error(&text);
}

/// Whether this is a line of an HTTP request. A web page can make a browser send one to any
/// address, with commands of the page's choice in its body: the connection ends before them.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn unknown(command: &Command<'_>, reply: &mut Reply<'_>) {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(shortened(command.arg(0)));
    text.extend_from_slice(b"', with args beginning with: ");
    let most = text.len() + MAX_ECHO_BYTES;
    for arg in command.args_from(1) {
        if text.len() >= most {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(&arg[..arg.len().min(most - text.len())]);
        text.extend_from_slice(b"' ");
    }
    reply.error(&text);
}

fn shortened(text: &[u8]) -> &[u8] {
    &text[..text.len().min(MAX_ECHO_BYTES)]
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
