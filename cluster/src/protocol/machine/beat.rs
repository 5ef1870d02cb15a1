//! Sending this node's clock.

use super::Core;
use crate::protocol::action::{Channel, LinkId};
use crate::protocol::clock::RemoteClock;
use crate::protocol::host::Host;
use crate::protocol::lateness::Lateness;
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
    /// How late this node looks at its words, and what of that its peers have from the last beat.
    lateness: Lateness,
    late: Nanos,
}

impl Beats {
    pub(super) fn new(now: Nanos) -> Self {
        Self { next_at: now, way: None, lateness: Lateness::default(), late: 0 }
    }
}

impl<H: Host> Core<H> {
    /// Sends this node's clock.
    pub(super) fn beat(&mut self, now: Nanos, link: LinkId) {
        let peer = self.dialled.get(&link).and_then(|addr| self.peers.get(addr));
        let id = peer.filter(|peer| peer.open_link() == Some(link)).and_then(|peer| peer.id);
        let delay = id.and_then(|id| self.clocks.get(&id.origin())).map(RemoteClock::delay);
        let (lag, late) = (self.reported_way(), self.beats.late);
        self.send(link, Channel::Main, &Message::Beat { now, delay, lag, late });
    }

    /// How old what this node hears usually is, as it has reported it; as it is until then.
    pub(super) fn reported_way(&self) -> Nanos {
        self.beats.way.unwrap_or_else(|| self.own_way())
    }

    /// How late this node looks at its words, as it has reported it.
    pub(super) fn reported_late(&self) -> Nanos {
        self.beats.late
    }

    /// Notes how late this look is, before anything that comes with it. One that makes the node
    /// stale does not count: nothing is decided meanwhile. While a drain takes several steps, rooms
    /// are split at its end, and nothing else is due.
    pub(super) fn note_late(&mut self, now: Nanos) {
        let flush = self.flush_deadline().filter(|_| self.draining.is_none());
        let due = flush.into_iter().chain(self.look_deadline()).min();
        let counts = |_: &Nanos| !self.is_stale_at(now);
        let late = due.filter(counts).map_or(0, |due| now.saturating_sub(due));
        self.beats.lateness.note(now, late);
    }

    #[cfg(test)]
    pub(in crate::protocol) fn lateness(&self) -> Nanos {
        self.beats.lateness.most()
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
        self.beats.late = self.beats.lateness.most();
        let flowing = self.peers.values().filter_map(|peer| match peer.dial {
            Dial::Open { link, flowing: true, .. } => Some(link),
            _ => None,
        });
        for link in flowing.collect::<Vec<_>>() {
            self.beat(now, link);
        }
    }
}
