//! The links others dial, and what they tell on them.

use std::net::SocketAddr;

use super::host::Delta;
use super::id::{NodeId, Origin};
use super::wire::{Message, Position, VERSION, decode};
use super::{Channel, Core, Host, LinkId, MAX_ORIGINS, Nanos, Violation};

/// How long whoever opened a link may take to say who it is.
const HELLO_WITHIN: Nanos = 5_000_000_000;

/// A link somebody opened.
#[derive(Debug)]
pub(super) struct Inbound {
    hello_by: Nanos,
    id: Option<NodeId>,
    flow: Flow,
}

/// What is to come on a link that somebody opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Nothing yet: its dialler has not been told where to continue.
    Untold,
    /// Frames, from the position known here, which nothing else may move.
    Frames,
    /// Nothing before its dialler's state has been taken over: it can not continue from there.
    Gap,
}

impl Inbound {
    pub(super) fn new(now: Nanos) -> Self {
        Self { hello_by: now.saturating_add(HELLO_WITHIN), id: None, flow: Flow::Untold }
    }

    fn is_of(&self, origin: Origin) -> bool {
        self.id.is_some_and(|id| id.origin() == origin)
    }
}

/// How far an origin's deltas are contained in the words of this node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Applied {
    pub position: Position,
    /// The last frame left deltas of the same batches for the next one.
    pub split: bool,
}

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

    /// A message on a link somebody else dialled.
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
        // The newest link of a node counts: what an older one still delivers was sent before the
        // dialler learnt where to continue.
        while let Some(older) = self.inbound_from(id.addr) {
            self.close(now, older);
        }
        // No frame of an earlier life is on its way any more.
        let older = |origin: &Origin| origin.addr == id.addr && origin.generation < id.generation;
        self.applied.retain(|origin, _| !older(origin));
        if let Some(inbound) = self.inbound.get_mut(&link) {
            inbound.id = Some(id);
        }
        let rank_floor = self.membership.rank_floor(id);
        self.send(link, Channel::Main, &Message::Welcome { id: self.me(), rank_floor });
        self.heard_from(now, id);
        if self.joined {
            self.let_flow(link);
        }
        Ok(())
    }

    /// Tells the dialler where to continue.
    pub(super) fn let_flow(&mut self, link: LinkId) {
        let Some(inbound) = self.inbound.get_mut(&link) else { return };
        let Some(id) = inbound.id else { return };
        inbound.flow = Flow::Frames;
        let position = self.applied.get(&id.origin()).map(|applied| applied.position);
        self.send(link, Channel::Main, &Message::Resume { position, fresh: self.fresh });
    }

    /// Lets every dialler continue that has waited for this node to join.
    pub(super) fn let_all_flow(&mut self) {
        let untold =
            self.inbound.iter().filter(|(_, link)| link.id.is_some() && link.flow == Flow::Untold);
        let untold: Vec<LinkId> = untold.map(|(link, _)| *link).collect();
        for link in untold {
            self.let_flow(link);
        }
    }

    /// Whether a frame of `origin` may be on its way.
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

    /// Whose state has to be taken over before their frames flow.
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

    /// Charges a delta that is `age` old. Beyond the grace it is reduced by what drained since, as
    /// deltas that wait at their origin are: an idle key ends where it would have, a busy one is
    /// not charged for long-gone use.
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

    /// Room for one more origin; the positions of those that are not connected give way.
    pub(super) fn room_for(&mut self, origin: Origin) -> bool {
        if self.applied.len() < MAX_ORIGINS || self.applied.contains_key(&origin) {
            return true;
        }
        let idle = self.applied.keys().find(|origin| !self.flows_from(**origin)).copied();
        idle.is_some_and(|origin| self.applied.remove(&origin).is_some())
    }
}
