//! A limiter without quota: words only, so that the debt on them can be compared exactly.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::protocol::{Delta, Host, Nanos};

type Map = Rc<RefCell<BTreeMap<(u64, u64), Nanos>>>;

pub(super) struct Words {
    clock: Rc<Cell<Nanos>>,
    handle: WordsHandle,
}

/// The same words, for the test: the node owns the host.
#[derive(Clone)]
pub(super) struct WordsHandle {
    /// The TAT of an unused key. Far in the future, words never drain: they only add up.
    floor: Nanos,
    tats: Map,
    recorded: Map,
}

impl Words {
    pub(super) fn new(clock: Rc<Cell<Nanos>>, floor: Nanos) -> (Self, WordsHandle) {
        let handle = WordsHandle { floor, tats: Rc::default(), recorded: Rc::default() };
        (Self { clock, handle: handle.clone() }, handle)
    }
}

impl WordsHandle {
    pub(super) fn admit(&self, now: Nanos, limit: u64, key: u64, debt: Nanos) {
        self.update((limit, key), |tat| tat.max(now) + debt);
        *self.recorded.borrow_mut().entry((limit, key)).or_default() += debt;
    }

    pub(super) fn tat(&self, limit: u64, key: u64) -> Nanos {
        self.tats.borrow().get(&(limit, key)).copied().unwrap_or(self.floor)
    }

    fn update(&self, key: (u64, u64), tat: impl Fn(Nanos) -> Nanos) {
        let mut tats = self.tats.borrow_mut();
        let word = tats.entry(key).or_insert(self.floor);
        *word = tat(*word);
    }
}

impl Host for Words {
    fn take_recorded(&mut self, into: &mut Vec<Delta>) {
        let taken = self.handle.recorded.take();
        into.extend(taken.into_iter().map(|((limit, key), debt)| Delta { limit, key, debt }));
    }

    fn charge(&mut self, delta: Delta, age: Nanos) -> bool {
        let at = self.clock.get().saturating_sub(age);
        self.handle.update((delta.limit, delta.key), |tat| tat.max(at) + delta.debt);
        true
    }

    fn raise(&mut self, delta: Delta) -> bool {
        let now = self.clock.get();
        self.handle.update((delta.limit, delta.key), |tat| tat.max(now + delta.debt));
        true
    }

    fn live(&mut self) -> Vec<Delta> {
        let now = self.clock.get();
        let tats = self.handle.tats.borrow();
        let live = tats.iter().filter(|(_, tat)| **tat > now);
        live.map(|(&(limit, key), tat)| Delta { limit, key, debt: tat - now }).collect()
    }
}
