//! Leaving: what is waited for, and the announcement.

use super::Core;
use crate::protocol::action::Channel;
use crate::protocol::host::Host;
use crate::protocol::peer::Dial;
use crate::protocol::time::Nanos;
use crate::protocol::wire::Message;

impl<H: Host> Core<H> {
    /// Whether leaving loses nothing: every peer that is alive has acknowledged everything that
    /// this node has admitted, up to the last [`Core::flush`] if there was one. What it sends after
    /// that, as it agrees with nodes that go on, is not a reason to stay. A peer that is still
    /// being dialled, or has not sent its position, has not acknowledged.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        let unsent = self.log.had_deltas();
        let is_sealed = self.drains.is_sealed() && self.pace.len() == 0;
        let last = self.leaves_after.unwrap_or(self.log.last());
        (is_sealed || self.leaves_after.is_some())
            && self.peers.iter().all(|(addr, peer)| match peer.dial {
                Dial::Open { flowing: true, .. } => {
                    peer.cursor().is_none_or(|cursor| cursor.has(last))
                }
                // The peer has not sent its position, or has not taken over this node's state.
                Dial::Open { .. } => !unsent,
                Dial::Waiting { .. } | Dial::Dialling { .. } => {
                    let alive =
                        self.membership.is_active(*addr) || self.inbound.from(*addr).is_some();
                    let first = peer.attempts == 0;
                    // Without deltas only `Leaving` is at stake: that is worth a first dial.
                    if unsent { !alive && !first } else { !alive || !first }
                }
            })
    }

    /// Announces that this node leaves. Deltas that are not acknowledged are lost for those peers.
    pub fn leave(&mut self, now: Nanos) {
        self.begin_step(now);
        self.membership.leave(now);
        self.leaving = true;
        for link in self.open_links() {
            self.send(link, Channel::Main, &Message::Leaving);
        }
        self.settle(now);
    }
}
