//! One key to hash by, for the whole cluster.
//!
//! A node draws a key at its start and uses another's that wins ([`HashKey`]). Keys travel with
//! `Hello` and `Welcome`, before anything else on a link, and with `Key` on open links whenever a
//! node takes another one. So a node that joins has the cluster's key before it takes over its
//! state, and frames are only sent and received by nodes that have the same key.
//!
//! A node that has joined changes its key only when two clusters meet that were founded apart. Then
//! the nodes of the one whose key loses, the younger one or one of a single node, start over: under
//! a new generation, without what they have sent and received, they join the other one, and are not
//! current until they have. Their words drain; the new keys' words come with the state.

use std::net::SocketAddr;

use super::beat::Beats;
use super::{Core, Unlinked, Violation};
use crate::protocol::action::{Action, Channel, LinkId};
use crate::protocol::backlog::Backlog;
use crate::protocol::bounds::{HASH_KEY_EVERY, MAX_HASH_KEYS};
use crate::protocol::drains::Drains;
use crate::protocol::event::Event;
use crate::protocol::hash_key::HashKey;
use crate::protocol::host::Host;
use crate::protocol::id::NodeId;
use crate::protocol::idle::IdleSpans;
use crate::protocol::join_kind::JoinKind;
use crate::protocol::log::Log;
use crate::protocol::membership::Membership;
use crate::protocol::pace::Pace;
use crate::protocol::peer::Peer;
use crate::protocol::refused::Refused;
use crate::protocol::split::Splits;
use crate::protocol::time::Nanos;
use crate::protocol::watch::Watches;
use crate::protocol::wire::Message;

/// What becomes of this node when another one announces its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// It goes on.
    Same,
    /// It has started over, and closed all links.
    StartedOver,
}

/// One key more is used: until when there are as many to make up for as have been used at once,
/// one each [`HASH_KEY_EVERY`]. `None` beyond [`MAX_HASH_KEYS`].
fn spend_key(until: Nanos, now: Nanos) -> Option<Nanos> {
    let next = until.max(now).saturating_add(HASH_KEY_EVERY);
    (next.saturating_sub(now) <= HASH_KEY_EVERY * MAX_HASH_KEYS as u64).then_some(next)
}

impl<H: Host> Core<H> {
    /// The key under which this node is to hash keys. It may change after any input.
    #[must_use]
    pub fn hash_key(&self) -> HashKey {
        self.hash_key
    }

    /// The node at `from` uses this key.
    pub(super) fn meet_key(
        &mut self,
        now: Nanos,
        theirs: HashKey,
        from: SocketAddr,
    ) -> Result<Met, Violation> {
        let changes = theirs.to_bytes() != self.hash_key.to_bytes();
        // The same key differs between nodes in its recorded use alone.
        if theirs >= self.hash_key || !changes && !theirs.is_same_drawn(self.hash_key) {
            return Ok(Met::Same);
        }
        if changes {
            self.keys_until = spend_key(self.keys_until, now).ok_or(Violation)?;
            self.stats.hash_keys += 1;
        }
        self.hash_key = theirs;
        if changes && (self.has_joined() || self.pull.is_some()) {
            self.start_over(now, from);
            return Ok(Met::StartedOver);
        }
        self.send_key();
        Ok(Met::Same)
    }

    /// This node has joined, or founds: its key is in use.
    pub(super) fn use_key(&mut self, join_kind: JoinKind) {
        let key = match join_kind {
            JoinKind::Founded | JoinKind::FoundedAlone => self.hash_key.founded(),
            JoinKind::Joined => self.hash_key.in_use(),
        };
        if std::mem::replace(&mut self.hash_key, key) != key {
            self.send_key();
        }
    }

    fn send_key(&mut self) {
        let own = self.peers.values().filter_map(Peer::welcomed_link);
        let others = self.inbound.iter().filter(|(_, link)| link.id.is_some());
        let links: Vec<LinkId> = own.chain(others.map(|(link, _)| *link)).collect();
        for link in links {
            self.send(link, Channel::Main, &Message::Key { key: self.hash_key });
        }
    }

    /// Joins the node at `from`, as a new generation that knows nothing.
    fn start_over(&mut self, now: Nanos, from: SocketAddr) {
        let own = self.peers.values().filter_map(Peer::link);
        for link in own.chain(self.inbound.keys().copied()) {
            self.actions.push_back(Action::Close { link });
        }
        let me = self.me();
        // As by the wall clock, from which generations come.
        let age = now.saturating_sub(self.started).max(1);
        let next = NodeId::new(me.addr, me.generation.saturating_add(age));
        let rank = if next.outranks(me.rank) { next.rank } else { me.rank.wrapping_add(1).max(1) };
        self.membership = Membership::new(NodeId { rank, ..next }, &self.options);
        self.started = now;
        self.peers.replace(self.seeds.peers(now));
        self.peers.get_or_insert_with(from, || Peer::new(now));
        self.undialled.clear();
        self.dialled.clear();
        self.inbound.clear();
        self.applied.clear();
        self.clocks.clear();
        self.beats = Beats::new(now);
        self.recent.clear();
        self.recent_at = None;
        self.pending_levels.clear();
        self.watches = Watches::default();
        self.idle = IdleSpans::default();
        self.refused = Refused::default();
        self.splits = Splits::default();
        self.pace = Pace::default();
        self.estimates.start_over();
        self.stale.start_over(self.has_joined());
        self.shifts.clear();
        self.drains = Drains::new(now);
        self.log = Log::default();
        self.trim_at = None;
        self.backlog = Backlog::new(self.options.backlog_keys);
        self.pull = None;
        self.timeouts = 0;
        self.served.clear();
        self.leaves_after = None;
        self.unlinked = Unlinked::default();
        self.founding.start_over(now);
        (self.join_kind, self.fresh) = (None, false);
        self.events.push(Event::StartedOver { with: from });
    }
}
