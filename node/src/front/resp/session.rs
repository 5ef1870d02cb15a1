//! The state of one client's connection.

use std::sync::Arc;

use tokio::time::Instant;

use super::checks::Checks;
use super::clients::{Activity, Ends, Registered};
use super::parser::ProtocolError;
use super::queue::Queue;
use super::reply::{Reply, Version};
use super::server_info::ServerInfo;
use super::work::Work;
use crate::service::Service;
use crate::telemetry::errors::RespError;

/// How many databases a client may select. All are one: keys are the same in each.
pub const DATABASES: u8 = 16;

/// Which commands are replied to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    #[default]
    On,
    Off,
    /// None to this command, nor to the next one.
    SkipNext,
    /// None to this command.
    Skip,
}

/// What a client has set up, and the counts of its commands.
#[derive(Debug)]
pub struct Session {
    /// What others see of it.
    pub client: Registered,
    pub version: Version,
    pub db: u8,
    pub replies: Replies,
    /// The number of the last command.
    pub last: Option<u8>,
    /// Whether the connection is to be closed once the replies are written.
    pub closing: bool,
    /// Whether it has given the password, if there is one.
    pub is_let_in: bool,
    /// The wrong passwords it has given.
    pub guesses: u32,
    /// The open transaction.
    pub queue: Option<Box<Queue>>,
    pub server: Arc<ServerInfo>,
    /// The checks that wait to be decided, if memory for some is at hand.
    pub checks: Option<Box<Checks>>,
    /// The commands since the last [`Session::flush_counts`].
    commands: u64,
}

impl Session {
    /// `ends` are those of its connection, if it has one.
    pub fn new(server: Arc<ServerInfo>, ends: Option<Ends>) -> Self {
        Self {
            client: server.clients().connected(ends, server.service().now()),
            version: Version::default(),
            db: 0,
            replies: Replies::default(),
            last: None,
            closing: false,
            is_let_in: server.password().is_none(),
            guesses: 0,
            queue: None,
            server,
            checks: None,
            commands: 0,
        }
    }

    /// Answers a violation of the protocol, and closes.
    pub fn fail(&mut self, error: ProtocolError, out: &mut Vec<u8>) {
        self.service().metrics().errors().count_resp(RespError::Protocol, 1);
        self.give_up(error.message(), out);
    }

    /// Counts the errors of a reply.
    pub fn count_errors(&self, reply: &Reply<'_>) {
        let (error, count) = reply.errors();
        if count > 0 {
            self.service().metrics().errors().count_resp(error, count);
        }
    }

    /// Answers with an error, and closes: that is counted as the end of the connection.
    pub fn give_up(&mut self, problem: &str, out: &mut Vec<u8>) {
        self.decide(out);
        let mut reply = Reply::new(out, self.version);
        reply.error(format!("ERR {problem}").as_bytes());
        self.closing = true;
    }

    /// Makes `EXEC` refuse the open transaction, if there is one.
    pub fn abort_transaction(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.abort();
        }
    }

    /// When the next command of the open transaction must have come, if it holds room of others.
    pub fn transaction_deadline(&mut self) -> Option<Instant> {
        let time = self.server.bounds().command_timeout;
        self.queue.as_mut().and_then(|queue| queue.deadline(time))
    }

    /// What `EXEC` would take.
    pub fn transaction_work(&self) -> Work {
        self.queue.as_ref().map_or_else(Work::default, |queue| queue.work())
    }

    /// Adds the counts since the last call to the node's metrics, which all connections write: once
    /// for a batch of commands rather than for each. Notes the activity as well.
    pub fn flush_counts(&mut self) {
        self.note_activity();
        self.server.count_commands(std::mem::take(&mut self.commands));
    }

    /// Notes what others see of this connection.
    pub fn note_activity(&self) {
        self.client.note(&Activity {
            at: self.service().now(),
            command: self.last,
            version: self.version,
            db: self.db,
            queued: self.queue.as_ref().map(|queue| queue.len()),
        });
    }

    /// Counts a command for the node's metrics.
    pub const fn count_command(&mut self) {
        self.commands += 1;
    }

    pub fn service(&self) -> &Service {
        self.server.service()
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
