//! The protocol, as a function of its inputs: bytes, time and randomness come in as arguments;
//! datagrams, messages and deadlines come out. No sockets, clocks, threads or hash order.
//!
//! # Calling contract
//! One input at a time, each with `now` (nanoseconds since any fixed point, never going back);
//! then [`Core::poll`] until it yields nothing and carry the actions out; then wait for the next
//! input or until [`Core::deadline`], whichever comes first, and call [`Core::tick`] for the latter.
//!
//! # Links
//! A link is an ordered, reliable, authenticated connection that one node dialled. Each node dials
//! every other one: its own frames, acknowledged by the other side, and its requests for state
//! travel on the link it dialled. Membership packets take whatever link there is.
//!
//! # Exactly once
//! Frames to a peer are numbered within (origin generation, peer generation) and kept until they
//! are acknowledged (`queue.rs`). The receiver applies number `n + 1` after `n` and nothing else,
//! and tells where it stands whenever a link is opened. `transfer.rs` argues how a joining node
//! enters this without missing or doubling anything.

mod host;
mod id;
mod inbound;
mod log;
mod membership;
mod options;
mod outbound;
mod peer;
mod queue;
mod stats;
mod transfer;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use host::{Delta, Host};
pub use id::{NodeId, Origin};
pub use options::Options;
pub use stats::Stats;
#[cfg(fuzzing)]
pub use wire::fuzzing;

use crate::member::Member;
use inbound::{Applied, Inbound};
use log::Log;
use membership::{MemberEvent, Membership};
use peer::Peer;
use transfer::{Pull, Served};
use wire::Message;

/// Nanoseconds: a duration, or a time since the fixed point the caller chose.
pub type Nanos = u64;

/// The largest membership packet in bytes. The smallest datagram a fresh QUIC path takes is larger:
/// an initial MTU of 1200 less packet and frame headers.
pub const MAX_PACKET_BYTES: usize = 1_150;
/// The largest message on a stream, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 128 * 1024;
/// Deltas in a frame and entries in a chunk of state, at most: 27 bytes each on the wire.
const MAX_FRAME_DELTAS: usize = 2_048;
/// Other nodes that are dialled and told deltas, at most.
pub const MAX_PEERS: usize = 128;
/// Links that others opened, at most.
pub const MAX_INBOUND: usize = 2 * MAX_PEERS;
/// Members that are known, this node and down ones included, at most.
const MAX_MEMBERS: usize = 1_024;
/// Origins whose position is remembered, at most.
const MAX_ORIGINS: usize = 512;

/// Names a link for its whole life; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u64);

/// One of a link's two streams. Their order matters within, not between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Greetings, frames and acknowledgements.
    Main,
    /// State transfer.
    State,
}

/// What the caller is to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Open a link; answer with [`Core::connected`] or [`Core::closed`].
    Dial {
        /// The name of the link to be.
        link: LinkId,
        /// Whom to dial.
        addr: SocketAddr,
    },
    /// Close a link at once. [`Core::closed`] need not be called.
    Close {
        /// The link.
        link: LinkId,
    },
    /// Send a datagram; it may get lost.
    Datagram {
        /// The link.
        link: LinkId,
        /// At most [`MAX_PACKET_BYTES`].
        bytes: Bytes,
    },
    /// Send a message on a stream; it arrives in order, or the link closes.
    Message {
        /// The link.
        link: LinkId,
        /// The stream.
        channel: Channel,
        /// At most [`MAX_MESSAGE_BYTES`].
        bytes: Bytes,
    },
}

/// One node of a cluster.
pub struct Core<H> {
    host: H,
    options: Options,
    rng: ChaCha8Rng,
    started: Nanos,
    membership: Membership,
    peers: BTreeMap<SocketAddr, Peer>,
    inbound: BTreeMap<LinkId, Inbound>,
    applied: BTreeMap<Origin, Applied>,
    log: Log,
    pull: Option<Pull>,
    requests: u64,
    /// How often in a row a state did not come within the patience there was.
    misses: u32,
    /// Who was asked for its state last.
    asked: Option<SocketAddr>,
    served: BTreeMap<LinkId, Served>,
    /// State was taken over from another node, or there was none to take it from.
    joined: bool,
    /// Whatever this node knows it has found out alone.
    fresh: bool,
    leaving: bool,
    next_link: u64,
    actions: VecDeque<Action>,
    stats: Stats,
}

impl<H: Host> Core<H> {
    /// A node in its first moment. `me.generation` must be larger than in any earlier life at this
    /// address.
    pub fn new(me: NodeId, mut options: Options, host: H, now: Nanos) -> Self {
        options.join.retain(|addr| *addr != me.addr);
        options.join.truncate(MAX_PEERS);
        let alone = options.join.is_empty();
        let peers = options.join.iter().map(|addr| (*addr, Peer::seed(now))).collect();
        let mut core = Self {
            host,
            rng: ChaCha8Rng::seed_from_u64(options.seed ^ 0x5eed),
            started: now,
            membership: Membership::new(me, &options),
            options,
            peers,
            inbound: BTreeMap::new(),
            applied: BTreeMap::new(),
            log: Log::default(),
            pull: None,
            requests: 0,
            misses: 0,
            asked: None,
            served: BTreeMap::new(),
            joined: alone,
            fresh: alone,
            leaving: false,
            next_link: 1,
            actions: VecDeque::new(),
            stats: Stats::default(),
        };
        core.settle(now);
        core
    }

    /// Takes what the host has recorded and tells it to the peers.
    pub fn flush(&mut self, now: Nanos) {
        self.take_batch(now);
        self.settle(now);
    }

    /// Takes what the host has recorded into a batch, and lets it wait for every peer.
    fn take_batch(&mut self, now: Nanos) {
        let mut deltas = Vec::new();
        self.host.take_recorded(&mut deltas);
        if deltas.is_empty() {
            return;
        }
        self.stats.deltas_recorded += deltas.len() as u64;
        if self.joined {
            self.log.trim(now.saturating_sub(self.options.log_age));
        }
        let batch = self.log.push(now, deltas);
        for queue in self.peers.values_mut().filter_map(Peer::queue_mut) {
            queue.merge(batch, self.options.grace);
            self.stats.deltas_dropped += queue.take_dropped();
        }
    }

    /// A link this node asked for is open.
    pub fn connected(&mut self, now: Nanos, link: LinkId) {
        self.on_connected(link);
        self.settle(now);
    }

    /// Somebody opened a link; `None` when there are too many, and it has to be closed.
    pub fn accepted(&mut self, now: Nanos) -> Option<LinkId> {
        if self.inbound.len() >= MAX_INBOUND {
            return None;
        }
        let link = self.new_link();
        self.inbound.insert(link, Inbound::new(now));
        Some(link)
    }

    /// A link is gone, or could not be opened.
    pub fn closed(&mut self, now: Nanos, link: LinkId) {
        self.forget_link(now, link);
        self.settle(now);
    }

    /// A message came in; `transit` is an estimate of how long it travelled.
    pub fn message(&mut self, now: Nanos, link: LinkId, transit: Nanos, bytes: &[u8]) {
        let known = match wire::decode::<Message>(bytes) {
            Ok(message) if self.inbound.contains_key(&link) => {
                self.on_inbound(now, link, transit, message)
            }
            Ok(message) => self.on_outbound(now, link, transit, message),
            Err(_) => Err(Violation),
        };
        if known.is_err() {
            self.stats.violations += 1;
            self.close(now, link);
        }
        self.settle(now);
    }

    /// A datagram came in on any link.
    pub fn datagram(&mut self, now: Nanos, bytes: &[u8]) {
        self.membership.packet(now, bytes);
        self.settle(now);
    }

    /// The deadline has come.
    pub fn tick(&mut self, now: Nanos) {
        self.membership.tick(now);
        self.tick_peers(now);
        self.tick_inbound(now);
        self.tick_pull(now);
        self.settle(now);
    }

    /// When [`Core::tick`] wants to be called; may already have passed.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        [
            self.membership.deadline(),
            self.peers_deadline(),
            self.inbound_deadline(),
            self.pull_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// This node's identity at present.
    #[must_use]
    pub fn me(&self) -> NodeId {
        self.membership.me()
    }

    /// The limiters.
    pub fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    /// This node first, then the others by address.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.membership.members(self.leaving)
    }

    /// Whether the node still waits for another one's state; false at the latest when the patience
    /// for unreachable seeds is over, which does not mean that it [has joined](Self::has_joined).
    #[must_use]
    pub fn is_joining(&self, now: Nanos) -> bool {
        !self.joined && now.saturating_sub(self.started) < self.options.join_patience
    }

    /// Whether the node founded its cluster or has taken another one's state over; never false again.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.joined
    }

    /// Every peer that is connected has acknowledged everything.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.peers.values().all(Peer::is_acknowledged)
    }

    /// Says goodbye. Deltas that are not acknowledged by now are lost for those peers.
    pub fn leave(&mut self, now: Nanos) {
        self.membership.leave(now);
        self.leaving = true;
        for link in self.open_links() {
            self.send(link, Channel::Main, &Message::Leaving);
        }
        self.settle(now);
    }

    /// Counters and sizes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        stats.links_out = self.open_links().len() as u64;
        stats.links_in = self.inbound.len() as u64;
        stats.peers_undialled = self.peers_undialled();
        stats.pending_keys =
            self.peers.values().filter_map(Peer::queue).map(|q| q.pending_keys() as u64).sum();
        (stats.members_forgotten, stats.members_refused) = self.membership.crowding();
        stats.origins = self.applied.len() as u64;
        stats
    }

    /// What every input is followed by: membership's news, packets, frames.
    fn settle(&mut self, now: Nanos) {
        while let Some(event) = self.membership.next_event() {
            match event {
                MemberEvent::Up(id) => self.member_up(now, id),
                MemberEvent::Down(id) => self.member_down(now, id),
                MemberEvent::Rejoined => self.announce_everywhere(now),
            }
        }
        self.dial_due(now);
        self.start_pull(now);
        self.pump(now);
        while let Some((to, bytes)) = self.membership.next_packet() {
            match self.route(to) {
                Some(link) => self.actions.push_back(Action::Datagram { link, bytes }),
                None => self.stats.packets_unroutable += 1,
            }
        }
    }

    /// A link to `addr` for a datagram: our own, or one it opened.
    fn route(&self, addr: SocketAddr) -> Option<LinkId> {
        let own = self.peers.get(&addr).and_then(Peer::open_link);
        own.or_else(|| self.inbound_from(addr))
    }

    fn new_link(&mut self) -> LinkId {
        let link = LinkId(self.next_link);
        self.next_link += 1;
        link
    }

    fn send(&mut self, link: LinkId, channel: Channel, message: &Message) {
        // Messages are built within their bounds, so this does not fail; if it ever did, closing
        // the link leaves everything unacknowledged and nothing lost.
        match wire::encode(message) {
            Ok(bytes) if bytes.len() <= MAX_MESSAGE_BYTES => {
                self.actions.push_back(Action::Message { link, channel, bytes: bytes.into() });
            }
            _ => self.actions.push_back(Action::Close { link }),
        }
    }

    fn close(&mut self, now: Nanos, link: LinkId) {
        self.actions.push_back(Action::Close { link });
        self.forget_link(now, link);
    }

    fn forget_link(&mut self, now: Nanos, link: LinkId) {
        self.served.remove(&link);
        self.abort_pull(link);
        if self.inbound.remove(&link).is_none() {
            self.peer_closed(now, link);
        }
    }
}

/// The other side of a link breaks the protocol; the link is closed.
struct Violation;
