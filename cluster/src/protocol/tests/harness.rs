//! One node without a network.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;

use super::words::{Words, WordsHandle};
use super::world::addr;
use crate::protocol::bounds::VERSION;
use crate::protocol::hash_key::HashKey;
use crate::protocol::wire::{Agreement, Group, MemberPacket, Message, decode, encode};
use crate::protocol::{Action, Core, LinkId, Nanos, NodeId, Options, Subject};

/// The key of simulated peers, once the node has joined: it has drawn the same.
pub(super) const KEY: HashKey = HashKey::candidate(1, [0; 16]).in_use();

pub(super) struct Harness {
    pub(super) core: Core<Words>,
    words: WordsHandle,
    clock: Rc<Cell<Nanos>>,
}

impl Harness {
    pub(super) fn new() -> Self {
        Self::with(Options { ack_within: 0, ..Options::default() })
    }

    pub(super) fn with(options: Options) -> Self {
        let clock = Rc::default();
        let (host, words) = Words::new(Rc::clone(&clock), 0);
        let core = Core::new(NodeId::new(addr(0), 1), options, host, 0);
        Self { core, words, clock }
    }

    pub(super) fn now(&self) -> Nanos {
        self.clock.get()
    }

    pub(super) fn pass(&mut self, time: Nanos) {
        self.clock.set(self.now() + time);
    }

    pub(super) fn tat(&self, (limit, key): (u64, u64)) -> Nanos {
        self.words.tat(limit, key)
    }

    /// The node admits something; the next flush takes it.
    pub(super) fn admit(&self, (limit, key): (u64, u64), debt: Nanos) {
        self.words.admit(self.now(), limit, key, debt);
    }

    /// The node admits something, and does not record it yet.
    pub(super) fn charge(&self, (limit, key): (u64, u64), debt: Nanos) {
        self.words.charge((limit, key), self.now(), debt);
    }

    /// Records what was admitted.
    pub(super) fn record(&self, (limit, key): (u64, u64), debt: Nanos) {
        self.words.record(self.now(), (limit, key), debt);
    }

    /// The node consumes something, or gives it back, right after the next drain, while its step
    /// goes on.
    pub(super) fn use_after_drain(&self, id: (u64, u64), debt: i64) {
        self.words.use_after_drain((id, debt));
    }

    /// What the node sent on the link; other actions are dropped.
    pub(super) fn sent(&mut self, on: LinkId) -> Vec<Bytes> {
        let mut sent = Vec::new();
        while let Some(action) = self.core.poll() {
            match action {
                Action::Message { link, bytes, .. } if link == on => sent.push(bytes),
                _ => {}
            }
        }
        sent
    }

    /// Another node opens a link and sends `Hello`.
    pub(super) fn greet(&mut self, id: NodeId) -> LinkId {
        let link = self.core.accepted(self.now(), Subject::node(id.addr)).unwrap();
        self.deliver(link, &Message::Hello { version: VERSION, oldest: VERSION, id, key: KEY });
        self.deliver(link, &Message::Beat { now: self.now(), delay: None, lag: 0, run_delay: 0 });
        self.core.settle_clock(link);
        link
    }

    pub(super) fn deliver(&mut self, link: LinkId, message: &Message) {
        self.deliver_after(link, message, 0);
    }

    /// Delivers a message that was in transit as long, as far as the transport knows.
    pub(super) fn deliver_after(&mut self, link: LinkId, message: &Message, transit: Nanos) {
        self.core.message(self.now(), link, transit, &encode(message).unwrap());
    }

    /// The batch of a peer whose clock shows the same.
    pub(super) fn batch(&self, number: u64, (limit, key): (u64, u64), debt: i64) -> Message {
        let groups = vec![Group { limit, changes: vec![(key, debt, 0)] }];
        Message::Batch { number, at: self.now(), groups, levels: Agreement::default() }
    }

    /// All of a peer's backlog up to a batch, of one key.
    pub(super) fn part(&self, to: u64, (limit, key): (u64, u64), debt: i64) -> Message {
        let groups = vec![Group { limit, changes: vec![(key, debt, 0)] }];
        Message::Missed { to, at: self.now(), upto: None, groups }
    }

    /// What was sent on the link since the last call.
    pub(super) fn answers(&mut self, link: LinkId) -> Vec<Message> {
        self.sent(link).iter().map(|bytes| decode(bytes).unwrap()).collect()
    }

    /// The dials among the actions not polled yet.
    pub(super) fn dials(&mut self) -> Vec<(LinkId, SocketAddr)> {
        let actions = std::iter::from_fn(|| self.core.poll());
        let dial = |action| match action {
            Action::Dial { link, addr } => Some((link, addr)),
            _ => None,
        };
        actions.filter_map(dial).collect()
    }

    /// The link of the dial to `addr` among the actions not polled yet.
    pub(super) fn dial_of(&mut self, addr: SocketAddr) -> LinkId {
        let dialled = std::iter::from_fn(|| self.core.poll()).find_map(|action| match action {
            Action::Dial { link, addr: dialled } if dialled == addr => Some(link),
            _ => None,
        });
        dialled.expect("a node dials every node it learns of")
    }

    /// The dial to `id` is answered. The link that it opened.
    pub(super) fn welcome(&mut self, id: NodeId) -> LinkId {
        self.welcome_from(id.addr, id)
    }

    /// The dial to `addr` is answered by `id`. The link that it opened.
    pub(super) fn welcome_from(&mut self, addr: SocketAddr, id: NodeId) -> LinkId {
        let link = self.dial_of(addr);
        self.core.connected(self.now(), link, Subject::node(id.addr));
        let joined = true;
        let welcome = Message::Welcome { version: VERSION, id, rank_floor: 0, key: KEY, joined };
        self.deliver(link, &welcome);
        link
    }

    /// A datagram of `id`, which makes it a member.
    pub(super) fn gossip(&mut self, link: LinkId, id: NodeId) {
        let header = foca::Header {
            src: id,
            src_incarnation: 0,
            dst: self.core.me(),
            message: foca::Message::Gossip,
        };
        let packet = MemberPacket { header, updates: Vec::new() }.encode().unwrap();
        self.core.datagram(self.now(), link, &packet);
    }

    /// Lets time pass, with ticks at the deadlines.
    pub(super) fn tick(&mut self, time: Nanos) {
        let until = self.now() + time;
        while let Some(at) = self.core.deadline().filter(|at| *at <= until) {
            self.clock.set(self.now().max(at));
            self.core.tick(self.now());
        }
        self.clock.set(until);
    }
}
