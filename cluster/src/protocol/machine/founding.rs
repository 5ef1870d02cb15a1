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
//! looks again. So nodes that are started together with the same list become one cluster, without
//! waiting for longer than until they have all answered.
//!
//! [`Options::found_after`]: crate::protocol::Options::found_after

use super::Core;
use crate::protocol::event::Event;
use crate::protocol::host::Host;
use crate::protocol::join_kind::JoinKind;
use crate::protocol::time::Nanos;

impl<H: Host> Core<H> {
    /// Founds a cluster if it is this node's turn.
    pub(super) fn found_when_due(&mut self, now: Nanos) {
        self.waited |= self.started.saturating_add(self.options.found_after) <= now;
        if self.has_joined() || self.leaving || self.pull.is_some() {
            return;
        }
        let answered = || self.peers.iter().filter(|(_, peer)| peer.welcomed_link().is_some());
        let me = self.me().addr;
        if answered().any(|(addr, peer)| peer.joined || *addr < me) {
            return;
        }
        if self.all_seeds_have_answered() {
            self.found(now, JoinKind::Founded);
        } else if self.waited {
            self.found(now, JoinKind::Alone);
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

    /// When this node founds at the latest, unless it waits for another one to.
    pub(super) fn found_deadline(&self) -> Option<Nanos> {
        let waits = !self.has_joined() && !self.leaving && !self.waited;
        waits.then(|| self.started.saturating_add(self.options.found_after))
    }
}
