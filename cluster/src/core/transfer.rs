//! Taking over another node's state.
//!
//! # Why nothing is missed and nothing applied twice
//! Let B(o) be the batches of origin o, numbered alike for every node. The words of a node that has
//! joined contain, for each origin, exactly the batches up to its position ([`Applied`]), besides
//! everything the node itself admitted. A state is such a set of words, with the positions: its
//! *vector*; the server's own entry is the number of its last batch.
//!
//! A joining node J tells no frames and lets none flow in. So when the state of P has arrived, J's
//! words contain only what J itself admitted, and P's contain of J exactly the batches up to the
//! vector's entry for J, or none. For each key of the state J raises its own word to
//! `state + (what J admitted behind the vector's entry for itself)`. That is the union: if J's word
//! is the larger one, J's own use contained all of it. Then J takes over the vector as its
//! positions. Now the invariant above holds for J, and every origin continues behind J's position,
//! from its log: by batches, so a frame that the origin had coalesced differently for P does not
//! matter. The state is applied as a whole or not at all, so a link that breaks on the way leaves J
//! as it was.
//!
//! What P admits while it reads its own words is in its next batch for certain and may be in the
//! state already; P's number is taken before. So a burst on P in those milliseconds can count
//! twice on J, and never is missed. In the same way a check that runs on J while the state is
//! applied may be covered by the raise.
//!
//! Two joining nodes serve each other when nobody else does: the invariant holds for a node that has
//! not joined yet, with an empty vector.
//!
//! An origin whose log does not reach back far enough says so ([`Message::Gap`]), and then its state is
//! taken in the same way before its frames flow. The receiver's words then contain third nodes' use
//! as well, and the maximum of two words that each contain what the other lacks is too low by the
//! smaller difference; and what a third node's frame is about to tell counts twice if the state
//! contains it. It takes nodes that have never met and both have a history.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::host::Delta;
use super::id::Origin;
use super::inbound::Applied;
use super::wire::{Message, Position};
use super::{Channel, Core, Host, LinkId, MAX_FRAME_DELTAS, MAX_ORIGINS, Nanos, Violation};

/// Nodes that are served at the same time, at most. Each costs 24 bytes a live key.
const MAX_SERVED: usize = 4;
/// Chunks on their way to one node, at most.
const WINDOW: usize = 8;
/// Keys of a state that is taken over, at most: 512 MiB, 32 bytes each.
const MAX_STATE_KEYS: u64 = 1 << 24;
const _: () = assert!(MAX_STATE_KEYS * size_of::<Entry>() as u64 == 512 << 20);
/// How long nothing may arrive before another node is asked. Twice as long after each time it was too
/// short, up to 16 times, so that a path that is always slow gets its state through.
const PATIENCE: Nanos = 5_000_000_000;
const MAX_DOUBLINGS: u32 = 4;
/// How long to wait before asking again.
const RETRY: Nanos = 100_000_000;

/// A state on its way in.
#[derive(Debug)]
pub(super) struct Pull {
    /// The number under which it was asked for, of all this core asked for.
    request: u64,
    link: Option<LinkId>,
    from: Origin,
    /// Give up, or ask again, at this time.
    until: Nanos,
    vector: Vec<(Origin, Position)>,
    keys: Option<u64>,
    entries: Vec<Entry>,
}

/// With the time at which it was so.
type Entry = (Delta, Nanos);

/// A state on its way out.
#[derive(Debug)]
pub(super) struct Served {
    taken_at: Nanos,
    rest: std::vec::IntoIter<Delta>,
    in_flight: usize,
}

impl<H: Host> Core<H> {
    // ---- the side that asks ----

    /// Asks a peer for its state, if this node needs one and is not asking already.
    pub(super) fn start_pull(&mut self, now: Nanos) {
        if self.leaving || self.pull.is_some() {
            return;
        }
        let Some((from, link)) = self.candidate() else { return };
        self.asked = Some(from.addr);
        self.requests += 1;
        let request = self.requests;
        let force =
            self.joined || now.saturating_sub(self.started) >= self.options.settled_patience;
        self.pull = Some(Pull {
            request,
            link: Some(link),
            from,
            until: now.saturating_add(self.patience()),
            vector: Vec::new(),
            keys: None,
            entries: Vec::new(),
        });
        self.send(link, Channel::State, &Message::StateRequest { request, force });
    }

    fn patience(&self) -> Nanos {
        PATIENCE << self.misses.min(MAX_DOUBLINGS)
    }

    /// Whom to ask: the next connected peer in order of address, and once joined the next of those that
    /// have announced a gap.
    fn candidate(&self) -> Option<(Origin, LinkId)> {
        let usable = |addr: SocketAddr| {
            let peer = self.peers.get(&addr)?;
            Some((Origin { addr, generation: peer.generation()? }, peer.welcomed_link()?))
        };
        if self.joined && self.gaps().next().is_none() {
            return None;
        }
        let is_needed = |of: Origin| !self.joined || self.gaps().any(|(origin, _)| origin == of);
        let behind = self.peers.keys().filter(|addr| self.asked.is_some_and(|a| **addr > a));
        let mut turns = behind.chain(self.peers.keys()).filter_map(|addr| usable(*addr));
        turns.find(|(origin, _)| is_needed(*origin))
    }

    pub(super) fn pull_deadline(&self) -> Option<Nanos> {
        self.pull.as_ref().map(|pull| pull.until)
    }

    pub(super) fn tick_pull(&mut self, now: Nanos) {
        let late = self.pull.take_if(|pull| pull.until <= now);
        if let Some(link) = late.and_then(|pull| pull.link) {
            self.misses = self.misses.saturating_add(1);
            self.send(link, Channel::State, &Message::StateStop);
        }
    }

    /// The link is gone: what arrived on it is worth nothing.
    pub(super) fn abort_pull(&mut self, link: LinkId) {
        if self.pull.as_ref().is_some_and(|pull| pull.link == Some(link)) {
            self.pull = None;
        }
    }

    pub(super) fn on_state(
        &mut self,
        now: Nanos,
        link: LinkId,
        transit: Nanos,
        message: Message,
    ) -> Result<(), Violation> {
        let Some(pull) = self.pull.as_mut().filter(|pull| pull.link == Some(link)) else {
            // The answer to a question that was given up.
            return Ok(());
        };
        match message {
            Message::StateBusy { request } | Message::State { request, .. }
                if request != pull.request =>
            {
                return Ok(());
            }
            // On the stream the entries of a state come behind it.
            Message::StateChunk { .. } if pull.keys.is_none() => return Ok(()),
            Message::StateBusy { .. } if pull.keys.is_none() => {
                pull.link = None;
                pull.until = now.saturating_add(RETRY);
                return Ok(());
            }
            Message::State { vector, keys, .. } if pull.keys.is_none() => {
                if keys > MAX_STATE_KEYS || vector.len() > MAX_ORIGINS + 1 {
                    return Err(Violation);
                }
                pull.keys = Some(keys);
                pull.vector = vector;
            }
            Message::StateChunk { age, entries } => {
                let announced = pull.keys.ok_or(Violation)?;
                if (pull.entries.len() + entries.len()) as u64 > announced {
                    return Err(Violation);
                }
                let taken_at = now.saturating_sub(age.saturating_add(transit));
                pull.entries.extend(entries.into_iter().map(|entry| (entry, taken_at)));
                self.send(link, Channel::State, &Message::StateAck);
            }
            _ => return Err(Violation),
        }
        self.finish_pull(now);
        Ok(())
    }

    /// Takes the state over once it is complete.
    fn finish_pull(&mut self, now: Nanos) {
        let patience = self.patience();
        let complete =
            |pull: &mut Pull| pull.keys.is_some_and(|keys| keys == pull.entries.len() as u64);
        let Some(pull) = self.pull.take_if(complete) else {
            if let Some(pull) = &mut self.pull {
                pull.until = now.saturating_add(patience);
            }
            return;
        };
        self.misses = 0;
        let gap = self.gaps().find(|(origin, _)| *origin == pull.from);
        if self.joined && gap.is_none() {
            // The gap was that of a link that is gone: its frames may flow meanwhile, and tell what the
            // state contains. If they can not, it says so again.
            return;
        }
        self.take_batch(now);
        self.raise_all(now, &pull);
        self.adopt(&pull);
        self.stats.states_received += 1;
        self.fresh = false;
        let first = !std::mem::replace(&mut self.joined, true);
        if first {
            self.let_all_flow();
            self.resume_waiting(now);
        } else if let Some((_, link)) = gap {
            self.let_flow(link);
        }
    }

    /// Raises each word to the state's, plus what this node admitted that the state lacks.
    fn raise_all(&mut self, now: Nanos, pull: &Pull) {
        let me = self.me().origin();
        let known = pull.vector.iter().find(|(origin, _)| *origin == me);
        let behind = known.map_or(0, |(_, position)| position.through);
        let mut own: BTreeMap<(u64, u64), Nanos> = BTreeMap::new();
        for delta in self.log.kept_since(behind).flat_map(|batch| &batch.deltas) {
            let sum = own.entry((delta.limit, delta.key)).or_default();
            *sum = sum.saturating_add(delta.debt);
        }
        for (entry, taken_at) in &pull.entries {
            let own = own.get(&(entry.limit, entry.key)).copied().unwrap_or(0);
            let debt = entry.debt.saturating_add(own);
            let debt = debt.saturating_sub(now.saturating_sub(*taken_at));
            if debt > 0 && !self.host.raise(Delta { debt, ..*entry }) {
                self.stats.deltas_unknown += 1;
            }
        }
    }

    /// Takes over the vector where it is ahead, except where frames flow already.
    fn adopt(&mut self, pull: &Pull) {
        let me = self.me().addr;
        for (origin, position) in &pull.vector {
            if origin.addr != me && self.is_news(pull, *origin, *position) && self.room_for(*origin)
            {
                let position = Position { seq: 0, ..*position };
                self.applied.insert(*origin, Applied { position, split: false });
            }
        }
    }

    /// A frame that is on its way continues from the position known here; and what was applied
    /// here and not yet where the state is from must not be told again.
    fn is_news(&self, pull: &Pull, origin: Origin, position: Position) -> bool {
        // Who was asked waits to be told a position from which it can continue.
        let asked = origin == pull.from;
        let known = self.applied.get(&origin).map(|applied| applied.position.through);
        let ahead = asked || known.is_none_or(|through| through < position.through);
        ahead && !self.flows_from(origin)
    }

    // ---- the side that answers ----

    pub(super) fn serve_state(&mut self, now: Nanos, link: LinkId, request: u64, force: bool) {
        self.served.remove(&link);
        let split =
            |(origin, applied): (&Origin, &Applied)| applied.split && self.flows_from(*origin);
        let torn = self.applied.iter().any(split);
        if torn || self.served.len() >= MAX_SERVED || !(self.joined || force) {
            self.send(link, Channel::State, &Message::StateBusy { request });
            return;
        }
        self.take_batch(now);
        let own = Position { seq: 0, through: self.log.last() };
        let others = self.applied.iter().map(|(origin, applied)| (*origin, applied.entry()));
        let vector = others.chain([(self.me().origin(), own)]).collect();
        let mut live = self.host.live();
        live.truncate(MAX_STATE_KEYS as usize);
        self.stats.states_served += 1;
        let state = Message::State { request, vector, keys: live.len() as u64 };
        self.send(link, Channel::State, &state);
        self.served.insert(link, Served { taken_at: now, rest: live.into_iter(), in_flight: 0 });
        self.serve_more(now, link, false);
    }

    /// Sends as many chunks as may be on their way; `acked` when one of them has arrived.
    pub(super) fn serve_more(&mut self, now: Nanos, link: LinkId, acked: bool) {
        let Some(served) = self.served.get_mut(&link) else { return };
        served.in_flight -= usize::from(acked && served.in_flight > 0);
        let age = now.saturating_sub(served.taken_at);
        let mut chunks = Vec::new();
        while served.in_flight < WINDOW {
            let entries: Vec<Delta> = served.rest.by_ref().take(MAX_FRAME_DELTAS).collect();
            if entries.is_empty() {
                break;
            }
            served.in_flight += 1;
            chunks.push(Message::StateChunk { age, entries });
        }
        if served.in_flight == 0 {
            self.served.remove(&link);
        }
        for chunk in chunks {
            self.send(link, Channel::State, &chunk);
        }
    }
}

impl Applied {
    /// The origin's entry in a vector. Half a set of deltas is no position anybody could continue
    /// from; the origin will answer this one with a gap.
    fn entry(&self) -> Position {
        let through = if self.split { u64::MAX } else { self.position.through };
        Position { seq: 0, through }
    }
}
