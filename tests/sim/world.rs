//! Nodes, their clients and the network, in simulated time.

mod clients;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tidegate_cluster::protocol::{Action, Options};

use crate::calm::Calm;
use crate::events::Events;
use crate::network::{Conditions, Delivery, End, Input, Network};
use crate::node::{Asked, Node, Start, addr, place_of};
use crate::rules::Rule;
use crate::time::{LocalClock, MS, Nanos, seconds};
use crate::truth::{Seen, Truth};
use clients::Client;

/// From the last acknowledgement of a leaving node to its end: it announces the leave.
const ANNOUNCING: Nanos = 100 * MS;
/// Events at one time, at most.
const MAX_AT_ONCE: u64 = 10_000_000;
/// Generations grow by this much from one start to the next, whatever the node.
const GENERATION: u64 = 1 << 40;

/// Sees each check that a node answers.
pub trait Watch {
    fn saw(&mut self, seen: &Seen, calm: &Calm);
}

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    pub seed: u64,
    pub rules: Vec<Rule>,
    pub conditions: Conditions,
    pub flush: Nanos,
    /// Clocks start with up to this.
    pub skew: Nanos,
    /// Clocks run too fast or too slow by up to this, in parts per million.
    pub ppm: u64,
    pub options: Options,
    pub is_traced: bool,
    /// Calls of cores are timed, and each unit of time that they take is this much simulated time.
    pub cpu: Option<f64>,
}

enum Event {
    Wake {
        place: usize,
        life: u32,
    },
    Check {
        flow: usize,
        turn: u32,
        is_check: bool,
    },
    Enter {
        place: usize,
    },
    GoOn {
        place: usize,
        life: u32,
    },
    End {
        place: usize,
        life: u32,
    },
    /// A node answers the clients that have waited.
    Decide {
        place: usize,
        life: u32,
    },
    /// A client gives back what it was admitted with, or the key is reset.
    GiveBack {
        place: usize,
        life: u32,
        asked: Asked,
        all: bool,
    },
    /// A thread that has charged words begins to wait before it records that, or records it.
    Waits {
        place: usize,
        life: u32,
        begins: bool,
    },
    /// A node is no longer busy.
    Idle {
        place: usize,
        life: u32,
    },
}

/// A life that is over.
struct Ended {
    life: u32,
    /// It has sent everything to every node, the last of which was this life.
    through: Option<u32>,
}

pub struct World {
    pub net: Network,
    pub rng: ChaCha8Rng,
    pub truth: Truth,
    pub calm: Calm,
    setup: Setup,
    nodes: Vec<Option<Node>>,
    clocks: Vec<LocalClock>,
    clients: Vec<Client>,
    events: Events<Event>,
    /// Between two entries on a life's ledger; 0 stops them.
    enter_every: Nanos,
    /// The part of what is admitted that clients give back.
    gives_back: f64,
    resets: f64,
    /// How long a thread waits between charging and recording, at most.
    thread_waits: Nanos,
    lives: u32,
    /// The lives that are over, and their longest steps.
    ended: Vec<Ended>,
    pub past: Vec<crate::node::Steps>,
    now: Nanos,
}

impl World {
    pub fn new(setup: Setup) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(setup.seed);
        let net = Network::new(ChaCha8Rng::from_rng(&mut rng), setup.conditions.clone());
        Self {
            net,
            rng,
            truth: Truth::new(&setup.rules, setup.ppm),
            calm: Calm::default(),
            setup,
            nodes: Vec::new(),
            clocks: Vec::new(),
            clients: Vec::new(),
            events: Events::default(),
            enter_every: 0,
            gives_back: 0.0,
            resets: 0.0,
            thread_waits: 0,
            lives: 0,
            ended: Vec::new(),
            past: Vec::new(),
            now: 0,
        }
    }

    pub fn now(&self) -> Nanos {
        self.now
    }

    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    pub fn trace(&self, text: impl FnOnce() -> String) {
        if self.setup.is_traced {
            println!("{:12.6} {}", seconds(self.now), text());
        }
    }

    // ---- nodes ----

    /// Starts a node at a place, which joins the nodes at others.
    pub fn start(&mut self, place: usize, join: &[usize]) {
        self.lives += 1;
        let life = self.lives;
        self.trace(|| format!("start node {place} as life {life}, join {join:?}"));
        while self.nodes.len() <= place {
            let (skew, ppm) = (self.setup.skew, self.setup.ppm as i64);
            let offset = self.rng.random_range(0..=skew);
            self.clocks.push(LocalClock { offset, ppm: self.rng.random_range(-ppm..=ppm) });
            self.nodes.push(None);
        }
        let options = Options {
            seed: self.rng.random(),
            hash_key: self.rng.random(),
            join: join.iter().copied().map(addr).collect(),
            flush_interval: self.setup.flush,
            ..self.setup.options.clone()
        };
        let start = Start {
            place,
            life,
            generation: u64::from(life) * GENERATION,
            clock: self.clocks[place],
            options,
        };
        let mut node = Node::new(start, &self.setup.rules, self.now);
        node.cpu = self.setup.cpu;
        self.nodes[place] = Some(node);
        self.net.started(place, life);
        self.calm.moment(self.now);
        self.calm.start(self.now);
        if self.enter_every > 0 {
            self.events.plan(self.now + self.enter_every, Event::Enter { place });
        }
        self.act(place);
    }

    /// Ends a node as `kill -9` does.
    pub fn crash(&mut self, place: usize) {
        self.trace(|| format!("crash node {place}"));
        self.end(place, None);
        self.calm.moment(self.now);
    }

    /// A node leaves, once its peers have acknowledged everything.
    pub fn leave(&mut self, place: usize) {
        self.trace(|| format!("node {place} leaves"));
        let now = self.now;
        if let Some(node) = &mut self.nodes[place] {
            node.leave(now);
        }
        self.calm.moment(now);
        self.act(place);
    }

    fn end(&mut self, place: usize, through: Option<u32>) {
        if let Some(node) = self.nodes[place].take() {
            self.ended.push(Ended { life: node.ledger, through });
            self.past.push(node.steps);
            self.net.ended(self.now, place);
        }
    }

    /// Stops a node as `SIGSTOP` does, for a while.
    pub fn stop(&mut self, place: usize, time: Nanos) {
        self.trace(|| format!("stop node {place} for {} s", seconds(time)));
        if let Some(node) = self.nodes[place].as_mut().filter(|node| !node.is_stopped()) {
            node.stop();
            let life = node.life;
            self.net.stopped(self.now, place);
            self.calm.stop(self.now, place);
            self.events.plan(self.now + time, Event::GoOn { place, life });
        }
    }

    fn go_on(&mut self, place: usize, life: u32) {
        self.trace(|| format!("node {place} goes on"));
        let now = self.now;
        self.calm.go_on(now, place);
        let Some(node) = self.nodes[place].as_mut().filter(|node| node.life == life) else {
            return;
        };
        node.go_on();
        self.net.goes_on(now, place);
        if self.rng.random_bool(0.5) {
            self.wake(place);
        }
        while let Some(node) = &mut self.nodes[place] {
            let inputs = node.backlog();
            if inputs.is_empty() {
                break;
            }
            for input in inputs {
                self.deliver(Delivery { place, life, input });
            }
            self.wake(place);
        }
        self.wake(place);
    }

    pub fn cut(&mut self, from: usize, to: usize) {
        self.trace(|| format!("cut {from} -> {to}"));
        self.net.cut(self.now, from, to);
        self.calm.begin(self.now);
    }

    pub fn mend(&mut self, from: usize, to: usize) {
        self.trace(|| format!("mend {from} -> {to}"));
        self.net.mend(self.now, from, to);
        self.calm.end(self.now);
    }

    /// The lives that ended before they had sent everything to every node.
    pub fn lost(&self) -> Vec<u32> {
        let lost = self.ended.iter().filter(|ended| ended.through.is_none());
        lost.map(|ended| ended.life).collect()
    }

    /// Whether a node of life `at` must know all that life `of` has admitted: that is live, or has
    /// sent it to all that were live when it left. Those that started later learn of it from these
    /// only, which may be gone.
    pub fn must_know(&self, at: u32, of: u32) -> bool {
        let ended = self.ended.iter().find(|ended| ended.life == of);
        ended.is_none_or(|ended| ended.through.is_some_and(|last| at <= last))
    }

    /// The places where a node runs.
    pub fn live(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|place| self.nodes[*place].is_some()).collect()
    }

    pub fn places(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, place: usize) -> Option<&Node> {
        self.nodes.get(place).and_then(Option::as_ref)
    }

    pub fn node_mut(&mut self, place: usize) -> Option<&mut Node> {
        self.nodes.get_mut(place).and_then(Option::as_mut)
    }

    /// Lets the central buckets start anew from the least word of the live nodes.
    pub fn rebase(&mut self) {
        let now = self.now;
        let keys: Vec<_> = self.truth.keys().collect();
        for (rule, key) in keys {
            let debts = self.nodes.iter_mut().flatten().map(|n| n.limits(now).debt(rule, key));
            let least = debts.min().unwrap_or(0);
            self.truth.rebase(now, rule, key, least);
        }
    }

    // ---- time ----

    /// Runs until `until`, and to its end.
    pub fn run(&mut self, until: Nanos, watch: &mut dyn Watch) {
        let (mut then, mut steps) = (self.now, 0_u64);
        loop {
            let (net, own) = (self.net.next_at(), self.events.next_at());
            let Some(at) = net.into_iter().chain(own).min().filter(|at| *at <= until) else {
                break;
            };
            (then, steps) = if then == at { (then, steps + 1) } else { (at, 0) };
            assert!(steps < MAX_AT_ONCE, "no progress at {at} ns");
            self.now = at;
            if net == Some(at) {
                if let Some(delivery) = self.net.advance(at) {
                    self.deliver(delivery);
                }
                continue;
            }
            match self.events.pop() {
                Some(Event::Check { flow, turn, is_check }) => {
                    if self.clients[flow].turn == turn {
                        if is_check {
                            self.check(flow, watch);
                        }
                        self.plan_check(flow);
                    }
                }
                Some(Event::Wake { place, life }) => {
                    let node = self.nodes[place].as_mut().filter(|node| node.life == life);
                    if node.is_some_and(|node| node.takes_wake(at)) {
                        self.wake(place);
                    }
                }
                Some(Event::Enter { place }) => self.enter(place),
                Some(Event::GoOn { place, life }) => self.go_on(place, life),
                Some(Event::End { place, life }) => self.finish_leaving(place, life),
                Some(Event::Decide { place, life }) => self.decide_kept(place, life, watch),
                Some(Event::GiveBack { place, life, asked, all }) => {
                    self.give_back(place, life, asked, all);
                }
                Some(Event::Waits { place, life, begins }) => self.wait(place, life, begins),
                Some(Event::Idle { place, life }) => self.idle(place, life),
                None => break,
            }
        }
        self.now = until;
    }

    /// Runs for a while.
    pub fn pass(&mut self, time: Nanos, watch: &mut dyn Watch) {
        self.run(self.now + time, watch);
    }

    fn wake(&mut self, place: usize) {
        let now = self.now;
        if let Some(node) = &mut self.nodes[place] {
            node.wake(now);
        }
        self.act(place);
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { place, life, input } = delivery;
        let now = self.now;
        let Some(node) = self.nodes[place].as_mut().filter(|node| node.life == life) else {
            return;
        };
        match input {
            Input::Knock { dial } if !node.is_stopped() && !node.is_busy(now) => {
                self.net.answer(now, dial, life);
            }
            Input::Accept { number, from } if !node.is_stopped() && !node.is_busy(now) => {
                let link = node.accepts(now, from);
                self.net.accepted(now, number, link);
            }
            input => node.receive(now, input),
        }
        self.act(place);
    }

    /// A node that has started over enters on another ledger: no node will receive the one before.
    fn turn_ledger(&mut self, place: usize) {
        let Some(node) = self.nodes[place].as_mut() else { return };
        if node.has_started_over() {
            self.lives += 1;
            let life = std::mem::replace(&mut node.ledger, self.lives);
            self.ended.push(Ended { life, through: None });
            let ledger = self.lives;
            self.calm.start(self.now);
            self.trace(|| format!("node {place} goes on as life {ledger}, under another key"));
        }
    }

    /// Carries out what the node asks for.
    fn act(&mut self, place: usize) {
        let now = self.now;
        if let Some(node) = &mut self.nodes[place] {
            node.settle_leave(now);
        }
        self.turn_ledger(place);
        while let Some(node) = &mut self.nodes[place] {
            let life = node.life;
            let Some(action) = node.poll() else { break };
            let end = |link| End { place, life, link };
            match action {
                Action::Dial { link, addr } => self.net.dial(now, end(link), place_of(addr)),
                Action::Close { link } => {
                    self.trace(|| format!("node {place} closes {link:?}"));
                    self.net.close(now, end(link));
                }
                Action::Datagram { link, bytes } => self.net.datagram(now, end(link), &bytes),
                Action::Message { link, channel, bytes } => {
                    self.net.message(now, end(link), channel, bytes);
                }
            }
        }
        if self.node(place).is_some_and(Node::is_leaving) {
            self.plan_end(place);
        }
        self.plan_wake(place);
        if let Some(node) = &mut self.nodes[place]
            && node.begins_to_decide(now)
        {
            self.events.plan(now, Event::Decide { place, life: node.life });
        }
        if let Some(node) = &mut self.nodes[place]
            && let Some(until) = node.becomes_busy(now)
        {
            self.events.plan(until, Event::Idle { place, life: node.life });
        }
    }

    /// A node has finished a call, in simulated time, and takes the next input that waits.
    fn idle(&mut self, place: usize, life: u32) {
        let Some(node) = self.nodes[place].as_mut().filter(|node| node.life == life) else {
            return;
        };
        if let Some(input) = node.next_waiting(self.now) {
            self.deliver(Delivery { place, life, input });
        }
        self.wake(place);
        // Without work it is idle at once, and takes the next.
        let node = self.nodes[place].as_ref();
        if node.is_some_and(|node| node.has_waiting() && !node.is_busy(self.now)) {
            self.events.plan(self.now, Event::Idle { place, life });
        }
    }

    fn plan_end(&mut self, place: usize) {
        let live = self.live();
        if let Some(node) = &mut self.nodes[place]
            && node.ends(&live, self.lives)
        {
            self.events.plan(self.now + ANNOUNCING, Event::End { place, life: node.life });
        }
    }

    fn finish_leaving(&mut self, place: usize, life: u32) {
        let Some(node) = self.nodes[place].as_ref().filter(|node| node.life == life) else {
            return;
        };
        let through = node.acknowledged_through();
        self.trace(|| format!("node {place} has left, all acknowledged: {}", through.is_some()));
        self.end(place, through);
        self.calm.moment(self.now);
    }

    fn plan_wake(&mut self, place: usize) {
        let now = self.now;
        if let Some(node) = &mut self.nodes[place]
            && let Some(at) = node.plan_wake(now)
        {
            self.events.plan(at, Event::Wake { place, life: node.life });
        }
    }
}
