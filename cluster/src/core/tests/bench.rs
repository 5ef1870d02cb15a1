//! One core on its own.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;

use super::words::{Words, WordsHandle};
use super::world::addr;
use crate::core::wire::{Message, VERSION, decode, encode};
use crate::core::{Action, Core, LinkId, Nanos, NodeId, Options};

pub(super) struct Bench {
    pub(super) core: Core<Words>,
    words: WordsHandle,
    clock: Rc<Cell<Nanos>>,
}

impl Bench {
    pub(super) fn new() -> Self {
        let clock = Rc::default();
        let (host, words) = Words::new(Rc::clone(&clock), 0);
        let core = Core::new(NodeId::new(addr(0), 1), Options::default(), host, 0);
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

    /// The node admits something; the core takes it when it next looks.
    pub(super) fn admit(&self, (limit, key): (u64, u64), debt: Nanos) {
        self.words.admit(self.now(), limit, key, debt);
    }

    /// What the core sent on the link; everything else it asked for is dropped.
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

    /// A node opens a link and says hello.
    pub(super) fn greet(&mut self, id: NodeId) -> LinkId {
        let link = self.core.accepted(self.now()).unwrap();
        self.tell(link, &Message::Hello { version: VERSION, id });
        link
    }

    pub(super) fn tell(&mut self, link: LinkId, message: &Message) {
        self.core.message(self.now(), link, 0, &encode(message).unwrap());
    }

    /// What was sent on the link since the last call.
    pub(super) fn answers(&mut self, link: LinkId) -> Vec<Message> {
        self.sent(link).iter().map(|bytes| decode(bytes).unwrap()).collect()
    }

    /// The core's dial to a node that has greeted it is answered. The link it opened.
    pub(super) fn welcome(&mut self, id: NodeId) -> LinkId {
        let dialled = std::iter::from_fn(|| self.core.poll()).find_map(|action| match action {
            Action::Dial { link, addr } if addr == id.addr => Some(link),
            _ => None,
        });
        let link = dialled.expect("the core dials who has greeted it");
        self.core.connected(self.now(), link);
        self.tell(link, &Message::Welcome { id, rank_floor: 0 });
        link
    }

    /// Lets time pass, and wakes the core at its deadlines.
    pub(super) fn tick(&mut self, time: Nanos) {
        let until = self.now() + time;
        while let Some(at) = self.core.deadline().filter(|at| *at <= until) {
            self.clock.set(self.now().max(at));
            self.core.tick(self.now());
        }
        self.clock.set(until);
    }
}
