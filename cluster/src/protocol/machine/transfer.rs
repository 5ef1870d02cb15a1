//! Taking over another node's state.
//!
//! # Why nothing is missed and nothing applied twice
//! Let B(o) be the batches of origin o, numbered alike for every node. The words of a node that has
//! joined contain, for each origin, exactly the batches up to its position ([`Applied`]), and
//! everything the node itself admitted. A state is such a set of words with the positions, its
//! *version vector*; the server's own entry is the number of its last batch.
//!
//! A joining node J sends no frames and accepts none. So when the state of P has arrived, J's words
//! contain only what J itself admitted, and P's contain of J exactly the batches up to the vector's
//! entry for J, or none. For each key of the state J raises its own word to
//! `state + (what J admitted behind the vector's entry for itself)`. That is the union: if J's word
//! is the larger one, J's own use contained all of it. Then J takes over the vector as its
//! positions. So the invariant above holds for J, and every origin continues behind J's position,
//! from its log: by batches, so it does not matter that the origin coalesced frames differently for
//! P. The state is applied as a whole or not at all, so a link that breaks leaves J unchanged.
//!
//! What P admits while it reads its own words is certainly in its next batch and may be in the
//! state already; P's batch number is read first. So a burst on P in those milliseconds can count
//! twice on J, and is never missed. In the same way the raise may cover a check that runs on J
//! while the state is applied.
//!
//! Two joining nodes serve each other when no other node does: the invariant holds for a node that
//! has not joined, with an empty vector.
//!
//! An origin whose log does not reach back far enough announces a gap ([`Message::Gap`]), and its
//! state is then taken over in the same way before its frames flow. In that case the receiver's
//! words contain third nodes' use as well: the join (max) of two words that each contain what the
//! other lacks is too low by the smaller difference, and what a third node's next frame contains
//! counts twice if the state contains it too. This takes two nodes with histories that have never
//! been connected.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Core, Violation};
use crate::protocol::action::{Channel, LinkId};
use crate::protocol::bounds::{MAX_BATCH_DELTAS, MAX_ORIGINS};
use crate::protocol::delta::KeyId;
use crate::protocol::host::{Host, Level};
use crate::protocol::id::Origin;
use crate::protocol::origin::Applied;
use crate::protocol::pull::{MAX_STATE_KEYS, Pull, Served};
use crate::protocol::time::Nanos;
use crate::protocol::wire::Message;

/// Transfers served at the same time, at most. Each costs 24 bytes a live key.
const MAX_SERVED: usize = 4;
/// Unacknowledged chunks of one transfer, at most.
const WINDOW: usize = 8;
/// How long nothing may arrive before the transfer counts as stalled and another node is asked.
/// Doubles with each stall in a row, up to 16 times, so that a transfer over a slow path completes.
const STALL_TIMEOUT: Nanos = 5_000_000_000;
const MAX_DOUBLINGS: u32 = 4;
/// The delay before the next request after a busy answer.
const RETRY_DELAY: Nanos = 100_000_000;

impl<H: Host> Core<H> {
    // ---- the receiver ----

    /// Requests a peer's state, if this node needs one and no request is under way.
    pub(super) fn start_pull(&mut self, now: Nanos) {
        if self.leaving || self.pull.is_some() {
            return;
        }
        let Some((from, link)) = self.candidate() else { return };
        self.last_asked = Some(from.addr);
        self.requests += 1;
        let request = self.requests;
        let force = self.joined || now.saturating_sub(self.started) >= self.options.settled_timeout;
        self.pull = Some(Pull {
            request,
            link: Some(link),
            from,
            until: now.saturating_add(self.stall_timeout()),
            vector: Vec::new(),
            keys: None,
            entries: Vec::new(),
        });
        self.send(link, Channel::State, &Message::StateRequest { request, force });
    }

    fn stall_timeout(&self) -> Nanos {
        STALL_TIMEOUT << self.timeouts.min(MAX_DOUBLINGS)
    }

    /// The peer to request a state from: the next connected one in order of address, once joined
    /// the next of those that have announced a gap.
    fn candidate(&self) -> Option<(Origin, LinkId)> {
        let usable = |addr: SocketAddr| {
            let peer = self.peers.get(&addr)?;
            Some((Origin { addr, generation: peer.generation()? }, peer.welcomed_link()?))
        };
        if self.joined && self.gaps().next().is_none() {
            return None;
        }
        let is_needed = |of: Origin| !self.joined || self.gaps().any(|(origin, _)| origin == of);
        let behind = self.peers.keys().filter(|addr| self.last_asked.is_some_and(|a| **addr > a));
        let mut turns = behind.chain(self.peers.keys()).filter_map(|addr| usable(*addr));
        turns.find(|(origin, _)| is_needed(*origin))
    }

    pub(super) fn pull_deadline(&self) -> Option<Nanos> {
        self.pull.as_ref().map(|pull| pull.until)
    }

    pub(super) fn tick_pull(&mut self, now: Nanos) {
        let late = self.pull.take_if(|pull| pull.until <= now);
        if let Some(link) = late.and_then(|pull| pull.link) {
            self.timeouts = self.timeouts.saturating_add(1);
            self.send(link, Channel::State, &Message::StateStop);
        }
    }

    /// The link is closed: discards what arrived on it.
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
            // An answer to a request that was given up.
            return Ok(());
        };
        match message {
            Message::StateBusy { request } | Message::State { request, .. }
                if request != pull.request =>
            {
                return Ok(());
            }
            // Chunks of an earlier request: those of this one follow its `State`.
            Message::StateChunk { .. } if pull.keys.is_none() => return Ok(()),
            Message::StateBusy { .. } if pull.keys.is_none() => {
                pull.link = None;
                pull.until = now.saturating_add(RETRY_DELAY);
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

    /// Takes over the state once it is complete.
    fn finish_pull(&mut self, now: Nanos) {
        let timeout = self.stall_timeout();
        let complete =
            |pull: &mut Pull| pull.keys.is_some_and(|keys| keys == pull.entries.len() as u64);
        let Some(pull) = self.pull.take_if(complete) else {
            if let Some(pull) = &mut self.pull {
                pull.until = now.saturating_add(timeout);
            }
            return;
        };
        self.timeouts = 0;
        let gap = self.gaps().find(|(origin, _)| *origin == pull.from);
        if self.joined && gap.is_none() {
            // The gap was that of a closed link: on a new one frames with what the state contains
            // may flow already. If they cannot, the peer announces the gap again.
            return;
        }
        self.take_batch(now);
        self.raise_all(now, &pull);
        self.adopt(now, &pull);
        self.stats.states_received += 1;
        self.fresh = false;
        let first = !std::mem::replace(&mut self.joined, true);
        if first {
            self.send_all_resumes();
            self.resume_waiting(now);
        } else if let Some((_, link)) = gap {
            self.send_resume(link);
        }
    }

    /// Raises each word to that of the state plus what this node admitted that the state lacks.
    fn raise_all(&mut self, now: Nanos, pull: &Pull) {
        let me = self.me().origin();
        let known = pull.vector.iter().find(|(origin, _)| *origin == me);
        let behind = known.map_or(0, |(_, through)| *through);
        let mut own: BTreeMap<KeyId, i64> = BTreeMap::new();
        for delta in self.log.kept_since(behind).flat_map(|batch| &batch.deltas) {
            let sum = own.entry(delta.id()).or_default();
            *sum = sum.saturating_add(delta.change.debt);
        }
        for (entry, taken_at) in &pull.entries {
            let own = own.get(&(entry.limit, entry.key)).copied().unwrap_or(0);
            let debt = entry.debt.saturating_add_signed(own);
            let debt = debt.saturating_sub(now.saturating_sub(*taken_at));
            if debt > 0 && !self.host.raise(Level { debt, ..*entry }) {
                self.stats.deltas_unknown += 1;
            }
        }
    }

    /// Joins the version vectors (max), except where frames flow.
    fn adopt(&mut self, now: Nanos, pull: &Pull) {
        let me = self.me().addr;
        for (origin, through) in &pull.vector {
            if origin.addr != me
                && self.is_news(pull, *origin, *through)
                && self.room_for(now, *origin)
            {
                self.applied.insert(*origin, Applied::at(*through));
                self.recent.remove(origin);
            }
        }
    }

    /// Whether a position replaces this node's own. Frames in flight continue from the one held
    /// here; and what was applied here and not by the server must not be sent again.
    fn is_news(&self, pull: &Pull, origin: Origin, through: u64) -> bool {
        // The server waits for a position from which its log can continue.
        let asked = origin == pull.from;
        let known = self.applied.get(&origin).map(|applied| applied.position.through);
        let ahead = asked || known.is_none_or(|known| known < through);
        ahead && !self.flows_from(origin)
    }

    // ---- the server ----

    pub(super) fn serve_state(&mut self, now: Nanos, link: LinkId, request: u64, force: bool) {
        self.served.remove(&link);
        let torn =
            |(origin, applied): (&Origin, &Applied)| applied.is_torn() && self.flows_from(*origin);
        let torn = self.applied.iter().any(torn);
        if torn || self.served.len() >= MAX_SERVED || !(self.joined || force) {
            self.send(link, Channel::State, &Message::StateBusy { request });
            return;
        }
        self.take_batch(now);
        let own = self.log.last();
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

    /// Sends chunks up to the window; `acked` when one has been acknowledged.
    pub(super) fn serve_more(&mut self, now: Nanos, link: LinkId, acked: bool) {
        let Some(served) = self.served.get_mut(&link) else { return };
        served.in_flight -= usize::from(acked && served.in_flight > 0);
        let age = now.saturating_sub(served.taken_at);
        let mut chunks = Vec::new();
        while served.in_flight < WINDOW {
            let entries: Vec<Level> = served.rest.by_ref().take(MAX_BATCH_DELTAS).collect();
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
