//! Sending this node's clock.

use super::Core;
use crate::protocol::action::{Channel, LinkId};
use crate::protocol::clock::RemoteClock;
use crate::protocol::host::Host;
use crate::protocol::peer::Dial;
use crate::protocol::time::{Nanos, SECOND};
use crate::protocol::wire::Message;

/// How often this node sends its clock, and what it has of the other's: a batch carries the first
/// alone.
const BEAT_EVERY: Nanos = 2 * SECOND;

impl<H: Host> Core<H> {
    /// Sends this node's clock.
    pub(super) fn beat(&mut self, now: Nanos, link: LinkId) {
        let addr = self.dialled.get(&link).copied();
        let addr =
            addr.filter(|addr| self.peers.get(addr).is_some_and(|p| p.open_link() == Some(link)));
        if let Some(delivery) = addr.and_then(|addr| self.peers.delivery_mut(&addr)) {
            delivery.beat_at = now;
        }
        let id = addr.and_then(|addr| self.peers.get(&addr)?.id);
        let delay = id.and_then(|id| self.clocks.get(&id.origin())).map(RemoteClock::delay);
        let lag = self.own_way();
        self.send(link, Channel::Main, &Message::Beat { now, delay, lag });
    }

    pub(super) fn beat_deadline(&self) -> Option<Nanos> {
        (self.census().flowing > 0).then_some(self.beat_at)
    }

    pub(super) fn tick_beats(&mut self, now: Nanos) {
        if self.beat_at > now {
            return;
        }
        self.beat_at = now + BEAT_EVERY;
        let silent = self.peers.values().filter(|peer| peer.delivery.beat_at + BEAT_EVERY <= now);
        let flowing = silent.filter_map(|peer| match peer.dial {
            Dial::Open { link, flowing: true, .. } => Some(link),
            _ => None,
        });
        for link in flowing.collect::<Vec<_>>() {
            self.beat(now, link);
        }
    }
}
