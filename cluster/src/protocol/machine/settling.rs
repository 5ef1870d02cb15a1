//! What comes on a link while this node has only begun to read its dialler's clock.
//!
//! After one reading all that is known is that what was read had been sent before. Had it waited
//! for a retransmission, it would be taken for fresh, and so would all that waited after it: a node
//! that has just joined would charge in one moment what was consumed in a fifth of a second. So
//! what follows the first reading waits for [`SETTLING`]. What had waited comes at once, and each
//! batch is a reading: by the last of them it is known when the first was sent.

use super::{Core, Violation};
use crate::protocol::action::LinkId;
use crate::protocol::clock::{RemoteClock, SETTLING};
use crate::protocol::cursor::MAX_IN_FLIGHT;
use crate::protocol::host::Host;
use crate::protocol::id::Origin;
use crate::protocol::time::Nanos;
use crate::protocol::wire::Message;

/// Messages of a link that wait for that, at most: the batches that may be in flight, and few
/// others.
const MAX_EARLY: usize = MAX_IN_FLIGHT as usize + 16;

impl<H: Host> Core<H> {
    /// A link has brought the first reading of a clock.
    pub(super) fn begin_settling(&mut self, now: Nanos, link: LinkId) {
        let settled_at = now.saturating_add(SETTLING);
        self.inbound.change(link, |inbound| inbound.settled_at = Some(settled_at));
    }

    /// Keeps a message until the clock of its dialler is read; hands it back where it is.
    ///
    /// # Errors
    /// When more than a peer may send waits already.
    pub(super) fn keep_early(
        &mut self,
        now: Nanos,
        (link, transit): (LinkId, Nanos),
        message: Message,
    ) -> Result<Option<Message>, Violation> {
        let settling = self.inbound.get(&link).filter(|inbound| inbound.settled_at.is_some());
        let Some(inbound) = settling else { return Ok(Some(message)) };
        if let Message::Beat { .. } = message {
            return Ok(Some(message));
        }
        if inbound.early.len() >= MAX_EARLY {
            return Err(Violation);
        }
        if let (Message::Batch { at, .. } | Message::Missed { at, .. }, Some(id)) =
            (&message, inbound.id)
        {
            self.read_clock(now, id.origin(), (*at, transit));
        }
        self.inbound.change(link, |inbound| inbound.early.push_back((transit, message)));
        Ok(None)
    }

    /// A message of an origin is a reading of its clock, where that is known.
    pub(super) fn read_clock(
        &mut self,
        now: Nanos,
        origin: Origin,
        (sent, transit): (Nanos, Nanos),
    ) -> Option<&mut RemoteClock> {
        let clock = self.clocks.get_mut(&origin)?;
        clock.read(now, sent, transit);
        Some(clock)
    }

    /// Takes the next message that has waited on a link, one a step; with the last one, what comes
    /// waits no more.
    pub(super) fn take_early(&mut self, now: Nanos, link: LinkId) {
        let next = self.inbound.change(link, |inbound| {
            let next = inbound.early.pop_front();
            inbound.settled_at = (!inbound.early.is_empty()).then_some(now);
            next
        });
        if let Some((transit, message)) = next.flatten()
            && self.handle_inbound(now, link, transit, message).is_err()
        {
            self.end_violated(now, link);
        }
    }

    /// Takes all that has waited on a link that is gone: it may be the last that a node has sent.
    pub(super) fn take_all_early(&mut self, now: Nanos, link: LinkId) {
        while self.inbound.get(&link).is_some_and(|inbound| !inbound.early.is_empty()) {
            self.take_early(now, link);
        }
    }

    /// Takes a clock for read at once.
    #[cfg(test)]
    pub(in crate::protocol) fn settle_clock(&mut self, link: LinkId) {
        self.inbound.change(link, |inbound| inbound.settled_at = None);
    }
}
