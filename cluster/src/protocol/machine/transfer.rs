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
//! `state + (what J admitted after the vector's entry for itself)`. That is the union: if J's word
//! is the larger one, J's own use contained all of it. Then J takes over the vector as its
//! positions. So the invariant above holds for J, and every origin continues after J's position,
//! from its log: by batches, so it does not matter that the origin coalesced frames differently for
//! P. Entries are applied once all have arrived, and then all of them, so a link that breaks leaves
//! J unchanged. They are applied in slices, one at a time with other work between, so that no step
//! takes longer the larger a state is; before each, what J admitted meanwhile is added to what it
//! admitted after the vector. Until the last one J has not joined.
//!
//! P reads its words in parts too, and takes off what batches after the vector brought (see
//! `serve`). What P admits while it reads a part is certainly in its next batch and may be in the
//! state already. So a check on P in those microseconds can count twice on J, and is never missed.
//! In the same way the raise may cover a check that runs on J while a slice is applied.
//!
//! An origin whose log does not reach back far enough announces a gap ([`Message::Gap`]), and its
//! state is then taken over in the same way before its frames flow. In that case the receiver's
//! words contain third nodes' use as well. What it knows that the state lacks, its own batches and
//! the recent ones of others after the vector, is added to the state. Where the state is ahead of
//! the receiver's position of a third node, that position moves, and the link closes on which
//! batches in flight would repeat what the state contains: the origin continues on a new one. So
//! nothing counts twice. What is not known, older batches that the state lacks, remains: the join
//! (max) of two words that each contain what the other lacks is too low by the smaller difference.
//! This takes two nodes with histories that have not been connected for longer than logs reach.
//!
//! A node believes the vector, as it cannot tell from words what they contain. A server that states
//! more of a third node than its words contain makes the receiver lack the difference, up to what
//! the third node has sealed: beyond that its log does not reach, and its state is taken over. Not
//! to move the position of a node whose frames flow would not do: what the state contains beyond it
//! would be applied once more.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Core, Violation};
use crate::protocol::action::{Channel, LinkId};
use crate::protocol::change::Change;
use crate::protocol::delta::{Delta, KeyId, signed};
use crate::protocol::event::Event;
use crate::protocol::host::{Host, Level};
use crate::protocol::id::Origin;
use crate::protocol::inbound::Applied;
use crate::protocol::join_kind::JoinKind;
use crate::protocol::pull::{Entries, Progress, Pull};
use crate::protocol::time::Nanos;
use crate::protocol::wire::Message;

/// How long nothing may arrive before the transfer counts as stalled and another node is asked.
/// Doubles with each stall in a row, up to 16 times, so that a transfer over a slow path completes.
const STALL_TIMEOUT: Nanos = 5_000_000_000;
const MAX_DOUBLINGS: u32 = 4;
/// How long all of a transfer may take before another node is asked, in addition to what its
/// entries take: chunks may come for ever, and may be empty, as where few slots of a large table
/// hold a key. Doubles likewise.
const WHOLE_TIMEOUT: Nanos = 120_000_000_000;
/// What each entry adds to that: a server with the least byte cap, four transfers, and a load that
/// takes all but a quarter of it, needs as long.
const ENTRY_TIME: Nanos = 5_000_000;
/// The delay before the next request after a busy answer.
const RETRY_DELAY: Nanos = 100_000_000;
/// Entries applied in one step, at most.
const SLICE: usize = 512;
/// Keys that change here while a state is applied, at most: about 20 MiB. What is left of the state
/// is then applied at once.
const MAX_CHANGED_KEYS: usize = 1 << 19;

impl<H: Host> Core<H> {
    /// Requests a peer's state, if this node needs one and no request is under way.
    pub(super) fn start_pull(&mut self, now: Nanos) {
        if self.leaving || self.pull.is_some() {
            return;
        }
        let Some((from, link)) = self.candidate() else { return };
        self.last_asked = Some(from.addr);
        self.requests += 1;
        let request = self.requests;
        self.pull = Some(Pull {
            request,
            link: Some(link),
            from,
            until: now.saturating_add(self.stall_timeout()),
            ends: now.saturating_add(WHOLE_TIMEOUT << self.timeouts.min(MAX_DOUBLINGS)),
            vector: Vec::new(),
            as_of: now,
            progress: Progress::Requested,
            entries: Entries::default(),
        });
        self.send(link, Channel::State, &Message::StateRequest { request });
    }

    fn stall_timeout(&self) -> Nanos {
        STALL_TIMEOUT << self.timeouts.min(MAX_DOUBLINGS)
    }

    /// The peer to request a state from: the next in order of address that is connected and has
    /// joined, once this node has joined the next of those that have announced a gap.
    fn candidate(&self) -> Option<(Origin, LinkId)> {
        let joined = self.has_joined();
        let usable = |addr: SocketAddr| {
            let peer = self.peers.get(&addr).filter(|peer| joined || peer.joined)?;
            Some((Origin { addr, generation: peer.generation()? }, peer.welcomed_link()?))
        };
        if joined && self.gaps().next().is_none() {
            return None;
        }
        let is_needed = |of: Origin| !joined || self.gaps().any(|(origin, _)| origin == of);
        let after = self.peers.keys().filter(|addr| self.last_asked.is_some_and(|a| **addr > a));
        let mut turns = after.chain(self.peers.keys()).filter_map(|addr| usable(*addr));
        turns.find(|(origin, _)| is_needed(*origin))
    }

    pub(super) fn pull_deadline(&self) -> Option<Nanos> {
        self.pull.as_ref().map(|pull| pull.until)
    }

    pub(super) fn tick_pull(&mut self, now: Nanos) {
        let Some(pull) = self.pull.as_ref().filter(|pull| pull.until <= now) else { return };
        if pull.is_applying() {
            return self.apply_slice(now);
        }
        if let Some(link) = self.pull.take().and_then(|pull| pull.link) {
            self.timeouts = self.timeouts.saturating_add(1);
            self.send(link, Channel::State, &Message::StateStop);
        }
    }

    /// The link is closed: discards what arrived on it, unless that is all.
    pub(super) fn abort_pull(&mut self, link: LinkId) {
        let incomplete = |pull: &mut Pull| pull.link == Some(link) && !pull.is_applying();
        self.pull.take_if(incomplete);
    }

    /// Frames come from an origin: its state is not needed any more.
    pub(super) fn cancel_pull(&mut self, origin: Origin) {
        let unneeded = |pull: &mut Pull| pull.from == origin && !pull.is_applying();
        if let Some(link) = self.pull.take_if(unneeded).and_then(|pull| pull.link) {
            self.send(link, Channel::State, &Message::StateStop);
        }
    }

    pub(super) fn on_state(
        &mut self,
        now: Nanos,
        link: LinkId,
        transit: Nanos,
        message: Message,
    ) -> Result<(), Violation> {
        let timeout = self.stall_timeout();
        let Some(pull) = self.pull.as_mut().filter(|pull| pull.link == Some(link)) else {
            // An answer to a request that was given up.
            return Ok(());
        };
        match (message, &pull.progress) {
            (Message::StateBusy { request } | Message::State { request, .. }, _)
                if request != pull.request => {}
            // Chunks of an earlier request: those of this one follow its `State`. Or all is here.
            (Message::StateChunk { .. }, Progress::Requested)
            | (Message::StateBusy { .. }, Progress::Applying { .. }) => {}
            // The server does not serve, or no longer.
            (Message::StateBusy { .. }, Progress::Requested | Progress::Arriving) => {
                pull.link = None;
                pull.until = now.saturating_add(RETRY_DELAY);
                pull.entries = Entries::default();
                pull.progress = Progress::Requested;
            }
            (Message::State { vector, .. }, Progress::Requested) => {
                pull.vector = vector;
                pull.as_of = now.saturating_sub(transit);
                pull.progress = Progress::Arriving;
                pull.until = now.saturating_add(timeout).min(pull.ends);
            }
            (Message::StateChunk { last, entries }, Progress::Arriving) => {
                if pull.entries.is_full() {
                    return Err(Violation);
                }
                pull.ends = pull.ends.saturating_add(ENTRY_TIME * entries.len() as Nanos);
                pull.entries.add(now.saturating_sub(transit), entries);
                pull.until = now.saturating_add(timeout).min(pull.ends);
                self.send(link, Channel::State, &Message::StateAck);
                if last {
                    self.begin_applying(now);
                }
            }
            _ => return Err(Violation),
        }
        Ok(())
    }

    /// The state is complete: starts to apply it, if it is still needed.
    fn begin_applying(&mut self, now: Nanos) {
        self.timeouts = 0;
        self.take_all(now);
        let Some(mut pull) = self.pull.take() else { return };
        if self.has_joined() && !self.gaps().any(|(origin, _)| origin == pull.from) {
            // The gap was that of a closed link: on a new one frames with what the state contains
            // may flow already. If they cannot, the peer announces the gap again.
            return;
        }
        // The state may contain what waits to be applied, so it is to be in the words before.
        self.play(now);
        let own = self.known_beyond(&pull.vector);
        self.adopt(now, &pull);
        // What others are served of these words would be neither as of before nor as of after.
        self.stop_serving();
        pull.progress = Progress::Applying { own };
        pull.until = now;
        self.pull = Some(pull);
        self.apply_slice(now);
    }

    /// What this node's words contain beyond a version vector, as far as is known: its own use, and
    /// recent batches of others.
    fn known_beyond(&self, vector: &[(Origin, u64)]) -> BTreeMap<KeyId, Change> {
        let entry = |of: Origin| vector.iter().find(|(origin, _)| *origin == of);
        let through = |of| entry(of).map_or(0, |(_, through)| *through);
        let own = self.log.kept_since(through(self.me().origin()));
        let mut deltas: Vec<Delta> = own.flat_map(|batch| &batch.deltas).copied().collect();
        for (origin, applied) in &self.applied {
            let (from, to) = (through(*origin), applied.position.through);
            let Some(recent) = self.recent.get(origin).filter(|recent| recent.reaches(from, to))
            else {
                continue;
            };
            deltas.extend(recent.after(from).flat_map(|seen| &seen.deltas));
        }
        deltas.sort_by_key(|delta| delta.change.date);
        let mut changes = BTreeMap::new();
        for delta in &deltas {
            add(&mut changes, delta);
        }
        changes
    }

    /// Applies the next entries.
    fn apply_slice(&mut self, now: Nanos) {
        self.take_batch(now);
        let Some(mut pull) = self.pull.take() else { return };
        let Progress::Applying { own } = &pull.progress else { return };
        let all = own.len() > MAX_CHANGED_KEYS;
        let refused = self.stats.debts_refused;
        for (as_of, entry) in pull.entries.take(if all { usize::MAX } else { SLICE }) {
            let id = (entry.limit, entry.key);
            let own = own.get(&id).map_or(0, |change| self.left_beyond(id, *change));
            let debt = entry.debt.saturating_add_signed(own);
            let debt = debt.saturating_sub(now.saturating_sub(as_of));
            let most = self.host.most_debt(entry.limit);
            if debt > most {
                self.refuse(now, id, (most, signed(debt - most)));
            }
            let debt = debt.min(most);
            let provisional = self.splits.provisional(id);
            self.idle.forget(id);
            self.watches.forget(id);
            self.splits.raised(now, id, debt);
            let level = Level { debt: debt.saturating_add(provisional), ..entry };
            if debt > 0 && !self.host.raise(now, level) {
                self.stats.deltas_unknown += 1;
            }
            self.schedule.changed(now, (entry.limit, entry.key));
        }
        self.report_refused(now, refused, pull.from.addr);
        if pull.entries.is_empty() {
            self.end_pull(now, pull);
        } else {
            self.pull = Some(pull);
        }
    }

    /// What is left of changes after a version vector in this node's word of a key: those of before
    /// it was empty last, as far as that is known, have drained.
    fn left_beyond(&mut self, id: KeyId, change: Change) -> i64 {
        match self.idle.last_end(id) {
            Some(end) if change.debt > 0 => change.left(end),
            _ => change.debt,
        }
    }

    /// The words contain the state.
    fn end_pull(&mut self, now: Nanos, pull: Pull) {
        self.stats.states_received += 1;
        self.fresh = false;
        let gap = self.gaps().find(|(origin, _)| *origin == pull.from);
        if let Some((_, link)) = gap {
            self.send_resume(link);
        }
        if self.has_joined() {
            self.events.push(Event::StateTakenOver { of: pull.from.addr });
        } else {
            self.events.push(Event::Joined { from: pull.from.addr });
            self.await_all(now, pull.as_of);
        }
        self.enter(now, JoinKind::Joined);
        if let Progress::Applying { own } = pull.progress {
            self.discard.changes(own);
        }
    }

    /// Whether the state of `origin` is being applied: its frames continue after it.
    pub(super) fn is_applying(&self, origin: Origin) -> bool {
        self.pull.as_ref().is_some_and(|pull| pull.is_applying() && pull.from == origin)
    }

    /// Whether a state is being applied: the words do not contain yet what the positions say.
    pub(super) fn is_raising(&self) -> bool {
        self.pull.as_ref().is_some_and(Pull::is_applying)
    }

    /// Words have changed by what a state that is being applied does not contain.
    pub(super) fn note_beyond_vector(&mut self, deltas: &[Delta]) {
        if let Some(Pull { progress: Progress::Applying { own }, .. }) = &mut self.pull {
            for delta in deltas {
                add(own, delta);
            }
        }
    }

    /// Joins the version vectors (max).
    fn adopt(&mut self, now: Nanos, pull: &Pull) {
        let me = self.me().origin();
        for (origin, through) in &pull.vector {
            if *origin == me || !self.is_news(pull, *origin, *through) {
                continue;
            }
            // Frames in flight would repeat what the state contains.
            if let Some(link) = self.flow_of(*origin) {
                self.close(now, link);
            }
            if self.room_for(now, *origin) {
                self.applied.insert(*origin, Applied::at(now, *through));
                self.forget_recent(*origin);
            }
        }
    }

    /// Whether a position replaces this node's own. What was applied here and not by the server
    /// must not be sent again.
    fn is_news(&self, pull: &Pull, origin: Origin, through: u64) -> bool {
        // The server waits for a position from which its log can continue.
        let asked = origin == pull.from;
        let known = self.applied.get(&origin).map(|applied| applied.position);
        let ahead = asked || known.is_none_or(|known| known.is_before(through));
        ahead && (!asked || self.flow_of(origin).is_none())
    }
}

fn add(changes: &mut BTreeMap<KeyId, Change>, delta: &Delta) {
    let all = changes.entry(delta.word_id());
    all.and_modify(|all| *all = all.then(delta.change)).or_insert(delta.change);
}
