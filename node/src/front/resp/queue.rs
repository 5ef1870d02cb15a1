//! The commands of an open transaction.

use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use super::command::Command;
use super::work::Work;
use crate::config::bounds::TransactionBounds;
use crate::front::budget::Share;
use crate::front::deadline::Deadline;

/// The most that the commands of all transactions take, in bytes, in addition to [`FREE_BYTES`] of
/// each: a budget of its own, so that clients that fill it leave room to those without
/// transactions.
pub const MAX_ALL_QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// What each transaction may take in any case, in bytes, and for any time: small ones are not
/// refused because others are large.
const FREE_BYTES: usize = 4 * 1024;

/// What one argument takes in addition to its bytes.
const ARG_BYTES: usize = size_of::<Range<u32>>();

/// The commands of an open transaction, none of which has been run.
#[derive(Debug)]
pub struct Queue {
    bytes: Vec<u8>,
    /// The arguments of all commands, in `bytes`.
    args: Vec<Range<u32>>,
    /// Where the arguments of each command end in `args`.
    ends: Vec<u32>,
    /// The memory of all this beyond [`FREE_BYTES`], out of the budget of all transactions.
    share: Share,
    bounds: TransactionBounds,
    /// Whether a command was refused, so that none will be run.
    is_aborted: bool,
    /// When the next command must have come, as of when that was last asked.
    deadline: Option<Deadline>,
    /// Whether a command was added since.
    has_grown: bool,
}

/// Why a command is not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The transaction has reached a bound of its own.
    Transaction,
    /// All transactions together have reached theirs.
    Node,
}

impl Queue {
    /// An empty one, whose memory counts in `share`.
    pub const fn new(share: Share, bounds: TransactionBounds) -> Self {
        Self {
            bytes: Vec::new(),
            args: Vec::new(),
            ends: Vec::new(),
            share,
            bounds,
            is_aborted: false,
            deadline: None,
            has_grown: false,
        }
    }

    /// What it may have.
    pub const fn bounds(&self) -> TransactionBounds {
        self.bounds
    }

    /// The number of commands.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// What running its commands takes.
    pub fn work(&self) -> Work {
        Work { commands: self.len(), input: self.bytes.len(), ..Work::default() }
    }

    /// Whether a command was refused, so that none may be run.
    pub const fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// When its next command must have come, which may take `time` since the last one; `None` where
    /// it holds nothing of what all transactions share.
    pub fn deadline(&mut self, time: Duration) -> Option<Instant> {
        if self.share.held() == 0 {
            return None;
        }
        if std::mem::take(&mut self.has_grown) {
            self.deadline = Some(Deadline::within(time));
        }
        self.deadline.as_ref().map(Deadline::at)
    }

    /// Whether the time of its next command, which is over, is not put off.
    pub fn has_expired(&mut self) -> bool {
        self.share.held() > 0 && self.deadline.as_mut().is_some_and(|deadline| !deadline.put_off())
    }

    /// Forgets all commands, and those to come.
    pub fn abort(&mut self) {
        self.is_aborted = true;
        (self.bytes, self.args, self.ends) = (Vec::new(), Vec::new(), Vec::new());
        self.share.resize(0);
    }

    /// Adds a command; one of an aborted transaction is forgotten.
    ///
    /// # Errors
    /// Beyond a bound; the transaction is aborted.
    pub fn push(&mut self, command: &Command<'_>) -> Result<(), Full> {
        if self.is_aborted {
            return Ok(());
        }
        let more: usize = command.args_from(0).map(|arg| arg.len() + ARG_BYTES).sum();
        let held = self.bytes.len() + self.args.len() * ARG_BYTES;
        if self.len() >= self.bounds.commands || held + more > self.bounds.bytes {
            self.abort();
            return Err(Full::Transaction);
        }
        for arg in command.args_from(0) {
            // Both ends are within the bound of bytes: far below 2^32.
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(arg);
            self.args.push(start..self.bytes.len() as u32);
        }
        self.ends.push(self.args.len() as u32);
        self.has_grown = true;
        if !self.share.resize(self.allocated().saturating_sub(FREE_BYTES)) {
            self.abort();
            return Err(Full::Node);
        }
        Ok(())
    }

    /// The commands, in their order.
    pub fn commands(&self) -> impl Iterator<Item = Command<'_>> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let args = &self.args[begin..*end as usize];
            begin = *end as usize;
            Command::new(&self.bytes, args)
        })
    }

    /// The memory of the vectors, in bytes.
    const fn allocated(&self) -> usize {
        self.bytes.capacity()
            + self.args.capacity() * ARG_BYTES
            + self.ends.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
