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

/// What this node reports, and when it does next.
#[derive(Debug)]
pub(super) struct Beats {
    next_at: Nanos,
    /// How old what this node hears usually is, as its peers have it from the last beat; `None`
    /// before it has heard any.
    way: Option<Nanos>,
}

impl Beats {
    pub(super) fn new(now: Nanos) -> Self {
        Self { next_at: now, way: None }
    }
}

impl<H: Host> Core<H> {
    /// Sends this node's clock.
    pub(super) fn beat(&mut self, now: Nanos, link: LinkId) {
        let peer = self.dialled.get(&link).and_then(|addr| self.peers.get(addr));
        let id = peer.filter(|peer| peer.open_link() == Some(link)).and_then(|peer| peer.id);
        let delay = id.and_then(|id| self.clocks.get(&id.origin())).map(RemoteClock::delay);
        let lag = self.reported_way();
        self.send(link, Channel::Main, &Message::Beat { now, delay, lag });
    }

    /// How old what this node hears usually is, as it has reported it; as it is until then.
    pub(super) fn reported_way(&self) -> Nanos {
        self.beats.way.unwrap_or_else(|| self.own_way())
    }

    pub(super) fn beat_deadline(&self) -> Option<Nanos> {
        (self.census().flowing > 0).then_some(self.beats.next_at)
    }

    /// Beats on all links at once, so that all nodes learn what this one reports at the same time.
    pub(super) fn tick_beats(&mut self, now: Nanos) {
        if self.beats.next_at > now {
            return;
        }
        self.beats.next_at = now + BEAT_EVERY;
        self.beats.way = Some(self.own_way()).filter(|way| *way > 0);
        let flowing = self.peers.values().filter_map(|peer| match peer.dial {
            Dial::Open { link, flowing: true, .. } => Some(link),
            _ => None,
        });
        for link in flowing.collect::<Vec<_>>() {
            self.beat(now, link);
        }
    }
}
