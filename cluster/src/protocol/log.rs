//! The batches that this node has admitted lately.
//!
//! A batch is what one flush took from the limiters, in messages of bounded size; batches are
//! numbered from 1 within a generation, the same for all peers, and encoded once, where a peer is a
//! cursor into the log, or when one is sent them. So a batch number is a watermark that means the
//! same to every node: a peer is a cursor into this log, a state transfer states what it contains,
//! and the origin continues after either.
//!
//! What is older than the log keeps is in the [`Backlog`](super::backlog::Backlog), as far as a
//! peer needs it.

use std::collections::VecDeque;

use bytes::Bytes;

use super::delta::Delta;
use super::time::Nanos;
use super::wire::{self, Agreement, Message};

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
    /// What is sent with it; once it is encoded, only the shifts.
    pub levels: Agreement,
    encoded: Option<Encoded>,
}

/// The message that carries a batch, the same for every peer.
#[derive(Debug)]
struct Encoded {
    bytes: Bytes,
    /// How much of that is the message in the version before.
    before: usize,
}

impl Batch {
    /// What was consumed in a time, whose end is the second of the two.
    pub(super) fn new(
        number: u64,
        (since, at): (Nanos, Nanos),
        deltas: Vec<Delta>,
        levels: Agreement,
    ) -> Self {
        Self { number, since, at, deltas, levels, encoded: None }
    }

    /// Encodes it in the newest version, unless that was done before. Returns how many deltas that
    /// loses: none, as encoding does not fail within the bounds of counts. If it did, the message
    /// would be that of an empty batch, which keeps the numbers consecutive.
    pub(super) fn encode(&mut self, newest: u16) -> u64 {
        if self.encoded.is_some() {
            return 0;
        }
        let groups = wire::group(&self.deltas, self.at);
        let shifts = self.levels.shifts.clone();
        let levels =
            std::mem::replace(&mut self.levels, Agreement { shifts, ..Agreement::default() });
        let message = Message::Batch { number: self.number, at: self.at, groups, levels };
        let encoded = wire::encode_as(newest, &message);
        let lost = if encoded.is_ok() { 0 } else { self.deltas.len() as u64 };
        let (bytes, before) = encoded.unwrap_or_else(|_| {
            let (groups, levels) = (Vec::new(), Agreement::default());
            let empty = Message::Batch { number: self.number, at: self.at, groups, levels };
            wire::encode_as(newest, &empty).unwrap_or_default()
        });
        self.encoded = Some(Encoded { bytes: bytes.into(), before });
        lost
    }

    /// The message for a peer that speaks this version; `None` where it is not encoded.
    pub(super) fn message_as(&self, version: u16, newest: u16) -> Option<Bytes> {
        let Encoded { bytes, before } = self.encoded.as_ref()?;
        Some(if version < newest { bytes.slice(..*before) } else { bytes.clone() })
    }

    /// The sum of its changes.
    pub(super) fn debt(&self) -> i128 {
        self.deltas.iter().map(|delta| i128::from(delta.change.debt)).sum()
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

    /// A kept batch.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Batch> {
        let place = number.checked_sub(self.base() + 1)?;
        self.batches.get_mut(usize::try_from(place).ok()?)
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

#[cfg(test)]
mod tests;
