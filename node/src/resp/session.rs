//! The state of one client's connection.

use std::sync::Arc;

use tidegate_engine::{Decision, Quota};

use super::parser::ProtocolError;
use super::queue::Queue;
use super::reply::{Reply, Version};
use super::server_info::ServerInfo;
use crate::metrics::Tally;
use crate::service::{CheckError, Service};

/// What a client has set up, and the counts of its commands.
#[derive(Debug)]
pub struct Session {
    pub id: i64,
    pub version: Version,
    /// The client's name; empty until it sets one.
    pub name: Vec<u8>,
    /// Whether the connection is to be closed once the replies are written.
    pub closing: bool,
    /// The open transaction.
    pub queue: Option<Box<Queue>>,
    pub server: Arc<ServerInfo>,
    service: Arc<Service>,
    /// The decisions since the last [`Session::flush_counts`].
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
            queue: None,
            server,
            service,
            tally: Tally::default(),
            commands: 0,
        }
    }

    /// Answers a violation of the protocol, and closes.
    pub fn fail(&mut self, error: ProtocolError, out: &mut Vec<u8>) {
        self.give_up(error.message(), out);
    }

    /// Answers with an error, and closes.
    pub fn give_up(&mut self, problem: &str, out: &mut Vec<u8>) {
        let mut reply = Reply { out, version: self.version };
        reply.error(format!("ERR {problem}").as_bytes());
        self.closing = true;
    }

    /// Makes `EXEC` refuse the open transaction, if there is one.
    pub fn abort_transaction(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.abort();
        }
    }

    /// Decides under a quota given with the call.
    #[inline]
    pub fn check(&mut self, quota: &Quota, key: &[u8], cost: u64) -> Result<Decision, CheckError> {
        let decision = self.service.check_inline(quota, key, cost)?;
        self.tally.count(&decision, cost);
        Ok(decision)
    }

    /// Adds the counts since the last call to the node's metrics, which all connections write: once
    /// for a batch of commands rather than for each.
    pub fn flush_counts(&mut self) {
        self.service.metrics().add_resp(&std::mem::take(&mut self.tally));
        self.server.count_commands(std::mem::take(&mut self.commands));
    }

    /// Counts a command for the node's metrics.
    pub const fn count_command(&mut self) {
        self.commands += 1;
    }

    pub fn service(&self) -> &Service {
        &self.service
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
