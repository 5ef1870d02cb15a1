//! Nodes with their limiters, driven in simulated time.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash};
use std::net::SocketAddr;
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::network::{Arrival, Network};
use super::words::{Words, WordsHandle};
use crate::protocol::{Action, Core, LinkId, Nanos, NodeId, Options, Subject};

/// A node; `life` is the number of its start among those of all nodes.
pub(super) struct Node {
    pub(super) core: Core<Words>,
    pub(super) life: u32,
    words: WordsHandle,
    flush_at: Option<Nanos>,
    /// It is stopped until then.
    stopped_until: Nanos,
}

pub(super) struct World {
    pub(super) net: Network,
    pub(super) rng: ChaCha8Rng,
    pub(super) nodes: Vec<Option<Node>>,
    pub(super) options: Options,
    clock: Rc<Cell<Nanos>>,
    floor: Nanos,
    lives: u32,
    /// Digest of all actions, in order.
    pub(super) trace: DefaultHasher,
}

const FLUSH: Nanos = 10_000_000;

pub(super) fn addr(node: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1_000 + node as u16))
}

impl World {
    pub(super) fn new(seed: u64, floor: Nanos, options: Options, net: (f64, f64, Nanos)) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let network = Network::new(ChaCha8Rng::from_rng(&mut rng), net.0, net.1, net.2);
        Self {
            net: network,
            rng,
            nodes: Vec::new(),
            options,
            clock: Rc::default(),
            floor,
            lives: 0,
            trace: DefaultHasher::new(),
        }
    }

    pub(super) fn now(&self) -> Nanos {
        self.clock.get()
    }

    /// Starts a node at a place, a new one or one that has crashed.
    pub(super) fn start(&mut self, place: usize, join: &[usize]) {
        let generation = u64::from(self.lives + 1) << 40;
        self.start_life(place, join, generation);
    }

    /// As [`World::start`], with a wall clock that shows less than at the start before.
    pub(super) fn restart_in_the_past(&mut self, place: usize, join: &[usize]) {
        self.start_life(place, join, 1);
    }

    fn start_life(&mut self, place: usize, join: &[usize], generation: u64) {
        self.lives += 1;
        let options = Options {
            seed: self.rng.random(),
            hash_key: self.rng.random(),
            join: join.iter().copied().map(addr).collect(),
            ..self.options.clone()
        };
        let (host, words) = Words::new(Rc::clone(&self.clock), self.floor);
        let me = NodeId::new(addr(place), generation);
        let core = Core::new(me, options, host, self.now());
        let node = Node { core, life: self.lives, words, flush_at: None, stopped_until: 0 };
        if place == self.nodes.len() {
            self.nodes.push(None);
        }
        self.nodes[place] = Some(node);
        self.act(place);
    }

    /// What was looked up for a node that is live.
    pub(super) fn seeds(&mut self, place: usize, list: &[usize], complete: bool) {
        let (now, list) = (self.now(), list.iter().copied().map(addr).collect::<Vec<_>>());
        let node = self.nodes[place].as_mut().expect("the node is live");
        node.core.seeds(now, &list, complete);
        self.act(place);
    }

    pub(super) fn crash(&mut self, place: usize) {
        self.nodes[place] = None;
        self.net.isolate(self.now(), place);
    }

    /// A crash that no peer detects: links to the node stay open, and drop everything.
    pub(super) fn vanish(&mut self, place: usize) {
        self.nodes[place] = None;
    }

    pub(super) fn live(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|place| self.nodes[*place].is_some()).collect()
    }

    pub(super) fn node(&self, place: usize) -> &Node {
        self.nodes[place].as_ref().expect("the node is live")
    }

    pub(super) fn admit(&mut self, place: usize, limit: u64, key: u64, debt: Nanos) {
        let now = self.now();
        let node = self.nodes[place].as_mut().expect("the node is live");
        node.words.admit(now, limit, key, debt);
        node.flush_at.get_or_insert(now + FLUSH);
    }

    /// Debt on one node's word alone.
    pub(super) fn shift(&mut self, place: usize, (limit, key): (u64, u64), by: i64) {
        use crate::protocol::Host as _;
        self.nodes[place].as_mut().unwrap().core.host_mut().shift(limit, key, by);
    }

    /// The service that embeds a node drops a limit.
    pub(super) fn end_limit(&mut self, place: usize, limit: u64) {
        self.node(place).words.end(limit);
    }

    /// A node gives back all that a key owes there, and flushes when it is due; how much that is.
    pub(super) fn reset(&mut self, place: usize, id: (u64, u64)) -> Nanos {
        let now = self.now();
        let node = self.nodes[place].as_mut().expect("the node is live");
        node.core.recorded(now);
        node.words.reset(now, id)
    }

    /// A check of a key on a node.
    pub(super) fn check(&mut self, place: usize, id: (u64, u64), debt: Nanos, tau: Nanos) -> bool {
        let now = self.now();
        let node = self.nodes[place].as_mut().expect("the node is live");
        let admitted = node.words.check(now, id, debt, tau);
        if admitted {
            node.flush_at.get_or_insert(now + FLUSH);
        }
        admitted
    }

    /// The key's debt on a node.
    pub(super) fn tat(&self, place: usize, limit: u64, key: u64) -> Nanos {
        self.node(place).words.tat(limit, key)
    }

    /// Time passes in which no node gets to do anything: what is due by then comes late.
    pub(super) fn starve(&mut self, until: Nanos) {
        self.clock.set(until);
    }

    /// Stops a node for a while: what arrives meanwhile waits for it, and dials fail.
    pub(super) fn stop(&mut self, place: usize, time: Nanos) {
        let until = self.now() + time;
        self.nodes[place].as_mut().expect("the node is live").stopped_until = until;
    }

    fn is_stopped(&self, place: usize) -> bool {
        let node = self.nodes.get(place).and_then(Option::as_ref);
        node.is_some_and(|node| node.stopped_until > self.now())
    }

    /// Runs until `until`.
    pub(super) fn run(&mut self, until: Nanos) {
        let mut steps = 0_u64;
        while let Some(at) = self.next_at().filter(|at| *at <= until) {
            steps += 1;
            assert!(steps < 20_000_000, "no progress");
            self.clock.set(self.now().max(at));
            let now = self.now();
            if self.net.next_at().is_some_and(|at| at <= now) {
                self.arrival();
                continue;
            }
            for place in self.live() {
                self.wake(place);
            }
        }
        self.clock.set(until);
    }

    fn next_at(&self) -> Option<Nanos> {
        let nodes = self.nodes.iter().flatten();
        let due = |node: &Node| node.core.deadline().into_iter().chain(node.flush_at).min();
        let nodes = nodes.filter_map(|node| Some(due(node)?.max(node.stopped_until)));
        nodes.chain(self.net.next_at()).min()
    }

    fn wake(&mut self, place: usize) {
        let now = self.now();
        let Some(node) = self.nodes[place].as_mut().filter(|node| node.stopped_until <= now) else {
            return;
        };
        if node.flush_at.is_some_and(|at| at <= now) {
            node.flush_at = None;
            node.core.flush(now);
        }
        if node.core.deadline().is_some_and(|at| at <= now) {
            node.core.tick(now);
        }
        self.act(place);
    }

    fn arrival(&mut self) {
        let now = self.now();
        let Some((place, life, arrival)) = self.net.next() else { return };
        let Some(node) = self.nodes[place].as_mut().filter(|node| node.life == life) else {
            return;
        };
        if node.stopped_until > now {
            return self.net.arrive(node.stopped_until, place, life, arrival);
        }
        match arrival {
            Arrival::Message { link, sent_at, bytes } => {
                node.core.message(now, link, now - sent_at, &bytes);
            }
            Arrival::Datagram { link, bytes } => node.core.datagram(now, link, &bytes),
            Arrival::Closed { link } => node.core.closed(now, link),
            Arrival::Dialled { link, to, open } => self.dialled(place, life, link, to, open),
        }
        self.act(place);
    }

    fn dialled(&mut self, from: usize, life: u32, link: LinkId, to: usize, open: bool) {
        let now = self.now();
        let reachable = open && self.net.connected(from, to) && !self.is_stopped(to);
        let accepted = self.nodes.get_mut(to).and_then(Option::as_mut).filter(|_| reachable);
        let subject = Subject::node(addr(from));
        let accepted =
            accepted.and_then(|node| Some((to, node.life, node.core.accepted(now, subject)?)));
        if let Some(end) = accepted {
            self.net.link((from, life, link), end);
        }
        let node = self.nodes[from].as_mut().expect("the dialler is live");
        if accepted.is_some() {
            node.core.connected(now, link, Subject::node(addr(to)));
        } else {
            node.core.closed(now, link);
        }
    }

    fn act(&mut self, place: usize) {
        let now = self.now();
        let node = self.nodes[place].as_ref();
        assert!(node.is_none_or(|node| node.core.knows_its_peers()), "at {now}, node {place}");
        loop {
            let Some(node) = self.nodes[place].as_mut() else { return };
            let life = node.life;
            let Some(action) = node.core.poll() else { return };
            (now, place, &action).hash(&mut self.trace);
            match action {
                Action::Dial { link, addr } => {
                    let to = usize::from(addr.port() - 1_000);
                    self.net.dialled(now, (place, life, link), to, true);
                }
                Action::Close { link } => self.net.cut(now, (place, life, link)),
                Action::Datagram { link, bytes } => {
                    assert!(bytes.len() <= crate::protocol::MAX_PACKET_BYTES);
                    self.net.datagram(now, (place, life, link), &bytes);
                }
                Action::Message { link, channel, bytes } => {
                    self.net.message(now, (place, life, link), channel, bytes);
                }
            }
        }
    }
}
