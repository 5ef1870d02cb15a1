//! The batches that this node has admitted lately.
//!
//! A batch is what one flush took from the limiters; batches are numbered from 1 within a
//! generation, the same for all peers. So a batch number is a watermark that means the same to
//! every node: a state transfer states what it contains, and the origin continues behind that.

use std::collections::VecDeque;

use super::host::Delta;
use super::time::Nanos;

/// The most deltas a log keeps, about 6 MiB.
const MAX_LOG_DELTAS: usize = 1 << 18;

#[derive(Debug, Default)]
pub(super) struct Log {
    batches: VecDeque<Batch>,
    /// Number of the last batch, 0 before the first.
    last: u64,
    deltas: usize,
}

#[derive(Debug)]
pub(super) struct Batch {
    pub number: u64,
    pub at: Nanos,
    pub deltas: Vec<Delta>,
}

impl Log {
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn push(&mut self, at: Nanos, deltas: Vec<Delta>) -> &Batch {
        self.last += 1;
        self.deltas += deltas.len();
        self.batches.push_back(Batch { number: self.last, at, deltas });
        while self.deltas > MAX_LOG_DELTAS && self.batches.len() > 1 {
            self.drop_oldest();
        }
        &self.batches[self.batches.len() - 1]
    }

    /// Drops the batches older than `horizon`.
    pub(super) fn trim(&mut self, horizon: Nanos) {
        while self.batches.front().is_some_and(|batch| batch.at < horizon) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            self.deltas -= batch.deltas.len();
        }
    }

    /// The batches after `number`; `None` when some of them are no longer kept or do not exist.
    pub(super) fn since(&self, number: u64) -> Option<impl Iterator<Item = &Batch>> {
        let first = self.last - self.batches.len() as u64;
        (first..=self.last).contains(&number).then(|| self.kept_since(number))
    }

    /// The kept ones of the batches after `number`.
    pub(super) fn kept_since(&self, number: u64) -> impl Iterator<Item = &Batch> {
        self.batches.iter().filter(move |batch| batch.number > number)
    }
}

#[cfg(test)]
mod tests;
