//! Links as QUIC makes them: streams that are reliable and ordered but late when packets are lost,
//! datagrams that are lost, duplicated and reordered, handshakes that take round trips, and ends
//! that close when they receive nothing for the idle timeout.
//!
//! Each direction between two nodes can be cut on its own. What a stream carries into a cut waits
//! for its end, and longer the longer that took, as retransmissions back off.

mod kinds;
mod link;
mod weather;

use std::collections::BTreeMap;

use bytes::Bytes;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tidegate_cluster::protocol::{Channel, LinkId};

use crate::events::Events;
use crate::time::{MS, Nanos, SECOND};
pub use kinds::Kinds;
pub use link::End;
use link::{Carried, Link};
pub use weather::Conditions;

/// Silence after which an end of a link closes.
const IDLE_TIMEOUT: Nanos = 5 * SECOND;
/// How long a dial may take.
const DIAL_TIMEOUT: Nanos = 5 * SECOND;
/// When the packets of an unanswered handshake are sent, after its start.
const ATTEMPTS: [Nanos; 3] = [0, SECOND, 3 * SECOND];
/// A closed end answers with a reset: at the latest the peer's next keep-alive, as of real links.
const KEEP_ALIVE: Nanos = 2_200 * MS;
/// The longest a retransmission after a cut waits for its turn.
pub const MAX_BACKOFF: Nanos = 2 * SECOND;

/// What happens inside the network.
#[derive(Debug)]
enum NetEvent {
    /// A handshake's packet is sent.
    Attempt {
        dial: usize,
    },
    /// It arrives.
    Knock {
        dial: usize,
    },
    /// The answer arrives.
    Answered {
        dial: usize,
        to: u32,
    },
    /// The handshake has taken too long.
    GiveUp {
        dial: usize,
    },
    Carry {
        link: usize,
        side: usize,
        what: Carried,
    },
    /// An end may have received nothing for the idle timeout.
    Silence {
        link: usize,
        side: usize,
    },
}

/// An input of a node.
#[derive(Debug)]
pub enum Input {
    /// A link it dialled is open.
    Dialled {
        link: LinkId,
        to: usize,
    },
    /// Another node has opened a link: the node names it by [`Network::accepted`].
    Accept {
        number: usize,
        from: usize,
    },
    Message {
        link: LinkId,
        transit: Nanos,
        bytes: Bytes,
    },
    Datagram {
        link: LinkId,
        bytes: Bytes,
    },
    /// A link is gone, or could not be dialled.
    Closed {
        link: LinkId,
    },
    /// A handshake to be answered by [`Network::answer`].
    Knock {
        dial: usize,
    },
}

/// An input, for this life of this node.
#[derive(Debug)]
pub struct Delivery {
    pub place: usize,
    pub life: u32,
    pub input: Input,
}

#[derive(Debug)]
struct Dial {
    from: End,
    to: usize,
    over: bool,
}

pub struct Network {
    rng: ChaCha8Rng,
    events: Events<NetEvent>,
    conditions: Conditions,
    links: Vec<Link>,
    ends: BTreeMap<End, (usize, usize)>,
    dials: Vec<Dial>,
    /// The life at each place.
    lives: Vec<Option<u32>>,
    /// Since when a node is stopped.
    stopped: BTreeMap<usize, Nanos>,
    /// Since when packets from the first to the second are dropped.
    cuts: BTreeMap<(usize, usize), Nanos>,
    pub bytes: u64,
    pub messages: u64,
    pub kinds: Kinds,
}

impl Network {
    pub fn new(rng: ChaCha8Rng, conditions: Conditions) -> Self {
        Self {
            rng,
            events: Events::default(),
            conditions,
            links: Vec::new(),
            ends: BTreeMap::new(),
            dials: Vec::new(),
            lives: Vec::new(),
            stopped: BTreeMap::new(),
            cuts: BTreeMap::new(),
            bytes: 0,
            messages: 0,
            kinds: Kinds::default(),
        }
    }

    pub fn next_at(&self) -> Option<Nanos> {
        self.events.next_at()
    }

    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The next thing that happens, and the input of a node that it is, if it is one.
    pub fn advance(&mut self, now: Nanos) -> Option<Delivery> {
        match self.events.pop()? {
            NetEvent::Attempt { dial } => self.attempt(now, dial),
            NetEvent::Knock { dial } => {
                let to = self.dials[dial].to;
                let life = self.lives.get(to).copied().flatten()?;
                return Some(Delivery { place: to, life, input: Input::Knock { dial } });
            }
            NetEvent::Answered { dial, to } => return self.answered(now, dial, to),
            NetEvent::GiveUp { dial } => {
                let dial = &mut self.dials[dial];
                let given_up = !std::mem::replace(&mut dial.over, true);
                let input = Input::Closed { link: dial.from.link };
                let (place, life) = (dial.from.place, dial.from.life);
                return given_up.then_some(Delivery { place, life, input });
            }
            NetEvent::Carry { link, side, what } => return self.deliver(now, link, side, what),
            NetEvent::Silence { link, side } => return self.fall_silent(now, link, side),
        }
        None
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains_key(&(from, to))
    }

    // ---- handshakes ----

    pub fn dial(&mut self, now: Nanos, from: End, to: usize) {
        let dial = self.dials.len();
        self.dials.push(Dial { from, to, over: false });
        for after in ATTEMPTS {
            self.events.plan(now + after, NetEvent::Attempt { dial });
        }
        self.events.plan(now + DIAL_TIMEOUT, NetEvent::GiveUp { dial });
    }

    fn attempt(&mut self, now: Nanos, dial: usize) {
        let Dial { from, to, over } = self.dials[dial];
        let lost = self.rng.random_bool(self.conditions.loss);
        if !over && !lost && !self.is_cut(from.place, to) {
            let at = now + self.conditions.delay(&mut self.rng, from.place, to);
            self.events.plan(at, NetEvent::Knock { dial });
        }
    }

    /// The node at a dial's target is there to answer it.
    pub fn answer(&mut self, now: Nanos, dial: usize, life: u32) {
        let Dial { from, to, over } = self.dials[dial];
        let lost = self.rng.random_bool(self.conditions.loss);
        if !over && !lost && !self.is_cut(to, from.place) {
            let at = now + self.conditions.delay(&mut self.rng, to, from.place);
            self.events.plan(at, NetEvent::Answered { dial, to: life });
        }
    }

    fn answered(&mut self, now: Nanos, dial: usize, life: u32) -> Option<Delivery> {
        let Dial { from, to, over } = self.dials[dial];
        if over {
            return None;
        }
        self.dials[dial].over = true;
        let number = self.links.len();
        let is_there = self.lives.get(to).copied().flatten() == Some(life);
        self.links.push(Link::new(from, (to, life), (!is_there).then_some(now)));
        self.ends.insert(from, (number, 0));
        self.carry(now, number, 1, Carried::Accept);
        self.watch_link(now, number);
        let input = Input::Dialled { link: from.link, to };
        Some(Delivery { place: from.place, life: from.life, input })
    }

    /// The node's own name for a link that another one opened; `None` refuses it.
    pub fn accepted(&mut self, now: Nanos, number: usize, link: Option<LinkId>) {
        let end = &mut self.links[number].ends[1];
        let Some(link) = link else {
            end.closed_at = Some(now);
            self.carry_close(now, number, 0);
            return;
        };
        end.link = Some(link);
        for what in end.unread.drain(..) {
            self.events.plan(now, NetEvent::Carry { link: number, side: 1, what });
        }
        self.ends.insert(End { place: end.place, life: end.life, link }, (number, 1));
    }

    // ---- what travels ----

    pub fn message(&mut self, now: Nanos, from: End, channel: Channel, bytes: Bytes) {
        let Some(&(link, side)) = self.ends.get(&from) else { return };
        self.messages += 1;
        self.bytes += bytes.len() as u64;
        self.kinds.add(channel, &bytes);
        self.carry(now, link, 1 - side, Carried::Message(channel, bytes));
    }

    pub fn datagram(&mut self, now: Nanos, from: End, bytes: &Bytes) {
        let Some(&(link, side)) = self.ends.get(&from) else { return };
        let to = self.links[link].ends[1 - side].place;
        if self.is_cut(from.place, to) {
            return;
        }
        self.bytes += bytes.len() as u64;
        self.kinds.membership += bytes.len() as u64;
        let copies = u32::from(!self.rng.random_bool(self.conditions.loss))
            + u32::from(self.rng.random_bool(self.conditions.doubled));
        for _ in 0..copies {
            let at = now + self.conditions.delay(&mut self.rng, from.place, to);
            let what = Carried::Datagram(bytes.clone());
            self.events.plan(at, NetEvent::Carry { link, side: 1 - side, what });
        }
    }

    /// Sends something on the stream to one side of a link.
    fn carry(&mut self, now: Nanos, link: usize, side: usize, what: Carried) {
        let [from, to] = [1 - side, side].map(|side| self.links[link].ends[side].place);
        if self.is_cut(from, to) || !self.links[link].ends[side].held.is_empty() {
            self.links[link].ends[side].held.push_back(what);
            return;
        }
        let at = now + self.conditions.delay(&mut self.rng, from, to);
        let at = at + self.conditions.mending(&mut self.rng, from, to);
        let at = self.links[link].ends[side].in_order(&what, at);
        self.events.plan(at, NetEvent::Carry { link, side, what });
    }

    fn deliver(&mut self, now: Nanos, link: usize, side: usize, what: Carried) -> Option<Delivery> {
        let end = &mut self.links[link].ends[side];
        if end.closed_at.is_some() {
            return None;
        }
        if end.link.is_none() && matches!(what, Carried::Message(..) | Carried::Close) {
            end.unread.push_back(what);
            return None;
        }
        let (place, life) = (end.place, end.life);
        let input = match what {
            Carried::Accept => {
                Input::Accept { number: link, from: self.links[link].ends[1 - side].place }
            }
            // Without a name it has not been accepted: the node is stopped, or has refused.
            Carried::Datagram(bytes) => Input::Datagram { link: end.link?, bytes },
            Carried::Message(_, bytes) => {
                let id = end.link?;
                let [a, b] = [0, 1].map(|side| self.links[link].ends[side].place);
                Input::Message { link: id, transit: self.conditions.transit(a, b), bytes }
            }
            Carried::Close => return self.close_end(now, link, side),
        };
        Some(Delivery { place, life, input })
    }

    // ---- ends that close ----

    /// The node closes a link.
    pub fn close(&mut self, now: Nanos, from: End) {
        let Some(&(link, side)) = self.ends.get(&from) else {
            for dial in self.dials.iter_mut().filter(|dial| dial.from == from) {
                dial.over = true;
            }
            return;
        };
        self.links[link].ends[side].closed_at.get_or_insert(now);
        self.carry_close(now, link, 1 - side);
    }

    /// Notifies a side that the other has closed, by a packet that may be lost; then by a reset.
    fn carry_close(&mut self, now: Nanos, link: usize, side: usize) {
        let [from, to] = [1 - side, side].map(|side| self.links[link].ends[side].place);
        self.plan_silence(now, link, side);
        if self.is_cut(from, to) {
            return;
        }
        let lost = self.rng.random_bool(self.conditions.loss);
        let late = if lost { self.rng.random_range(0..KEEP_ALIVE) } else { 0 };
        let at = now + late + self.conditions.delay(&mut self.rng, from, to);
        self.events.plan(at, NetEvent::Carry { link, side, what: Carried::Close });
    }

    fn close_end(&mut self, now: Nanos, link: usize, side: usize) -> Option<Delivery> {
        let end = &mut self.links[link].ends[side];
        end.closed_at = Some(now);
        let (place, life, id) = (end.place, end.life, end.link?);
        Some(Delivery { place, life, input: Input::Closed { link: id } })
    }
}

#[cfg(test)]
mod tests;
