//! Sending this node's clock.

use std::collections::BTreeMap;

use super::Core;
use crate::protocol::action::{Channel, LinkId};
use crate::protocol::clock::RemoteClock;
use crate::protocol::host::Host;
use crate::protocol::peer::Peer;
use crate::protocol::run_delay::RunDelay;
use crate::protocol::time::{Nanos, SECOND};
use crate::protocol::wire::Message;

/// How often this node sends its clock, and what it has of the other's: a batch carries the first
/// alone.
const BEAT_EVERY: Nanos = 2 * SECOND;
/// When it does so for the second time on a link that frames begin to flow on. From there on the
/// time between two beats doubles, up to [`BEAT_EVERY`].
const SECOND_BEAT: Nanos = SECOND / 100;

/// What this node reports, and when it does next.
#[derive(Debug)]
pub(super) struct Beats {
    next_at: Nanos,
    /// How old what this node receives usually is, as its peers have it from the last beat; `None`
    /// before it has received any.
    way: Option<Nanos>,
    /// The scheduling delay, and what of it the peers have from the last beat.
    run_delay: RunDelay,
    reported_run_delay: Nanos,
    /// Links that frames have begun to flow on, at most one a peer.
    young: BTreeMap<LinkId, Young>,
}

/// What is sent on a link that frames have begun to flow on.
#[derive(Clone, Copy, Debug)]
struct Young {
    /// When the next beat is due.
    at: Nanos,
    /// The time from there to the one after it.
    then: Nanos,
}

impl Beats {
    pub(super) fn new(now: Nanos) -> Self {
        let run_delay = RunDelay::default();
        Self { next_at: now, way: None, run_delay, reported_run_delay: 0, young: BTreeMap::new() }
    }

    /// A link is gone.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.young.remove(&link);
    }

    /// When the next beat on any link is due.
    fn due_at(&self) -> Nanos {
        self.young.values().map(|young| young.at).fold(self.next_at, Nanos::min)
    }

    /// What was due has been sent.
    fn age(&mut self, now: Nanos) {
        self.young.retain(|_, young| {
            if young.at <= now {
                *young = Young { at: now.saturating_add(young.then), then: 2 * young.then };
            }
            young.then <= 2 * BEAT_EVERY
        });
    }
}

impl<H: Host> Core<H> {
    /// Sends this node's clock on a link that frames begin to flow on, and again soon, then ever
    /// more seldom: the first beat can say nothing of the peer's, and until one does each node may
    /// take what the other sends for older than it is, by up to half a round trip.
    pub(super) fn begin_beats(&mut self, now: Nanos, link: LinkId) {
        self.beat(now, link);
        let young = Young { at: now.saturating_add(SECOND_BEAT), then: 2 * SECOND_BEAT };
        self.beats.young.insert(link, young);
    }

    /// Sends this node's clock.
    pub(super) fn beat(&mut self, now: Nanos, link: LinkId) {
        let peer = self.dialled.get(&link).and_then(|addr| self.peers.get(addr));
        let id = peer.filter(|peer| peer.open_link() == Some(link)).and_then(|peer| peer.id);
        let delay = id.and_then(|id| self.clocks.get(&id.origin())).map(RemoteClock::delay);
        let (lag, run_delay) = (self.reported_way(), self.beats.reported_run_delay);
        self.send(link, Channel::Main, &Message::Beat { now, delay, lag, run_delay });
    }

    /// How old what this node receives usually is, as it has reported it; as it is until then.
    pub(super) fn reported_way(&self) -> Nanos {
        self.beats.way.unwrap_or_else(|| self.own_way())
    }

    /// The scheduling delay, as this node has reported it.
    pub(super) fn reported_run_delay(&self) -> Nanos {
        self.beats.reported_run_delay
    }

    /// Notes how late this step is, before anything that comes with it. One that makes the node
    /// stale does not count: nothing is decided meanwhile. While a drain takes several steps, keys
    /// are split at its end, and nothing else is due.
    pub(super) fn note_run_delay(&mut self, now: Nanos) {
        let flush = self.flush_deadline().filter(|_| self.drains.is_over());
        let due = flush.into_iter().chain(self.step_deadline()).min();
        let counts = |_: &Nanos| !self.is_stale_at(now);
        let delay = due.filter(counts).map_or(0, |due| now.saturating_sub(due));
        self.beats.run_delay.note(now, delay);
    }

    #[cfg(test)]
    pub(in crate::protocol) fn run_delay(&self) -> Nanos {
        self.beats.run_delay.most()
    }

    pub(super) fn beat_deadline(&self) -> Option<Nanos> {
        (self.census().flowing > 0).then(|| self.beats.due_at())
    }

    /// Beats on all links at once, so that all nodes learn what this one reports at the same time,
    /// and on young ones between.
    pub(super) fn tick_beats(&mut self, now: Nanos) {
        if self.beats.due_at() > now {
            return;
        }
        let flowing = self.peers.values().filter(|peer| peer.is_flowing());
        let mut links: Vec<LinkId> = flowing.filter_map(Peer::link).collect();
        if self.beats.next_at > now {
            links.retain(|link| self.beats.young.get(link).is_some_and(|young| young.at <= now));
        } else {
            self.beats.next_at = now + BEAT_EVERY;
            self.beats.way = Some(self.own_way()).filter(|way| *way > 0);
            self.beats.reported_run_delay = self.beats.run_delay.most();
        }
        for link in links {
            self.beat(now, link);
        }
        self.beats.age(now);
    }
}
