//! What one peer has not acknowledged: numbered frames in flight, and unsent deltas.
//!
//! Invariants:
//! * A sealed frame keeps its number and body until it is acknowledged: a retransmission is
//!   byte-identical but for its age.
//! * `in_flight` holds consecutive numbers that end at `next_seq - 1`.
//! * A frame whose `through` is set leaves nothing unsent: once it is applied, the peer contains
//!   every batch up to that watermark.

use std::collections::{BTreeMap, VecDeque};

use super::bounds::MAX_FRAME_DELTAS;
use super::host::Delta;
use super::log::Batch;
use super::time::Nanos;
use super::wire::{Message, Position, WireError, encode};

/// Frames in flight, at most. Beyond that, deltas coalesce until one is acknowledged.
const MAX_IN_FLIGHT: usize = 8;
/// Keys with unsent deltas for one peer, at most: about 100 MiB.
const MAX_PENDING_KEYS: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Queue {
    /// The last batch before this queue's first.
    base: u64,
    /// The last batch that was merged into `pending`.
    merged: u64,
    next_seq: u64,
    in_flight: VecDeque<Sealed>,
    pending: BTreeMap<(u64, u64), Pending>,
    /// The last sealed frame left deltas unsent.
    split: bool,
    /// Keys whose delta was dropped because the queue was full.
    dropped: u64,
}

#[derive(Debug)]
struct Sealed {
    seq: u64,
    through: Option<u64>,
    at: Nanos,
    body: Vec<u8>,
}

/// An unsent delta, and the TAT that it alone would give the key: what of it has drained need not
/// be sent.
#[derive(Clone, Copy, Debug)]
struct Pending {
    sum: Nanos,
    tat: Nanos,
}

impl Pending {
    fn add(&mut self, debt: Nanos, at: Nanos) {
        self.sum = self.sum.saturating_add(debt);
        self.tat = self.tat.max(at).saturating_add(debt);
    }

    /// What is left to send at `now`: at most what was consumed, and at most what has not drained
    /// yet plus `grace`.
    fn remaining(self, now: Nanos, grace: Nanos) -> Nanos {
        if self.tat.saturating_add(grace) <= now {
            return 0;
        }
        self.sum.min(self.tat.saturating_sub(now).saturating_add(grace))
    }
}

impl Queue {
    /// A queue that begins after batch `base`.
    pub(super) fn new(base: u64) -> Self {
        Self {
            base,
            merged: base,
            next_seq: 1,
            in_flight: VecDeque::new(),
            pending: BTreeMap::new(),
            split: false,
            dropped: 0,
        }
    }

    /// Continues behind `position`, if that is in this queue: frames up to it count as
    /// acknowledged, the others are to be retransmitted. False if it is not.
    #[must_use]
    pub(super) fn resume(&mut self, position: Position) -> bool {
        if position.seq == 0 {
            return position.through == self.base && self.acked() == 0;
        }
        if !(self.acked()..self.next_seq).contains(&position.seq) {
            return false;
        }
        self.ack(position.seq);
        true
    }

    /// The number of the last acknowledged frame.
    fn acked(&self) -> u64 {
        self.next_seq - 1 - self.in_flight.len() as u64
    }

    /// Adds a batch; batches come in order.
    pub(super) fn merge(&mut self, batch: &Batch, grace: Nanos) {
        debug_assert!(batch.number > self.merged);
        for delta in &batch.deltas {
            self.pending
                .entry((delta.limit, delta.key))
                .or_insert(Pending { sum: 0, tat: 0 })
                .add(delta.debt, batch.at);
        }
        self.merged = batch.number;
        if self.pending.len() > MAX_PENDING_KEYS {
            self.prune(batch.at, grace);
        }
    }

    /// Makes room: removes deltas that have drained and, if that is not enough, the sixteenth with
    /// the least debt, which is counted.
    fn prune(&mut self, now: Nanos, grace: Nanos) {
        self.pending.retain(|_, pending| pending.remaining(now, grace) > 0);
        if self.pending.len() <= MAX_PENDING_KEYS {
            return;
        }
        let mut debts: Vec<Nanos> =
            self.pending.values().map(|p| p.remaining(now, grace)).collect();
        let (_, least, _) = debts.select_nth_unstable(MAX_PENDING_KEYS / 16);
        let least = *least;
        let before = self.pending.len();
        self.pending.retain(|_, pending| pending.remaining(now, grace) > least);
        self.dropped += (before - self.pending.len()) as u64;
    }

    pub(super) fn ack(&mut self, seq: u64) {
        while self.in_flight.front().is_some_and(|frame| frame.seq <= seq) {
            self.in_flight.pop_front();
        }
    }

    /// Every frame in flight, to be retransmitted on a new link.
    pub(super) fn resend(&self, now: Nanos) -> impl Iterator<Item = Message> {
        self.in_flight.iter().map(move |frame| frame.message(now))
    }

    /// The next frame, if anything is unsent and another frame may be in flight.
    pub(super) fn seal(&mut self, now: Nanos, grace: Nanos) -> Result<Option<Message>, WireError> {
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return Ok(None);
        }
        let mut deltas = Vec::new();
        while deltas.len() < MAX_FRAME_DELTAS
            && let Some(((limit, key), pending)) = self.pending.pop_first()
        {
            let debt = pending.remaining(now, grace);
            if debt > 0 {
                deltas.push(Delta { limit, key, debt });
            }
        }
        // A split whose rest has drained still needs a frame that completes it.
        if deltas.is_empty() && !self.split {
            return Ok(None);
        }
        self.split = !self.pending.is_empty();
        let through = (!self.split).then_some(self.merged);
        let frame = Sealed { seq: self.next_seq, through, at: now, body: encode(&deltas)? };
        self.next_seq += 1;
        let message = frame.message(now);
        self.in_flight.push_back(frame);
        Ok(Some(message))
    }

    /// Nothing is unsent or in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.in_flight.is_empty()
    }

    pub(super) fn pending_keys(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

impl Sealed {
    fn message(&self, now: Nanos) -> Message {
        Message::Frame {
            seq: self.seq,
            through: self.through,
            age: now.saturating_sub(self.at),
            body: self.body.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
