//! How far a peer is in this node's log.

use super::delta::KeyId;

/// Batches that are sent and not acknowledged, at most.
pub(super) const MAX_IN_FLIGHT: u64 = 256;
/// Batches that a peer lacks which does not lag, at most: those of a few flushes.
const CLOSE_BATCHES: u64 = 8;
/// Parts of the backlog that are sent and not acknowledged, at most.
const MAX_PARTS: u32 = 8;

/// A peer's position in the log, as this node knows it.
#[derive(Debug)]
pub(super) struct Cursor {
    /// Every batch up to this one is acknowledged.
    acked: u64,
    /// The last batch that was sent on the present link.
    sent: u64,
    /// The last batch that was ever sent: the peer may stand anywhere from `acked` to here.
    highest: u64,
    catch_up: Option<CatchUp>,
}

/// The backlog up to batch `to`, which is sent in order of the keys.
#[derive(Debug)]
struct CatchUp {
    to: u64,
    acked: Option<KeyId>,
    sent: Option<KeyId>,
    in_flight: u32,
    /// The last part has been sent.
    complete: bool,
}

/// What to send next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The batch of this number.
    Batch(u64),
    /// The keys after `after` of the backlog from `from` to `to`.
    Part { from: u64, to: u64, after: Option<KeyId> },
    /// Nothing before something is admitted, or acknowledged.
    Wait,
}

impl Cursor {
    pub(super) fn new(acked: u64) -> Self {
        Self { acked, sent: acked, highest: acked, catch_up: None }
    }

    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// Whether the peer may stand right after batch `number`.
    pub(super) fn may_stand_at(&self, number: u64) -> bool {
        (self.acked..=self.highest).contains(&number)
    }

    /// Continues on a new link after the peer's position. False where that is not this cursor's.
    #[must_use]
    pub(super) fn resume(&mut self, through: u64, missed: Option<(u64, KeyId)>) -> bool {
        if !self.may_stand_at(through) {
            return false;
        }
        let catch_up = self.catch_up.take_if(|catch_up| catch_up.to > through);
        match (catch_up, missed) {
            (Some(mut catch_up), Some((to, key))) if catch_up.to == to => {
                (catch_up.acked, catch_up.sent) = (Some(key), Some(key));
                (catch_up.in_flight, catch_up.complete) = (0, false);
                self.catch_up = Some(catch_up);
            }
            (_, None) => self.catch_up = None,
            (_, Some(_)) => return false,
        }
        (self.acked, self.sent) = (through, through);
        true
    }

    /// The peer has applied every batch up to `number`.
    pub(super) fn ack(&mut self, number: u64) {
        if number > self.acked && self.may_stand_at(number) {
            self.acked = number;
            self.sent = self.sent.max(number);
            self.catch_up.take_if(|catch_up| catch_up.to <= number);
        }
    }

    /// The peer has applied the backlog up to a key.
    pub(super) fn ack_part(&mut self, to: u64, key: KeyId) {
        if let Some(catch_up) = self.catch_up.as_mut().filter(|catch_up| catch_up.to == to) {
            catch_up.acked = Some(key);
            catch_up.in_flight = catch_up.in_flight.saturating_sub(1);
        }
    }

    /// What to send next, where the log keeps the batches after `base` up to `last`, and what is
    /// before them is in the backlog.
    pub(super) fn next(&mut self, base: u64, last: u64) -> Next {
        if self.catch_up.is_none() && self.sent < base && self.sent == self.acked {
            let (acked, sent) = (None, None);
            self.catch_up = Some(CatchUp { to: base, acked, sent, in_flight: 0, complete: false });
            self.highest = self.highest.max(base);
        }
        if let Some(catch_up) = &self.catch_up {
            if catch_up.complete || catch_up.in_flight >= MAX_PARTS {
                return Next::Wait;
            }
            return Next::Part { from: self.acked, to: catch_up.to, after: catch_up.sent };
        }
        let in_flight = self.sent - self.acked;
        if self.sent < base || self.sent == last || in_flight >= MAX_IN_FLIGHT {
            return Next::Wait;
        }
        Next::Batch(self.sent + 1)
    }

    /// Whether something has to happen before anything can be sent.
    #[cfg(test)]
    pub(super) fn waits(&self, base: u64, last: u64) -> bool {
        let Self { acked, sent, highest, .. } = *self;
        let catch_up = self.catch_up.as_ref();
        match catch_up {
            Some(catch_up) => catch_up.complete || catch_up.in_flight >= MAX_PARTS,
            None => Self { acked, sent, highest, catch_up: None }.next(base, last) == Next::Wait,
        }
    }

    /// Nothing is left to send.
    pub(super) fn has_been_sent(&self, last: u64) -> bool {
        self.sent == last && self.catch_up.is_none()
    }

    /// Whether only the last few batches are left to send.
    pub(super) fn is_close_to(&self, last: u64) -> bool {
        last - self.sent <= CLOSE_BATCHES && self.catch_up.is_none()
    }

    /// Whether the batch has been sent before, on this link or an earlier one.
    pub(super) fn was_sent(&self, number: u64) -> bool {
        number <= self.highest
    }

    pub(super) fn sent_batch(&mut self, number: u64) {
        self.sent = number;
        self.highest = self.highest.max(number);
    }

    /// A part up to this key was sent; `None` when it was the last one.
    pub(super) fn sent_part(&mut self, upto: Option<KeyId>) {
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.in_flight += 1;
            catch_up.complete = upto.is_none();
            catch_up.sent = upto.or(catch_up.sent);
        }
    }

    /// Batches of those up to `last` that are not acknowledged.
    pub(super) fn lacks(&self, last: u64) -> u64 {
        last.saturating_sub(self.acked)
    }

    /// The peer has everything up to batch `last`.
    pub(super) fn has(&self, last: u64) -> bool {
        self.acked >= last
    }
}

#[cfg(test)]
mod tests;
