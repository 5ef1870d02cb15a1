//! How a cluster begins, and how all its nodes agree on which of them begins it.
//!
//! A node that was given no other node founds at once. One that was given some founds
//! * as soon as all of them have answered and none has joined: then no node has a state (`seeds.rs`
//!   says what that is where they are looked up);
//! * or once [`Options::found_after`] has passed, and no node answers that has joined.
//!
//! Of nodes that wait for each other only the one with the lowest address founds, and the others
//! take over its state: each compares itself with those whose answer it has, so of any two that
//! reach each other one waits. A node that waits for one that is gone sees its link close, and
//! looks again, and gives up one that answers and does not found ([`WAIT_FACTOR`]). So nodes that
//! are started together with the same list become one cluster, and wait no longer than until they
//! have all answered.
//!
//! While a node is stopped the others go on: they found without it, and close its links. So what it
//! knows of them by then is void. It waits anew, and asks those again that had not joined.
//!
//! Once a node has had a link to one that has joined, there is a state. Where that link closes, or
//! the other node restarts, a third one may have that state too: so the node founds no sooner than
//! after `found_after`, also where all seeds have answered.
//!
//! [`Options::found_after`]: crate::protocol::Options::found_after

use super::Core;
use super::stale::STEP_EVERY;
use crate::protocol::event::Event;
use crate::protocol::host::Host;
use crate::protocol::join_kind::JoinKind;
use crate::protocol::peer::Peer;
use crate::protocol::time::Nanos;

/// How long a node that is to found is waited for, in [`Options::found_after`]: it may be starved,
/// and begin to wait anew again and again. Nodes give it up one after the other, so that the first
/// of them founds alone.
///
/// [`Options::found_after`]: crate::protocol::Options::found_after
const WAIT_FACTOR: u64 = 2;

/// What a node that has not joined knows of how long it has to wait.
#[derive(Debug)]
pub(super) struct Founding {
    /// From when on [`Options::found_after`] counts: the start, the last step that came as late as
    /// after a stop, or the last one with a link to a node that has joined.
    ///
    /// [`Options::found_after`]: crate::protocol::Options::found_after
    since: Nanos,
    /// There has been such a link, so there is a state.
    has_met_joined: bool,
}

impl Founding {
    pub(super) fn new(now: Nanos) -> Self {
        Self { since: now, has_met_joined: false }
    }

    /// The node starts over, as it has met another cluster.
    pub(super) fn start_over(&mut self, now: Nanos) {
        *self = Self { since: now, has_met_joined: true };
    }
}

impl<H: Host> Core<H> {
    /// Founds a cluster if it is this node's turn.
    pub(super) fn found_when_due(&mut self, now: Nanos) {
        if self.has_joined() || self.leaving {
            return;
        }
        let answered = || self.peers.iter().filter(|(_, peer)| peer.welcomed_link().is_some());
        if answered().any(|(_, peer)| peer.joined) {
            self.founding = Founding { since: now, has_met_joined: true };
            return;
        }
        let me = self.me().addr;
        let lower = answered().filter(|(addr, _)| **addr < me).count() as Nanos;
        if self.pull.is_some() || lower > 0 && now < self.waits_for(lower) {
            return;
        }
        if !self.founding.has_met_joined && self.all_seeds_have_answered() {
            self.found(now, JoinKind::Founded);
        } else if self.founds_at() <= now {
            self.found(now, JoinKind::FoundedAlone);
        }
    }

    fn found(&mut self, now: Nanos, join_kind: JoinKind) {
        self.fresh = true;
        self.events.push(Event::Founded);
        self.enter(now, join_kind);
    }

    /// This node has a state: frames may flow to and from it.
    pub(super) fn enter(&mut self, now: Nanos, join_kind: JoinKind) {
        let first = self.join_kind.is_none();
        self.join_kind.get_or_insert(join_kind);
        self.use_key(join_kind);
        self.send_all_resumes();
        if first {
            self.resume_waiting(now);
        }
    }

    /// This node was stopped or starved before it has joined: the wait begins anew, and peers that
    /// had not joined by their last answer are dialled anew. A state may go on to arrive from one
    /// that had.
    pub(super) fn wait_anew(&mut self, now: Nanos) {
        self.founding.since = now;
        let is_void = |peer: &Peer| !peer.joined || peer.welcomed_link().is_none();
        let void = self.peers.iter().filter(|(_, peer)| is_void(peer));
        let void = void.filter_map(|(addr, peer)| Some((peer.open_link()?, *addr)));
        let void: Vec<_> = void.collect();
        for (link, addr) in void {
            self.close(now, link);
            self.dial_at_once(now, addr);
        }
    }

    fn founds_at(&self) -> Nanos {
        self.founding.since.saturating_add(self.options.found_after)
    }

    /// Until when this node waits for one of the nodes with lower addresses that have answered.
    fn waits_for(&self, lower: Nanos) -> Nanos {
        let each = self.options.found_after.saturating_mul(WAIT_FACTOR);
        self.founds_at().saturating_add(each.saturating_mul(lower))
    }

    /// When a node that has not joined is stepped next, so that a stop shows, and it founds in time
    /// unless it waits for another one to.
    pub(super) fn found_deadline(&self) -> Option<Nanos> {
        let stepped_at = self.stale.stepped_at();
        let waits = !self.has_joined() && !self.leaving;
        let founds_at = Some(self.founds_at()).filter(|at| *at > stepped_at);
        let next = stepped_at.saturating_add(STEP_EVERY);
        waits.then(|| founds_at.map_or(next, |at| at.min(next)))
    }
}
