//! Links that this node dials, and its frames.

use std::net::SocketAddr;

use rand::RngExt;

use super::frames::Unsent;
use super::key_agreement::Met;
use super::{Core, Violation};
use crate::protocol::action::{Action, Channel, LinkId};
use crate::protocol::bounds::OLDEST_VERSION;
use crate::protocol::cursor::Cursor;
use crate::protocol::event::Event;
use crate::protocol::hash_key::HashKey;
use crate::protocol::host::Host;
use crate::protocol::id::{NodeId, Origin};
use crate::protocol::peer::{Claim, Dial, Peer};
use crate::protocol::subject::Subject;
use crate::protocol::time::Nanos;
use crate::protocol::wire::{Message, Position};

/// The shortest delay before dialling again.
const BACKOFF_MIN: Nanos = 100_000_000;
/// The longest delay before dialling again.
const BACKOFF_MAX: Nanos = 5_000_000_000;
/// A node that opens a link is dialled anew where it has not answered for `UNANSWERED`, and for
/// `ANSWER_TRANSITS` times what a message takes: its own dial may have begun as late as that.
const UNANSWERED: Nanos = 100_000_000;
const ANSWER_TRANSITS: u64 = 4;
/// Where its link is open, its answer may be lost: that is sent again within this, as a rule. Later
/// than that the link is one to a run that is gone, which ended before it answered.
const UNWELCOMED: Nanos = 500_000_000;
/// How often this node announces itself to a connected peer that is not an active member.
const ANNOUNCE_EVERY: Nanos = 1_000_000_000;

impl<H: Host> Core<H> {
    pub(super) fn member_up(&mut self, now: Nanos, id: NodeId) {
        self.add_peer(now, id.addr, Claim::Hearsay);
        self.await_too(now, id.addr);
        if let Some(peer) = self.peers.get_mut(&id.addr) {
            peer.down_since = None;
        }
    }

    pub(in crate::protocol) fn member_down(&mut self, now: Nanos, id: NodeId) {
        if let Some(peer) = self.peers.get_mut(&id.addr) {
            peer.down_since.get_or_insert(now);
        }
        self.undialled.retain(|addr| *addr != id.addr);
        // A node that others consider down may have sent what is under way.
        if self.inbound.from(id.addr).is_none() {
            self.stop_awaiting(now, id.addr);
        }
    }

    /// The node has opened a link, so it is reachable: dials it at once, also when a link to
    /// another run of it has not been detected as dead. That run is an earlier one, as a rule: a
    /// clock may go back. `transit` is how long a message from it takes.
    pub(super) fn dial_now(&mut self, now: Nanos, id: NodeId, transit: Nanos) {
        self.add_peer(now, id.addr, Claim::Proven);
        let Some(peer) = self.peers.get_mut(&id.addr) else { return };
        let unanswered = UNANSWERED.max(transit.saturating_mul(ANSWER_TRANSITS));
        match peer.dial {
            Dial::Open { link, welcomed, .. } => {
                let answer_by = peer.opened_at.saturating_add(unanswered.max(UNWELCOMED));
                let is_over = peer.is_over(now, id.generation);
                if is_over && peer.generation().is_some_and(|known| known > id.generation) {
                    peer.contended_at = Some(now);
                }
                peer.answer_by = Some(answer_by).filter(|_| !welcomed);
                if is_over || !welcomed && answer_by <= now {
                    self.close(now, link);
                    self.dial_at_once(now, id.addr);
                }
            }
            // It began before the node was there: a handshake is repeated ever more seldom.
            Dial::Dialling { link, since } if now.saturating_sub(since) >= unanswered => {
                peer.dial = Dial::Waiting { until: now };
                peer.answer_by = None;
                self.dialled.remove(&link);
                self.actions.push_back(Action::Close { link });
            }
            Dial::Waiting { .. } => self.dial_at_once(now, id.addr),
            Dial::Dialling { .. } => {
                peer.answer_by = Some(now.saturating_add(unanswered.max(UNWELCOMED)));
            }
        }
    }

    /// Closes the link to a node, if it is open, and dials it once more.
    fn dial_anew(&mut self, now: Nanos, addr: SocketAddr) {
        if let Some(link) = self.peers.get(&addr).and_then(Peer::open_link) {
            self.close(now, link);
            self.dial_at_once(now, addr);
        }
    }

    /// Where a node is not being dialled, it is next.
    pub(super) fn dial_at_once(&mut self, now: Nanos, addr: SocketAddr) {
        let waiting = self.peers.get_mut(&addr).filter(|peer| peer.link().is_none());
        if let Some(peer) = waiting {
            peer.dial = Dial::Waiting { until: now };
        }
    }

    /// The node at `addr` will not return in this generation: drops what is kept for it.
    pub(super) fn peer_left(&mut self, now: Nanos, addr: SocketAddr) {
        self.stop_awaiting(now, addr);
        let Some(peer) = self.peers.get_mut(&addr) else { return };
        let link = peer.link();
        if peer.seed {
            // That it may come back one day keeps no node from leaving.
            let reset = Peer { attempts: 1, ..Peer::seed(now.saturating_add(BACKOFF_MAX)) };
            self.peers.insert(addr, reset);
        } else {
            self.peers.remove(&addr);
        }
        if let Some(link) = link {
            self.close(now, link);
        }
    }

    pub(super) fn open_links(&self) -> Vec<LinkId> {
        self.peers.values().filter_map(Peer::open_link).collect()
    }

    /// A link that this node dialled is open; `subject` is that of the other side's certificate.
    pub fn connected(&mut self, now: Nanos, link: LinkId, subject: Subject) {
        self.begin_step(now);
        self.on_connected(now, link, subject);
        self.settle(now);
    }

    fn on_connected(&mut self, now: Nanos, link: LinkId, subject: Subject) {
        let (id, key) = (self.me(), self.hash_key);
        let version = self.options.newest_version;
        let hello = Message::Hello { version, oldest: OLDEST_VERSION, id, key };
        let peer = self.dialled.get(&link).and_then(|addr| self.peers.get_mut(addr));
        let is_dialled =
            |dial| matches!(dial, Dial::Dialling { link: dialled, .. } if dialled == link);
        let Some(peer) = peer.filter(|peer| is_dialled(peer.dial)) else {
            self.actions.push_back(Action::Close { link });
            return;
        };
        peer.dial = Dial::Open { link, welcomed: false, flowing: false };
        peer.opened_at = now;
        peer.answer_by = peer.answer_by.map(|at| at.max(now.saturating_add(UNWELCOMED)));
        peer.subject = Some(subject);
        // That of the greeting.
        peer.version = OLDEST_VERSION;
        self.send(link, Channel::Main, &hello);
    }

    /// A link was closed by the other node, or by the network: counts it if it was dialled and not
    /// welcomed, as where the other node refuses this one's certificate, which it sees last.
    pub(super) fn count_unwelcomed(&mut self, link: LinkId) {
        let peer = self.dialled.get(&link).and_then(|addr| self.peers.get(addr));
        let peer = peer.filter(|peer| peer.open_link() == Some(link));
        let is_unwelcomed = peer.is_some_and(|peer| peer.welcomed_link().is_none());
        self.stats.dials_failed += u64::from(is_unwelcomed);
    }

    /// The link that was dialled for an address is gone.
    pub(super) fn peer_closed(&mut self, now: Nanos, link: LinkId, addr: Option<SocketAddr>) {
        let wait = self.rng.random_range(50..=100_u64);
        let Some(addr) = addr else { return };
        let active = self.membership.is_active(addr);
        let Some(peer) = self.peers.get_mut(&addr).filter(|peer| peer.link() == Some(link)) else {
            return;
        };
        let was_open = matches!(peer.dial, Dial::Open { welcomed: true, .. });
        self.stats.dials_failed += u64::from(matches!(peer.dial, Dial::Dialling { .. }));
        if !active {
            // A node that never became a member is not dialled for ever either.
            peer.down_since.get_or_insert(now);
        }
        peer.answer_by = None;
        peer.attempts = peer.attempts.saturating_add(1);
        // A node that waits to catch up with its peers waits for nothing else.
        let at_once = was_open && self.stale.is_stale();
        let backoff = BACKOFF_MIN.saturating_mul(1 << peer.attempts.min(6)).min(BACKOFF_MAX);
        let backoff = if at_once { 0 } else { backoff };
        peer.dial = Dial::Waiting { until: now.saturating_add(backoff / 100 * wait) };
        peer.resume = None;
        if was_open {
            self.events.push(Event::LinkClosed { addr });
        }
    }

    pub(super) fn dial_due(&mut self, now: Nanos) {
        if self.leaving {
            return;
        }
        self.fill_places(now);
        if self.census().dial_at.is_none_or(|at| at > now) {
            return;
        }
        let due = |peer: &Peer| matches!(peer.dial, Dial::Waiting { until } if until <= now);
        let due = self.peers.iter().filter(|(_, peer)| due(peer));
        let due: Vec<_> = due.map(|(addr, peer)| (*addr, peer.alias)).collect();
        for (addr, alias) in due {
            let linked = |addr: SocketAddr| self.peers.get(&addr).and_then(Peer::link).is_some();
            // A second link to a node closes the first.
            let dial = if alias.is_some_and(linked) {
                Dial::Waiting { until: now.saturating_add(BACKOFF_MAX) }
            } else {
                let link = self.new_link();
                self.dialled.insert(link, addr);
                self.actions.push_back(Action::Dial { link, addr });
                Dial::Dialling { link, since: now }
            };
            if let Some(peer) = self.peers.get_mut(&addr) {
                peer.dial = dial;
            }
        }
    }

    pub(super) fn peers_deadline(&self) -> Option<Nanos> {
        if self.leaving {
            return None;
        }
        let census = self.census();
        [census.dial_at, census.announce_at, census.answer_by].into_iter().flatten().min()
    }

    pub(super) fn tick_peers(&mut self, now: Nanos) {
        if self.leaving {
            return;
        }
        if self.census().announce_at.is_some_and(|at| at <= now) {
            let is_due = |addr: &SocketAddr, peer: &Peer| {
                let is_connected = peer.welcomed_link().is_some() && peer.announce_at <= now;
                is_connected && !self.membership.is_active(*addr)
            };
            for addr in self.peers_that(is_due) {
                self.announce(now, addr);
            }
        }
        if self.census().answer_by.is_some_and(|at| at <= now) {
            let is_due = |peer: &Peer| peer.unanswered_by().is_some_and(|at| at <= now);
            for addr in self.peers_that(|_, peer| is_due(peer)) {
                self.dial_anew(now, addr);
            }
        }
        let horizon = now.saturating_sub(self.options.forget_down_after);
        if self.census().down_since.is_some_and(|since| since < horizon) {
            let is_over = |peer: &Peer| peer.down_since.is_some_and(|since| since < horizon);
            for addr in self.peers_that(|_, peer| is_over(peer)) {
                self.peer_left(now, addr);
            }
        }
    }

    fn peers_that(&self, is_meant: impl Fn(&SocketAddr, &Peer) -> bool) -> Vec<SocketAddr> {
        let meant = self.peers.iter().filter(|(addr, peer)| is_meant(addr, peer));
        meant.map(|(addr, _)| *addr).collect()
    }

    pub(super) fn announce_everywhere(&mut self, now: Nanos) {
        for addr in self.peers_that(|_, peer| peer.welcomed_link().is_some()) {
            self.announce(now, addr);
        }
    }

    fn announce(&mut self, now: Nanos, addr: SocketAddr) {
        if self.leaving {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&addr) {
            peer.announce_at = now.saturating_add(ANNOUNCE_EVERY);
        }
        self.membership.announce(now, addr);
    }

    /// A message on a link this node dialled.
    pub(super) fn on_outbound(
        &mut self,
        now: Nanos,
        link: LinkId,
        transit: Nanos,
        message: Message,
    ) -> Result<(), Violation> {
        let Some((addr, welcomed)) = self.dialled_peer(link) else { return Ok(()) };
        match message {
            Message::Welcome { version, id, rank_floor, key, joined }
                if self.speaks(version) && !welcomed =>
            {
                if let Some(peer) = self.peers.get_mut(&addr) {
                    peer.version = version;
                }
                self.on_welcome(now, (link, addr), (id, rank_floor), key, joined)
            }
            _ if !welcomed => Err(Violation),
            Message::Key { key } => self.meet_key(now, key, addr).map(drop),
            Message::Resume { position, fresh } => {
                self.resume(now, addr, position, fresh);
                Ok(())
            }
            Message::Ack { number } => {
                if let Some(cursor) = self.acked(now, addr) {
                    cursor.ack(number);
                }
                Ok(())
            }
            Message::AckPart { to, key } => {
                if let Some(cursor) = self.acked(now, addr) {
                    cursor.ack_part(to, key);
                }
                Ok(())
            }
            Message::StateBusy { .. } | Message::State { .. } | Message::StateChunk { .. } => {
                self.on_state(now, link, transit, message)
            }
            _ => Err(Violation),
        }
    }

    /// The cursor of a peer that has just acknowledged something.
    fn acked(&mut self, now: Nanos, addr: SocketAddr) -> Option<&mut Cursor> {
        self.unsent.may_be_to(addr);
        let delivery = self.peers.delivery_mut(&addr)?;
        delivery.acked_at = now;
        delivery.cursor.as_mut()
    }

    /// The peer of an open link, and whether it has sent `Welcome`.
    pub(super) fn dialled_peer(&self, link: LinkId) -> Option<(SocketAddr, bool)> {
        let addr = *self.dialled.get(&link)?;
        let peer = self.peers.get(&addr).filter(|peer| peer.open_link() == Some(link))?;
        Some((addr, peer.welcomed_link().is_some()))
    }

    fn on_welcome(
        &mut self,
        now: Nanos,
        (link, addr): (LinkId, SocketAddr),
        (id, rank_floor): (NodeId, u64),
        key: HashKey,
        joined: bool,
    ) -> Result<(), Violation> {
        let subject = self.peers.get(&addr).and_then(|peer| peer.subject.as_ref());
        if !subject.is_some_and(|subject| subject.covers(id.addr)) {
            return Err(Violation);
        }
        if id.origin() == self.me().origin() {
            // It is this node, by another address.
            self.met_itself(now, link, addr);
            return Ok(());
        }
        if id.addr != addr {
            // The node is known by another address: that one counts.
            if let Some(peer) = self.peers.get_mut(&addr) {
                peer.alias = Some(id.addr);
            }
            self.close(now, link);
            self.add_peer(now, id.addr, Claim::Hearsay);
            return Ok(());
        }
        if self.meet_key(now, key, addr)? == Met::StartedOver {
            return Ok(());
        }
        if let Some(peer) = self.peers.get_mut(&addr) {
            if peer.generation() != Some(id.generation) {
                // What an earlier generation had not acknowledged is part of the state that this
                // one takes over.
                peer.delivery.cursor = None;
            }
            peer.id = Some(id);
            peer.proven = true;
            peer.joined = joined;
            peer.alias = None;
            peer.down_since = None;
            peer.answer_by = None;
            peer.dial = Dial::Open { link, welcomed: true, flowing: false };
            peer.attempts = 0;
        }
        if key > self.hash_key {
            // This node's has changed since `Hello`.
            self.send(link, Channel::Main, &Message::Key { key: self.hash_key });
        }
        self.events.push(Event::LinkOpen { addr });
        if joined {
            self.await_too(now, addr);
        } else {
            // It sends nothing before it joins.
            self.stop_awaiting(now, addr);
        }
        self.membership.outrank(now, rank_floor);
        self.announce(now, addr);
        Ok(())
    }

    /// The peer has sent its position; frames flow from there once this node has joined.
    fn resume(&mut self, now: Nanos, addr: SocketAddr, position: Option<Position>, fresh: bool) {
        let joined = self.has_joined();
        let Some(peer) = self.peers.get_mut(&addr) else { return };
        let Dial::Open { link, welcomed: true, flowing } = peer.dial else { return };
        (peer.joined, peer.delivery.acked_at) = (true, now);
        self.schedule.begin_anew(now);
        if flowing {
            self.be_asked(now);
            return;
        }
        if !joined {
            peer.resume = Some((position, fresh));
            return;
        }
        // No position: it has applied nothing yet of what it was sent.
        let Position { through, missed } = position.unwrap_or_default();
        if let Some(cursor) = &mut peer.delivery.cursor
            && cursor.resume(through, missed)
        {
            peer.dial = Dial::Open { link, welcomed: true, flowing: true };
            self.unsent = Unsent::Any;
            self.begin_beats(now, link);
            return;
        }
        self.begin_cursor(now, addr, link, position, fresh);
    }

    /// Places a cursor after what the peer has from state transfers, or announces a gap where the
    /// log does not reach back to that. A peer without a position needs all batches of this node; a
    /// fresh one also needs its whole state, unless that descends from the peer's own.
    fn begin_cursor(
        &mut self,
        now: Nanos,
        addr: SocketAddr,
        link: LinkId,
        position: Option<Position>,
        fresh: bool,
    ) {
        let Some(peer) = self.peers.get_mut(&addr) else { return };
        let descends = |generation| self.applied.contains_key(&Origin { addr, generation });
        let stranger = position.is_none() && fresh && !peer.generation().is_some_and(descends);
        let through = match position {
            None => Some(0),
            Some(Position { through, missed: None }) => Some(through),
            // It has applied a part of a backlog that is no longer kept.
            Some(_) => None,
        };
        let through = through.filter(|through| !stranger && self.log.since(*through).is_some());
        peer.delivery.cursor = through.map(Cursor::new);
        let flowing = peer.cursor().is_some();
        peer.dial = Dial::Open { link, welcomed: true, flowing };
        if flowing {
            self.unsent = Unsent::Any;
            self.begin_beats(now, link);
        } else {
            self.send(link, Channel::Main, &Message::Gap);
        }
    }

    /// Resumes the peers that sent positions while this node was joining.
    pub(super) fn resume_waiting(&mut self, now: Nanos) {
        let waiting: Vec<_> = self
            .peers
            .iter_mut()
            .filter_map(|(addr, peer)| peer.resume.take().map(|resume| (*addr, resume)))
            .collect();
        for (addr, (position, fresh)) in waiting {
            self.resume(now, addr, position, fresh);
        }
    }
}
