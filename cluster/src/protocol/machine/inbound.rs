//! Links that other nodes dialled, and their frames.

use std::net::SocketAddr;

use super::{Core, Violation};
use crate::protocol::action::{Channel, LinkId};
use crate::protocol::bounds::MAX_ORIGINS;
use crate::protocol::host::{Delta, Host};
use crate::protocol::id::{NodeId, Origin};
use crate::protocol::origin::{Flow, Inbound};
use crate::protocol::time::Nanos;
use crate::protocol::wire::{Message, VERSION, decode};

impl<H: Host> Core<H> {
    pub(super) fn inbound_from(&self, addr: SocketAddr) -> Option<LinkId> {
        let mut links = self.inbound.iter();
        links.find(|(_, link)| link.id.is_some_and(|id| id.addr == addr)).map(|(link, _)| *link)
    }

    pub(super) fn inbound_deadline(&self) -> Option<Nanos> {
        self.inbound.values().filter(|link| link.id.is_none()).map(|link| link.hello_by).min()
    }

    pub(super) fn tick_inbound(&mut self, now: Nanos) {
        let silent = |link: &Inbound| link.id.is_none() && link.hello_by <= now;
        let late: Vec<LinkId> =
            self.inbound.iter().filter(|(_, link)| silent(link)).map(|(id, _)| *id).collect();
        for link in late {
            self.close(now, link);
        }
    }

    /// A message on a link that another node dialled.
    pub(super) fn on_inbound(
        &mut self,
        now: Nanos,
        link: LinkId,
        transit: Nanos,
        message: Message,
    ) -> Result<(), Violation> {
        let id = self.inbound.get(&link).and_then(|inbound| inbound.id);
        match (message, id) {
            (Message::Hello { version, id }, None) => self.on_hello(now, link, version, id),
            (Message::Frame { seq, through, age, body }, Some(id)) => {
                let age = age.saturating_add(transit);
                self.on_frame(link, id.origin(), (seq, through), age, &body)
            }
            (Message::Gap, Some(_)) => self.on_gap(link),
            (Message::Leaving, Some(id)) => {
                self.membership.left(now, id);
                self.peer_left(now, id.addr);
                self.close(now, link);
                Ok(())
            }
            (Message::StateRequest { request, force }, Some(_)) => {
                self.serve_state(now, link, request, force);
                Ok(())
            }
            (Message::StateStop, Some(_)) => {
                self.served.remove(&link);
                Ok(())
            }
            (Message::StateAck, Some(_)) => {
                self.serve_more(now, link, true);
                Ok(())
            }
            _ => Err(Violation),
        }
    }

    fn on_hello(
        &mut self,
        now: Nanos,
        link: LinkId,
        version: u16,
        id: NodeId,
    ) -> Result<(), Violation> {
        if version != VERSION || id.addr == self.me().addr {
            return Err(Violation);
        }
        // Only the newest link of a node counts: what an older one still delivers was sent before
        // the dialler received its new position.
        while let Some(older) = self.inbound_from(id.addr) {
            self.close(now, older);
        }
        // No frame of an earlier generation is in flight any more.
        let older = |origin: &Origin| origin.addr == id.addr && origin.generation < id.generation;
        self.applied.retain(|origin, _| !older(origin));
        if let Some(inbound) = self.inbound.get_mut(&link) {
            inbound.id = Some(id);
        }
        let rank_floor = self.membership.rank_floor(id);
        self.send(link, Channel::Main, &Message::Welcome { id: self.me(), rank_floor });
        self.dial_now(now, id);
        if self.joined {
            self.send_resume(link);
        }
        Ok(())
    }

    /// Sends the dialler the position behind which to continue.
    pub(super) fn send_resume(&mut self, link: LinkId) {
        let Some(inbound) = self.inbound.get_mut(&link) else { return };
        let Some(id) = inbound.id else { return };
        inbound.flow = Flow::Frames;
        let position = self.applied.get(&id.origin()).map(|applied| applied.position);
        self.send(link, Channel::Main, &Message::Resume { position, fresh: self.fresh });
    }

    /// Sends positions to all diallers that were waiting for this node to join.
    pub(super) fn send_all_resumes(&mut self) {
        let waiting = self
            .inbound
            .iter()
            .filter(|(_, link)| link.id.is_some() && link.flow == Flow::NotResumed);
        let waiting: Vec<LinkId> = waiting.map(|(link, _)| *link).collect();
        for link in waiting {
            self.send_resume(link);
        }
    }

    /// Whether a frame of `origin` may be in flight.
    pub(super) fn flows_from(&self, origin: Origin) -> bool {
        self.inbound.values().any(|link| link.flow == Flow::Frames && link.is_of(origin))
    }

    fn on_gap(&mut self, link: LinkId) -> Result<(), Violation> {
        match self.inbound.get_mut(&link) {
            Some(inbound) if inbound.flow == Flow::Frames => inbound.flow = Flow::Gap,
            _ => return Err(Violation),
        }
        self.stats.gaps += 1;
        Ok(())
    }

    /// The origins whose state has to be taken over before their frames flow.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (Origin, LinkId)> {
        let gaps = self.inbound.iter().filter(|(_, link)| link.flow == Flow::Gap);
        gaps.filter_map(|(link, inbound)| Some((inbound.id?.origin(), *link)))
    }

    fn on_frame(
        &mut self,
        link: LinkId,
        origin: Origin,
        (seq, through): (u64, Option<u64>),
        age: Nanos,
        body: &[u8],
    ) -> Result<(), Violation> {
        if self.inbound.get(&link).is_none_or(|inbound| inbound.flow != Flow::Frames) {
            return Err(Violation);
        }
        let done = self.applied.get(&origin).map_or(0, |applied| applied.position.seq);
        if seq <= done {
            self.stats.frames_repeated += 1;
            self.send(link, Channel::Main, &Message::Ack { seq: done });
            return Ok(());
        }
        if seq != done + 1 || (done == 0 && !self.room_for(origin)) {
            return Err(Violation);
        }
        let deltas: Vec<Delta> = decode(body).map_err(|_| Violation)?;
        let applied = self.applied.entry(origin).or_default();
        applied.position.seq = seq;
        applied.position.through = through.unwrap_or(applied.position.through);
        applied.split = through.is_none();
        self.stats.frames_received += 1;
        for delta in deltas {
            self.charge(delta, age);
        }
        self.send(link, Channel::Main, &Message::Ack { seq });
        Ok(())
    }

    /// Charges a delta that is `age` old. Beyond the grace it is reduced by what has drained since,
    /// as unsent deltas are at their origin: the word of an idle key ends where it would have, and
    /// a busy key is not charged for what has drained long ago.
    fn charge(&mut self, delta: Delta, age: Nanos) {
        let late = age.saturating_sub(self.options.grace);
        let debt = delta.debt.saturating_sub(late);
        if debt == 0 {
            return;
        }
        if self.host.charge(Delta { debt, ..delta }, age - late) {
            self.stats.deltas_applied += 1;
        } else {
            self.stats.deltas_unknown += 1;
        }
    }

    /// Whether the version vector has room for `origin`, after removing an origin that is not
    /// connected if necessary.
    pub(super) fn room_for(&mut self, origin: Origin) -> bool {
        if self.applied.len() < MAX_ORIGINS || self.applied.contains_key(&origin) {
            return true;
        }
        let idle = self.applied.keys().find(|origin| !self.flows_from(**origin)).copied();
        idle.is_some_and(|origin| self.applied.remove(&origin).is_some())
    }
}
