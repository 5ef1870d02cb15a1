//! One core on its own.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;

use super::words::{Words, WordsHandle};
use super::world::addr;
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
}
