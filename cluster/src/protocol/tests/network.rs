//! Links that are slow, cut at any time, and partitioned; datagrams that are lost, duplicated and
//! reordered.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::protocol::{Channel, LinkId, Nanos};

pub(super) const MS: Nanos = 1_000_000;
/// The idle timeout of a link.
const IDLE_TIMEOUT: Nanos = 10_000 * MS;

/// An event that arrives at a node.
#[derive(Debug)]
pub(super) enum Arrival {
    /// The link it dialled is open, or failed.
    Dialled {
        link: LinkId,
        to: usize,
        open: bool,
    },
    Message {
        link: LinkId,
        sent_at: Nanos,
        bytes: Bytes,
    },
    Datagram {
        link: LinkId,
        bytes: Bytes,
    },
    Closed {
        link: LinkId,
    },
}

/// One end of a link: the node's number, its start, and its id of the link.
pub(super) type End = (usize, u32, LinkId);

pub(super) struct Network {
    rng: ChaCha8Rng,
    /// By time, ties in the order of sending.
    arrivals: BTreeMap<(Nanos, u64), (usize, u32, Arrival)>,
    sent: u64,
    /// Both directions of each link, with when the last message on a channel arrives.
    links: BTreeMap<End, (End, [Nanos; 2])>,
    partitions: BTreeSet<(usize, usize)>,
    loss: f64,
    doubled: f64,
    slowest: Nanos,
}

impl Network {
    pub(super) fn new(rng: ChaCha8Rng, loss: f64, doubled: f64, slowest: Nanos) -> Self {
        Self {
            rng,
            arrivals: BTreeMap::new(),
            sent: 0,
            links: BTreeMap::new(),
            partitions: BTreeSet::new(),
            loss,
            doubled,
            slowest,
        }
    }

    /// From here on, messages take this long at most.
    pub(super) fn set_slowest(&mut self, slowest: Nanos) {
        self.slowest = slowest;
    }

    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.arrivals.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn next(&mut self) -> Option<(usize, u32, Arrival)> {
        self.arrivals.pop_first().map(|(_, arrival)| arrival)
    }

    fn delay(&mut self) -> Nanos {
        self.rng.random_range(MS / 10..=self.slowest)
    }

    pub(super) fn arrive(&mut self, at: Nanos, node: usize, life: u32, arrival: Arrival) {
        self.arrivals.insert((at, self.sent), (node, life, arrival));
        self.sent += 1;
    }

    pub(super) fn connected(&self, a: usize, b: usize) -> bool {
        !self.partitions.contains(&(a.min(b), a.max(b)))
    }

    pub(super) fn dialled(&mut self, now: Nanos, from: End, to: usize, open: bool) {
        let at = now + 2 * self.delay();
        self.arrive(at, from.0, from.1, Arrival::Dialled { link: from.2, to, open });
    }

    pub(super) fn link(&mut self, a: End, b: End) {
        self.links.insert(a, (b, [0; 2]));
        self.links.insert(b, (a, [0; 2]));
    }

    pub(super) fn message(&mut self, now: Nanos, from: End, channel: Channel, bytes: Bytes) {
        let delay = self.delay();
        let Some((to, last)) = self.links.get_mut(&from) else { return };
        let slot = &mut last[usize::from(channel == Channel::State)];
        let at = (now + delay).max(*slot);
        *slot = at;
        let to = *to;
        self.arrive(at, to.0, to.1, Arrival::Message { link: to.2, sent_at: now, bytes });
    }

    pub(super) fn datagram(&mut self, now: Nanos, from: End, bytes: &Bytes) {
        let Some((to, _)) = self.links.get(&from) else { return };
        let to = *to;
        let copies = u32::from(!self.rng.random_bool(self.loss))
            + u32::from(self.rng.random_bool(self.doubled));
        for _ in 0..copies {
            let at = now + self.delay();
            self.arrive(at, to.0, to.1, Arrival::Datagram { link: to.2, bytes: bytes.clone() });
        }
    }

    /// Closes a link: what is in flight is lost, and each side detects it after a delay of its own.
    pub(super) fn cut(&mut self, now: Nanos, end: End) {
        let Some((other, _)) = self.links.remove(&end) else { return };
        self.links.remove(&other);
        self.arrivals.retain(|_, (node, life, arrival)| match arrival {
            Arrival::Message { link, .. } => {
                let at = (*node, *life, *link);
                at != end && at != other
            }
            _ => true,
        });
        for (node, life, link) in [end, other] {
            let at = now + (self.delay() * 20).min(IDLE_TIMEOUT);
            self.arrive(at, node, life, Arrival::Closed { link });
        }
    }

    pub(super) fn cut_some(&mut self, now: Nanos) {
        let ends: Vec<End> = self.links.keys().copied().collect();
        if !ends.is_empty() {
            let end = ends[self.rng.random_range(0..ends.len())];
            self.cut(now, end);
        }
    }

    fn cut_between(&mut self, now: Nanos, hit: impl Fn(usize, usize) -> bool) {
        let ends: Vec<End> =
            self.links.iter().filter(|(a, (b, _))| hit(a.0, b.0)).map(|(a, _)| *a).collect();
        for end in ends {
            self.cut(now, end);
        }
    }

    pub(super) fn partition(&mut self, now: Nanos, a: usize, b: usize) {
        self.partitions.insert((a.min(b), a.max(b)));
        self.cut_between(now, |x, y| (x, y) == (a, b) || (x, y) == (b, a));
    }

    pub(super) fn isolate(&mut self, now: Nanos, node: usize) {
        self.cut_between(now, |x, y| x == node || y == node);
    }

    /// Ends loss and duplication of datagrams, and long delays.
    pub(super) fn calm(&mut self) {
        (self.loss, self.doubled) = (0.0, 0.0);
        self.slowest = self.slowest.min(60 * MS);
    }

    pub(super) fn heal(&mut self) {
        self.partitions.clear();
    }
}
