//! Nodes that gossip under a schedule of the fuzzer's choice, and with corruption: nothing panics,
//! the actions after one input are bounded, and without corruption no node reports a protocol
//! violation.
#![no_main]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_cluster::protocol::{
    Action, Change, Channel, Core, Delta, Host, Level, LinkId, MAX_INBOUND, MAX_MESSAGE_BYTES,
    MAX_PACKET_BYTES, Nanos, NodeId, Options, ScanPosition, Subject,
};

const NODES: usize = 3;
/// The most actions after one input: all links that others opened may be closed at once.
const MAX_ACTIONS: usize = MAX_INBOUND + 128;
/// The most wake-ups of a node while time stands still.
const MAX_TICKS: usize = 64;
/// The most steps of one sequence.
const MAX_STEPS: usize = 400;
const MILLISECOND: Nanos = 1_000_000;
const TRANSIT: Nanos = MILLISECOND;

#[derive(Arbitrary, Debug)]
enum Step {
    /// A message in flight arrives.
    Deliver {
        mail: u8,
    },
    /// Many messages arrive in the order in which they were sent.
    DeliverAll {
        at_most: u8,
    },
    /// A byte of a message in flight changes.
    Damage {
        mail: u8,
        at: u16,
        flip: u8,
    },
    /// A datagram is lost, or a link with the messages in flight on it.
    Lose {
        mail: u8,
    },
    Wait {
        milliseconds: u16,
    },
    /// A node admits a cost and reports it.
    Record {
        node: u8,
        key: u8,
        debt: i64,
    },
    /// A node receives arbitrary bytes, on one of its links or as a datagram.
    Say {
        node: u8,
        link: u8,
        bytes: Vec<u8>,
    },
    Datagram {
        node: u8,
        link: u8,
        bytes: Vec<u8>,
    },
    Restart {
        node: u8,
    },
    Leave {
        node: u8,
    },
}

fuzz_target!(|steps: Vec<Step>| {
    let mut world = World::new();
    for step in steps.into_iter().take(MAX_STEPS) {
        world.step(step);
    }
    let violations = world.nodes.iter().map(|core| core.stats().violations).sum::<u64>();
    assert!(world.damaged || violations == 0, "{violations} violations without damage");
});

struct World {
    nodes: Vec<Core<Words>>,
    now: Nanos,
    lives: u64,
    /// Both directions of each link that both ends know.
    links: BTreeMap<(usize, LinkId), (usize, LinkId)>,
    mail: VecDeque<Mail>,
    damaged: bool,
}

/// Messages in flight to a node.
#[derive(Debug)]
struct Mail {
    to: usize,
    link: LinkId,
    what: What,
}

#[derive(Debug)]
enum What {
    Message(Channel, Vec<u8>),
    Datagram(Vec<u8>),
    Closed,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            nodes: Vec::new(),
            now: 1,
            lives: 0,
            links: BTreeMap::new(),
            mail: VecDeque::new(),
            damaged: false,
        };
        for place in 0..NODES {
            let core = world.born(place);
            world.nodes.push(core);
        }
        (0..NODES).for_each(|place| world.act(place));
        world
    }

    fn born(&mut self, place: usize) -> Core<Words> {
        self.lives += 1;
        let join = if place == 0 { Vec::new() } else { vec![address(0)] };
        let options = Options { seed: self.lives, join, ..Options::default() };
        Core::new(
            NodeId::new(address(place), self.lives << 40),
            options,
            Words::default(),
            self.now,
        )
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Deliver { mail } => self.deliver(usize::from(mail)),
            Step::DeliverAll { at_most } => (0..at_most).for_each(|_| self.deliver(0)),
            Step::Damage { mail, at, flip } => {
                self.damage(usize::from(mail), usize::from(at), flip);
            }
            Step::Lose { mail } => self.lose(usize::from(mail)),
            Step::Wait { milliseconds } => self.wait(Nanos::from(milliseconds) * MILLISECOND),
            Step::Record { node, key, debt } => {
                let place = usize::from(node) % NODES;
                let change = Change { debt, date: self.now.cast_signed() };
                let delta = Delta { limit: 1, key: key.into(), change };
                self.nodes[place].host_mut().recorded.insert(key.into(), delta);
                self.input(place, Core::flush);
            }
            Step::Say { node, link, bytes } => {
                self.say(usize::from(node) % NODES, usize::from(link), &bytes);
            }
            Step::Datagram { node, link, bytes } => {
                let place = usize::from(node) % NODES;
                if let Some(link) = self.link_of(place, usize::from(link)) {
                    self.damaged = true;
                    self.input(place, |core, now| core.datagram(now, link, &bytes));
                }
            }
            Step::Restart { node } => self.restart(usize::from(node) % NODES),
            Step::Leave { node } => self.input(usize::from(node) % NODES, Core::leave),
        }
    }

    /// Gives a node one input and performs its actions.
    fn input(&mut self, place: usize, give: impl FnOnce(&mut Core<Words>, Nanos)) {
        self.nodes[place].host_mut().now = self.now;
        give(&mut self.nodes[place], self.now);
        self.act(place);
    }

    fn act(&mut self, place: usize) {
        let mut dialled = Vec::new();
        for count in 0.. {
            let Some(action) = self.nodes[place].poll() else { break };
            assert!(count < MAX_ACTIONS, "too many actions: {action:?}");
            match action {
                Action::Dial { link, addr } => dialled.push((link, addr)),
                Action::Close { link } => self.cut(place, link),
                Action::Datagram { link, bytes } => {
                    assert!(bytes.len() <= MAX_PACKET_BYTES);
                    self.send(place, link, What::Datagram(bytes.to_vec()));
                }
                Action::Message { link, channel, bytes } => {
                    assert!(bytes.len() <= MAX_MESSAGE_BYTES);
                    self.send(place, link, What::Message(channel, bytes.to_vec()));
                }
            }
        }
        for (link, addr) in dialled {
            self.dial(place, link, addr);
        }
    }

    fn send(&mut self, from: usize, link: LinkId, what: What) {
        if let Some((to, link)) = self.links.get(&(from, link)).copied() {
            self.mail.push_back(Mail { to, link, what });
        }
    }

    fn dial(&mut self, from: usize, link: LinkId, addr: SocketAddr) {
        let to = (0..NODES).find(|place| *place != from && address(*place) == addr);
        let subject = Subject::node(address(from));
        let accepted = to.and_then(|to| Some((to, self.nodes[to].accepted(self.now, subject)?)));
        match accepted {
            Some(end) => {
                self.links.insert((from, link), end);
                self.links.insert(end, (from, link));
                self.input(from, |core, now| {
                    core.connected(now, link, Subject::node(addr));
                });
            }
            None => self.input(from, |core, now| core.closed(now, link)),
        }
    }

    /// One end is gone; the other is notified after the messages in flight.
    fn cut(&mut self, place: usize, link: LinkId) {
        self.send(place, link, What::Closed);
        if let Some(end) = self.links.remove(&(place, link)) {
            self.links.remove(&end);
        }
        self.mail.retain(|mail| (mail.to, mail.link) != (place, link));
    }

    /// The first message of one stream: streams are ordered.
    fn pick(&self, mail: usize) -> Option<usize> {
        let picked = self.mail.get(mail.checked_rem(self.mail.len())?)?;
        let same = |other: &Mail| {
            (other.to, other.link) == (picked.to, picked.link)
                && match (&other.what, &picked.what) {
                    (What::Message(one, _), What::Message(other, _)) => one == other,
                    // Messages sent before a link was closed arrive before the close.
                    (What::Datagram(_), What::Datagram(_)) | (_, What::Closed) => true,
                    _ => false,
                }
        };
        self.mail.iter().position(same)
    }

    fn deliver(&mut self, mail: usize) {
        let Some(Mail { to, link, what }) = self.pick(mail).and_then(|at| self.mail.remove(at))
        else {
            return;
        };
        self.input(to, |core, now| match what {
            What::Message(_, bytes) => core.message(now, link, TRANSIT, &bytes),
            What::Datagram(bytes) => core.datagram(now, link, &bytes),
            What::Closed => core.closed(now, link),
        });
    }

    fn damage(&mut self, mail: usize, at: usize, flip: u8) {
        let Some(at_mail) = self.pick(mail) else { return };
        if let What::Message(_, bytes) | What::Datagram(bytes) = &mut self.mail[at_mail].what
            && let Some(at) = at.checked_rem(bytes.len())
        {
            bytes[at] ^= flip;
            self.damaged = true;
        }
    }

    fn lose(&mut self, mail: usize) {
        let Some(at) = self.pick(mail) else { return };
        let (to, link) = (self.mail[at].to, self.mail[at].link);
        if matches!(self.mail[at].what, What::Datagram(_)) {
            self.mail.remove(at);
        } else if let Some((from, other)) = self.links.get(&(to, link)).copied() {
            self.cut(to, link);
            self.cut(from, other);
            self.input(to, |core, now| core.closed(now, link));
            self.input(from, |core, now| core.closed(now, other));
        }
    }

    fn wait(&mut self, time: Nanos) {
        self.now += time;
        for place in 0..NODES {
            let due = |core: &Core<Words>, now| core.deadline().is_some_and(|at| at <= now);
            for tick in 0.. {
                if !due(&self.nodes[place], self.now) {
                    break;
                }
                assert!(tick < MAX_TICKS, "time stands still");
                self.input(place, Core::tick);
            }
        }
    }

    fn say(&mut self, place: usize, link: usize, bytes: &[u8]) {
        if let Some(link) = self.link_of(place, link) {
            self.damaged = true;
            self.input(place, |core, now| core.message(now, link, TRANSIT, bytes));
        }
    }

    /// One of a node's links.
    fn link_of(&self, place: usize, link: usize) -> Option<LinkId> {
        let open: Vec<LinkId> =
            self.links.keys().filter(|end| end.0 == place).map(|end| end.1).collect();
        open.get(link.checked_rem(open.len())?).copied()
    }

    fn restart(&mut self, place: usize) {
        let open: Vec<LinkId> =
            self.links.keys().filter(|end| end.0 == place).map(|end| end.1).collect();
        for link in open {
            self.cut(place, link);
        }
        self.mail.retain(|mail| mail.to != place);
        self.nodes[place] = self.born(place);
        self.act(place);
    }
}

fn address(place: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1_000 + place as u16))
}

/// A limiter without a quota: words only.
#[derive(Default)]
struct Words {
    now: Nanos,
    tats: BTreeMap<(u64, u64), Nanos>,
    recorded: BTreeMap<u64, Delta>,
    /// What is left of the drain under way.
    draining: BTreeMap<u64, Delta>,
}

impl Host for Words {
    fn take_recorded(&mut self, _: Nanos, most: usize, into: &mut Vec<Delta>) -> bool {
        if self.draining.is_empty() {
            self.draining = std::mem::take(&mut self.recorded);
        }
        let taken = std::iter::from_fn(|| self.draining.pop_first()).take(most);
        into.extend(taken.map(|(_, delta)| delta));
        self.draining.is_empty()
    }

    fn apply(&mut self, _: Nanos, delta: Delta) -> bool {
        let Change { debt, date } = delta.change;
        let tat = self.tats.entry(delta.id()).or_default();
        *tat = (*tat).max(date.try_into().unwrap_or(0)).saturating_add_signed(debt);
        true
    }

    fn shift(&mut self, limit: u64, key: u64, by: i64) {
        let tat = self.tats.entry((limit, key)).or_default();
        *tat = tat.saturating_add_signed(by);
    }

    fn raise(&mut self, _: Nanos, level: Level) -> bool {
        let tat = self.tats.entry((level.limit, level.key)).or_default();
        *tat = (*tat).max(self.now.saturating_add(level.debt));
        true
    }

    fn debt(&mut self, _: Nanos, limit: u64, key: u64) -> Nanos {
        let tat = self.tats.get(&(limit, key)).copied().unwrap_or(0);
        tat.saturating_sub(self.now)
    }

    fn tolerance(&self, limit: u64) -> Option<Nanos> {
        (limit == 1).then_some(100 * MILLISECOND)
    }

    fn unit(&self, limit: u64) -> Option<Nanos> {
        (limit == 1).then_some(MILLISECOND)
    }

    fn most_debt(&self, _: u64) -> Nanos {
        1_600 * MILLISECOND
    }

    fn scan(&mut self, at: ScanPosition, into: &mut Vec<Level>) -> Option<ScanPosition> {
        // Of a few keys each, so that a state has several parts.
        let mut rest = self.tats.range((at.0, at.1)..);
        let part = rest.by_ref().take(3).filter(|(_, tat)| **tat > self.now);
        into.extend(part.map(|(&(limit, key), tat)| Level { limit, key, debt: tat - self.now }));
        rest.next().map(|(&(limit, key), _)| ScanPosition(limit, key))
    }
}
