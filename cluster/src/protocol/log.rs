//! The batches that this node has admitted lately.
//!
//! A batch is what one flush took from the limiters, in messages of bounded size; batches are
//! numbered from 1 within a generation, the same for all peers, and encoded once. So a batch number
//! is a watermark that means the same to every node: a peer is a cursor into this log, a state
//! transfer states what it contains, and the origin continues behind either.
//!
//! What is older than the log keeps is in the [`Backlog`](super::backlog::Backlog), as far as a
//! peer needs it.

use std::collections::VecDeque;

use bytes::Bytes;

use super::delta::Delta;
use super::time::Nanos;
use super::wire::Shift;

/// The most deltas a log keeps, about 16 MiB.
const MAX_LOG_DELTAS: usize = 1 << 18;

#[derive(Debug, Default)]
pub(super) struct Log {
    batches: VecDeque<Batch>,
    /// Number of the last batch, 0 before the first.
    last: u64,
    /// A batch has said that something was consumed.
    had_deltas: bool,
    deltas: usize,
    /// Debt of all batches there were, and of those before each one that is kept.
    consumed: i128,
    before: VecDeque<i128>,
}

#[derive(Debug)]
pub(super) struct Batch {
    pub number: u64,
    /// When what came before was taken: all of it was consumed since then.
    pub since: Nanos,
    pub at: Nanos,
    pub deltas: Vec<Delta>,
    pub shifts: Vec<Shift>,
    /// The message that carries it, the same for every peer.
    pub message: Bytes,
    /// How much of that is the message in the version before.
    pub before: usize,
}

impl Batch {
    /// The message for a peer that speaks this version.
    pub(super) fn message_as(&self, version: u16, newest: u16) -> Bytes {
        if version < newest { self.message.slice(..self.before) } else { self.message.clone() }
    }
}

impl Log {
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Whether any batch there was says that something was consumed.
    pub(super) fn had_deltas(&self) -> bool {
        self.had_deltas
    }

    /// The number before the oldest batch that is kept.
    pub(super) fn base(&self) -> u64 {
        self.last - self.batches.len() as u64
    }

    /// Adds a batch, whose number is the one after the last.
    pub(super) fn push(&mut self, batch: Batch) {
        debug_assert!(batch.number == self.last + 1);
        self.last = batch.number;
        self.had_deltas |= !batch.deltas.is_empty();
        self.deltas += batch.deltas.len();
        self.before.push_back(self.consumed);
        self.consumed += batch.debt();
        self.batches.push_back(batch);
    }

    /// Removes the oldest batch if it is older than `horizon`, or too many deltas are kept.
    pub(super) fn trim(&mut self, horizon: Nanos) -> Option<Batch> {
        if !self.is_over(horizon) {
            return None;
        }
        let batch = self.batches.pop_front()?;
        self.before.pop_front();
        self.deltas -= batch.deltas.len();
        Some(batch)
    }

    /// Whether the oldest batch is to be removed.
    pub(super) fn is_over(&self, horizon: Nanos) -> bool {
        let full = self.deltas > MAX_LOG_DELTAS && self.batches.len() > 1;
        self.batches.front().is_some_and(|batch| full || batch.at < horizon)
    }

    /// The debt of the kept ones of the batches after `number`.
    pub(super) fn debt_since(&self, number: u64) -> i128 {
        let known = number.saturating_sub(self.base()) as usize;
        self.before.get(known).map_or(0, |before| self.consumed - before)
    }

    /// The batches after `number`; `None` when some of them are no longer kept or do not exist.
    pub(super) fn since(&self, number: u64) -> Option<impl Iterator<Item = &Batch>> {
        (self.base()..=self.last).contains(&number).then(|| self.kept_since(number))
    }

    /// The kept batches, the newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Batch> {
        self.batches.iter().rev()
    }

    /// The kept ones of the batches after `number`, in order.
    pub(super) fn kept_since(&self, number: u64) -> impl Iterator<Item = &Batch> {
        let known = number.saturating_sub(self.base()).min(self.batches.len() as u64);
        self.batches.range(known as usize..)
    }
}

impl Batch {
    /// The sum of its changes.
    pub(super) fn debt(&self) -> i128 {
        self.deltas.iter().map(|delta| i128::from(delta.change.debt)).sum()
    }
}

#[cfg(test)]
mod tests;
