//! What clients ask of nodes, and what nodes enter on their ledgers.

use rand::RngExt;

use super::{Event, Watch, World};
use crate::load::Flow;
use crate::node::Asked;
use crate::time::{MS, Nanos};

/// Keys of each ledger.
const LEDGER_KEYS: u64 = 3;
/// Clients give back what they do not use within this.
const MAX_HELD: Nanos = 500 * MS;

pub(super) struct Client {
    pub(super) flow: Flow,
    /// Events of earlier turns are void.
    pub(super) turn: u32,
    is_on: bool,
}

impl World {
    /// Adds clients; they wait for [`World::ask`].
    pub fn add_flow(&mut self, flow: Flow) -> usize {
        self.clients.push(Client { flow, turn: 0, is_on: false });
        self.clients.len() - 1
    }

    /// How many checks a second clients make from the next one on.
    pub fn set_rate(&mut self, flow: usize, rate: f64) {
        self.clients[flow].flow.rate = rate;
    }

    /// Clients begin or go on to ask, or pause.
    pub fn ask(&mut self, flow: usize, is_on: bool) {
        let client = &mut self.clients[flow];
        if client.is_on != is_on {
            client.is_on = is_on;
            client.turn += 1;
            self.plan_check(flow);
        }
    }

    /// Nodes begin to enter units on their ledgers, this often; 0 stops them.
    pub fn begin_entering(&mut self, every: Nanos) {
        self.enter_every = every;
        for place in self.live().into_iter().filter(|_| every > 0) {
            self.events.plan(self.now + every, Event::Enter { place });
        }
    }

    pub(super) fn plan_check(&mut self, flow: usize) {
        let client = &self.clients[flow];
        if client.is_on {
            let (at, is_check) = client.flow.next(self.now, &mut self.rng);
            self.events.plan(at, Event::Check { flow, turn: client.turn, is_check });
        }
    }

    pub(super) fn check(&mut self, flow: usize, watch: &mut dyn Watch) {
        let now = self.now;
        let flow = &mut self.clients[flow].flow;
        let (place, rule, cost) = (flow.place, flow.rule, flow.cost);
        let key = flow.key(&mut self.rng);
        self.decide(now, place, (rule, key, cost), watch);
    }

    /// A node answers the clients that have waited for it.
    pub(super) fn decide_kept(&mut self, place: usize, life: u32, watch: &mut dyn Watch) {
        let Some(node) = self.nodes[place].as_mut().filter(|node| node.life == life) else {
            return;
        };
        for asked in node.take_kept() {
            self.decide(self.now, place, asked, watch);
        }
    }

    fn decide(&mut self, now: Nanos, place: usize, asked: Asked, watch: &mut dyn Watch) {
        let Some(node) = self.nodes.get_mut(place).and_then(Option::as_mut) else { return };
        let Some(is_allowed) = node.check(now, asked) else { return };
        if self.calm.is_behind(place) && node.has_caught_up() {
            self.calm.caught_up(place);
        }
        let who = (place, node.life);
        let seen = self.truth.see(now, who, asked, is_allowed);
        watch.saw(&seen, &self.calm);
        if is_allowed {
            self.plan_wake(place);
            if self.gives_back > 0.0 && self.rng.random_bool(self.gives_back) {
                let (held, life) = (self.rng.random_range(0..=MAX_HELD), who.1);
                self.events.plan(now + held, Event::GiveBack { place, life, asked, all: false });
            }
            if self.resets > 0.0 && self.rng.random_bool(self.resets) {
                let (held, life) = (self.rng.random_range(0..=MAX_HELD), who.1);
                self.events.plan(now + held, Event::GiveBack { place, life, asked, all: true });
            }
        }
    }

    /// From the next check on, clients give back this part of what is admitted.
    pub fn begin_giving_back(&mut self, part: f64) {
        self.gives_back = part;
    }

    /// From the next check on, of this part of what is admitted the key is reset.
    pub fn begin_resetting(&mut self, part: f64) {
        self.resets = part;
    }

    /// A client gives back what a check was charged, or, with `all`, all that its key owes.
    pub(super) fn give_back(&mut self, place: usize, life: u32, asked: Asked, all: bool) {
        let Some(node) = self.nodes[place].as_mut().filter(|node| node.life == life) else {
            return;
        };
        let given = node.give_back(self.now, asked, all);
        let (rule, key, _) = asked;
        self.truth.give_back(self.now, rule, key, given);
        self.plan_wake(place);
    }

    /// From here on a thread of each node that there is waits now and then for a processor when it
    /// has charged words and has not recorded that, for `most` at most.
    pub fn begin_thread_waits(&mut self, most: Nanos) {
        self.thread_waits = most;
        for place in self.live().into_iter().filter(|_| most > 0) {
            let life = self.node(place).map_or(0, |node| node.life);
            self.events.plan(self.now, Event::Waits { place, life, begins: true });
        }
    }

    /// How long a thread waits between charging and recording, at most.
    pub fn thread_waits(&self) -> Nanos {
        self.thread_waits
    }

    pub(super) fn wait(&mut self, place: usize, life: u32, begins: bool) {
        let most = self.thread_waits;
        let Some(node) = self.nodes[place].as_mut().filter(|node| node.life == life) else {
            return;
        };
        node.waits(self.now, begins && most > 0);
        self.plan_wake(place);
        if most > 0 {
            // Threads run most of the time.
            let most = if begins { most } else { 8 * most };
            let at = self.now + self.rng.random_range(0..=most);
            self.events.plan(at, Event::Waits { place, life, begins: !begins });
        }
    }

    pub(super) fn enter(&mut self, place: usize) {
        if self.enter_every == 0 {
            return;
        }
        let now = self.now;
        let key = self.rng.random_range(0..LEDGER_KEYS);
        let Some(node) = self.nodes[place].as_mut() else { return };
        if node.enter(now, key) {
            self.truth.enter(node.ledger, key);
            self.plan_wake(place);
        }
        let wait = self.rng.random_range(1..=2 * self.enter_every);
        self.events.plan(now + wait, Event::Enter { place });
    }
}
