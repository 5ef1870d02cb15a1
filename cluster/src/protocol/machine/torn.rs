//! Words that contain a part of a set of batches, or not yet all of them.
//!
//! Such words are neither given to another node nor compared with another's: the rest is under way.
//! An origin that does not send it, under one generation or the next, would keep all others from
//! joining, and from healing a gap. So the wait is bounded, whichever origins it is of
//! ([`TornWait`](crate::protocol::inbound::TornWait)). After that
//!
//! * the state is given: with what has come late, which is applied before; and of a part of a
//!   backlog the receiver learns that no node's log continues after it
//!   ([`Applied::entry`](crate::protocol::inbound::Applied::entry)), so it takes over the state of
//!   that origin as well, as it does where the link to the origin is closed;
//! * levels are sent and compared, as of before the backlog: the part that has been applied is a
//!   difference of two words. Agreement keeps the sum of both, whatever they contain.

use super::Core;
use crate::protocol::host::Host;
use crate::protocol::id::Origin;
use crate::protocol::time::Nanos;

impl<H: Host> Core<H> {
    /// Whether the rest of something is waited for before a state is given.
    pub(super) fn awaits_rest(&mut self, now: Nanos) -> bool {
        let mut torn = self.applied.iter().filter(|(_, applied)| applied.is_torn());
        if !torn.any(|(origin, _)| self.flows_from(*origin)) {
            return false;
        }
        self.torn.begin(now);
        !self.torn.is_over(now)
    }

    /// Applies what has come late of all origins.
    pub(super) fn apply_all_late(&mut self, now: Nanos) {
        let late = self.applied.iter().filter(|(_, applied)| !applied.late.is_empty());
        for origin in late.map(|(origin, _)| *origin).collect::<Vec<Origin>>() {
            self.apply_late(now, origin);
        }
    }
}
