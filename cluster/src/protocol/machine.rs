//! One node as a state machine: its state, its inputs and the work that follows each of them. The
//! transitions of links and state transfers are in `inbound`, `outbound`, `transfer` and `serve`;
//! `founding` is how a cluster begins.

mod agree;
mod beat;
mod census;
mod cut;
mod estimate;
mod founding;
mod frames;
mod hearsay;
mod inbound;
mod key_agreement;
mod late;
mod leaving;
mod outbound;
mod pace;
mod places;
mod report;
mod seal;
mod seeds;
mod serve;
mod settling;
mod split;
mod stale;
mod torn;
mod transfer;
mod unlinked;
mod void;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::action::{Action, Channel, LinkId};
use super::backlog::Backlog;
use super::bounds::{
    HASH_KEY_EVERY, MAX_INBOUND, MAX_MESSAGE_BYTES, NEWEST_VERSION, OLDEST_VERSION,
};
use super::budget::Budget;
use super::clock::RemoteClock;
use super::discard::Discard;
use super::drains::Drains;
use super::estimate::Estimates;
use super::event::{Event, Events};
use super::hash_key::HashKey;
use super::host::Host;
use super::id::{NodeId, Origin};
use super::idle::IdleSpans;
use super::inbound::{Applied, Inbound, PendingLevels, TornWait};
use super::inbounds::Inbounds;
use super::join_kind::JoinKind;
use super::log::Log;
use super::membership::{MemberEvent, Membership, SeenMember};
use super::options::Options;
use super::pace::Pace;
use super::peer::Peer;
use super::peers::Peers;
use super::pull::{Pull, Served};
use super::recent::Recent;
use super::refused::Refused;
use super::schedule::LevelSchedule;
use super::split::Splits;
use super::stats::Stats;
use super::subject::Subject;
use super::time::Nanos;
use super::watch::Watches;
use super::wire::{self, Message, Shift};
use crate::member::Member;
use beat::Beats;
use census::LastCensus;
use founding::Founding;
use frames::Unsent;
use report::Alone;
use seeds::Seeds;
pub(crate) use stale::CATCH_UP_WITHIN;
use stale::Stale;
use unlinked::Unlinked;

/// One node of a cluster.
pub struct Core<H> {
    host: H,
    options: Options,
    rng: ChaCha8Rng,
    started: Nanos,
    hash_key: HashKey,
    /// When as many hash keys as were used may be used at once again: one more each minute.
    keys_until: Nanos,
    membership: Membership,
    seeds: Seeds,
    peers: Peers,
    census: LastCensus,
    /// Members without a place among the peers, which take turns. Bounded by the members known.
    undialled: VecDeque<SocketAddr>,
    /// The address that each link was dialled for, from its dial to its end.
    dialled: BTreeMap<LinkId, SocketAddr>,
    inbound: Inbounds,
    applied: BTreeMap<Origin, Applied>,
    clocks: BTreeMap<Origin, RemoteClock>,
    recent: BTreeMap<Origin, Recent>,
    /// When the last of these was applied.
    recent_at: Option<Nanos>,
    /// The last levels of each node that have not been compared.
    pending_levels: BTreeMap<Origin, PendingLevels>,
    watches: Watches,
    idle: IdleSpans,
    refused: Refused,
    /// When the level of which key is sent.
    schedule: LevelSchedule,
    splits: Splits,
    pace: Pace,
    budget: Budget,
    unsent: Unsent,
    /// The peer that was sent a frame last: the next one is next.
    last_sent_to: Option<SocketAddr>,
    estimates: Estimates,
    /// The moves of other nodes' words to send with the next batch.
    shifts: Vec<Shift>,
    /// When what was recorded may be taken next, and is to be.
    next_flush: Nanos,
    flush_at: Option<Nanos>,
    /// When keys are split anew.
    refresh_at: Nanos,
    /// When pending levels are compared next.
    poll_at: Nanos,
    /// When this node sends levels next.
    levels_at: Nanos,
    beats: Beats,
    drains: Drains,
    log: Log,
    /// The log keeps more than it should, or something is to be freed: when to go on.
    trim_at: Option<Nanos>,
    backlog: Backlog,
    discard: Discard,
    pull: Option<Pull>,
    requests: u64,
    /// How many transfers in a row have stalled.
    timeouts: u32,
    /// The peer whose state was requested last.
    last_asked: Option<SocketAddr>,
    served: BTreeMap<LinkId, Served>,
    torn: TornWait,
    /// How the node has come into its cluster; `None` until it has.
    join_kind: Option<JoinKind>,
    founding: Founding,
    /// This node's words contain nothing of any other node, and it has joined.
    fresh: bool,
    leaving: bool,
    /// The last batch of what it has flushed as it is about to leave.
    leaves_after: Option<u64>,
    next_link: u64,
    actions: VecDeque<Action>,
    events: Events,
    alone: Alone,
    unlinked: Unlinked,
    stale: Stale,
    stats: Stats,
}

impl<H: Host> Core<H> {
    /// A node at its start. `me.generation` must not have been used at this address before, and
    /// should grow: if it does not, as when the wall clock went back, the rank is raised by the
    /// first `Welcome` of a peer that knows an earlier run.
    pub fn new(me: NodeId, mut options: Options, host: H, now: Nanos) -> Self {
        options.newest_version = options.newest_version.clamp(OLDEST_VERSION, NEWEST_VERSION);
        let seeds = Seeds::new(me.addr, &options.join, options.looked_up);
        let alone = seeds.are_none();
        let mut core = Self {
            host,
            rng: ChaCha8Rng::seed_from_u64(options.seed ^ 0x5eed),
            started: now,
            hash_key: HashKey::of_start(me.generation, options.hash_key, alone),
            keys_until: now.saturating_add(HASH_KEY_EVERY),
            membership: Membership::new(me, &options),
            backlog: Backlog::new(options.backlog_keys),
            budget: Budget::new(options.byte_cap),
            options,
            peers: Peers::default(),
            census: LastCensus::default(),
            seeds,
            undialled: VecDeque::new(),
            dialled: BTreeMap::new(),
            inbound: Inbounds::default(),
            applied: BTreeMap::new(),
            clocks: BTreeMap::new(),
            recent: BTreeMap::new(),
            recent_at: None,
            pending_levels: BTreeMap::new(),
            watches: Watches::default(),
            idle: IdleSpans::default(),
            refused: Refused::default(),
            schedule: LevelSchedule::default(),
            splits: Splits::default(),
            pace: Pace::default(),
            unsent: Unsent::default(),
            last_sent_to: None,
            estimates: Estimates::default(),
            shifts: Vec::new(),
            next_flush: now,
            flush_at: None,
            refresh_at: now,
            poll_at: now,
            levels_at: now,
            beats: Beats::new(now),
            drains: Drains::new(now),
            log: Log::default(),
            trim_at: None,
            discard: Discard::default(),
            pull: None,
            requests: 0,
            timeouts: 0,
            last_asked: None,
            served: BTreeMap::new(),
            torn: TornWait::default(),
            join_kind: alone.then_some(JoinKind::Founded),
            founding: Founding::new(now),
            fresh: alone,
            leaving: false,
            leaves_after: None,
            next_link: 1,
            actions: VecDeque::new(),
            events: Events::beginning_with(alone.then_some(Event::Founded)),
            alone: Alone::default(),
            unlinked: Unlinked::default(),
            stale: Stale::new(now),
            stats: Stats::default(),
        };
        core.peers.replace(core.seeds.peers(now));
        core.settle(now);
        core
    }

    /// Takes what the host has recorded and sends it to the peers, at once: no cap of bytes keeps
    /// it waiting, as it is what a node that leaves sends last.
    pub fn flush(&mut self, now: Nanos) {
        self.note_run_delay(now);
        self.begin_step(now);
        self.budget.lift();
        self.take_all(now);
        self.compare_levels(now);
        self.leaves_after = Some(self.log.last());
        self.settle(now);
    }

    /// A node with a certificate for `subject` opened a link. `None` when there are
    /// [`MAX_INBOUND`] that have greeted: the caller closes it.
    pub fn accepted(&mut self, now: Nanos, subject: Subject) -> Option<LinkId> {
        self.begin_step(now);
        if self.inbound.len() >= MAX_INBOUND {
            let silent = self.inbound.oldest_silent()?;
            self.close(now, silent);
        }
        let link = self.new_link();
        self.inbound.insert(link, Inbound::new(now, subject));
        Some(link)
    }

    /// A link is gone, or could not be opened.
    pub fn closed(&mut self, now: Nanos, link: LinkId) {
        self.begin_step(now);
        self.take_all_early(now, link);
        self.count_unwelcomed(link);
        self.forget_link(now, link);
        self.settle(now);
    }

    /// A message arrived; `transit` is an estimate of its time in transit.
    pub fn message(&mut self, now: Nanos, link: LinkId, transit: Nanos, bytes: &[u8]) {
        self.begin_step(now);
        self.count_received(self.addr_of(link), bytes.len());
        let known = match wire::decode_as(self.version_on(link), bytes) {
            // A closed link may still deliver, and nothing is known any more of its version.
            _ if !self.is_open(link) => Ok(()),
            Ok(message) if self.inbound.contains_key(&link) => {
                self.on_inbound(now, link, transit, message)
            }
            Ok(message) => self.on_outbound(now, link, transit, message),
            Err(_) => Err(Violation),
        };
        if known.is_err() {
            self.end_violated(now, link);
        }
        self.settle(now);
    }

    /// A datagram arrived.
    pub fn datagram(&mut self, now: Nanos, link: LinkId, bytes: &[u8]) {
        self.begin_step(now);
        self.count_received(self.addr_of(link), bytes.len());
        if self.on_packet(now, link, bytes).is_err() {
            self.end_violated(now, link);
        }
        self.settle(now);
    }

    /// The other side has broken the protocol.
    fn end_violated(&mut self, now: Nanos, link: LinkId) {
        self.stats.violations += 1;
        self.events.push(Event::Violation { addr: self.addr_of(link) });
        self.close(now, link);
    }

    /// The deadline has passed.
    pub fn tick(&mut self, now: Nanos) {
        self.note_run_delay(now);
        self.begin_step(now);
        self.membership.tick(now);
        self.tick_flush(now);
        self.tick_peers(now);
        self.tick_inbound(now);
        self.tick_pull(now);
        self.tick_levels(now);
        self.tick_beats(now);
        if self.trim_at.is_some() {
            self.trim_log(now);
        }
        self.tick_estimates(now);
        self.settle(now);
    }

    /// When [`Core::tick`] is to be called; may already have passed.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        [
            self.membership.deadline(),
            self.peers_deadline(),
            self.inbound.deadline(),
            self.pull_deadline(),
            self.flush_deadline(),
            self.agree_deadline(),
            self.beat_deadline(),
            self.budget.deadline(),
            self.serve_deadline(),
            self.step_deadline(),
            self.alone_deadline(),
            self.found_deadline(),
            self.trim_at,
            self.estimates.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next action to perform; `None` when there is none.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next event to report to an operator; `None` when there is none. At most 256 wait.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// This node's present identity.
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
        self.seen().iter().map(|seen| seen.after(Duration::ZERO)).collect()
    }

    /// The same, for a caller that reads few of them.
    #[must_use]
    pub fn seen(&self) -> Vec<SeenMember> {
        self.membership.seen(self.leaving)
    }

    /// How the node has come into its cluster; `None` until it has, and then final.
    #[must_use]
    pub fn join_kind(&self) -> Option<JoinKind> {
        self.join_kind
    }

    /// Whether the node founded its cluster or has taken over another node's state. Once true it
    /// stays true.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.join_kind.is_some()
    }

    /// The work that follows every input: membership events, dials, frames, packets.
    fn settle(&mut self, now: Nanos) {
        while let Some(event) = self.membership.next_event() {
            match event {
                MemberEvent::Up(id) => self.member_up(now, id),
                MemberEvent::Down(id) => self.member_down(now, id),
                MemberEvent::Rejoined => {
                    self.events.push(Event::Rejoined);
                    self.announce_everywhere(now);
                }
            }
        }
        self.dial_due(now);
        self.start_pull(now);
        self.found_when_due(now);
        self.ask_awaited(now);
        self.send_frames(now);
        self.budget.set_keys_wait(self.pace.capped() > 0);
        self.serve_waiting(now);
        self.budget.note(now);
        self.release_backlog(now);
        while let Some((to, bytes)) = self.membership.next_packet() {
            match self.route(to) {
                Some(link) => {
                    self.count_sent(Some(to), bytes.len());
                    self.actions.push_back(Action::Datagram { link, bytes });
                }
                None => self.stats.packets_unroutable += 1,
            }
        }
        self.note_alone(now);
        self.note_unlinked(now);
        self.membership.observe(now, &mut self.events);
    }

    /// The address of the node at the other end of a link, once it is known.
    fn addr_of(&self, link: LinkId) -> Option<SocketAddr> {
        let dialled = self.dialled.get(&link).copied();
        dialled.or_else(|| self.inbound.get(&link)?.id.map(|id| id.addr))
    }

    /// A link to `addr` on which both sides have greeted: one that this node dialled, or accepted.
    fn route(&self, addr: SocketAddr) -> Option<LinkId> {
        let own = self.peers.get(&addr).and_then(Peer::welcomed_link);
        own.or_else(|| self.inbound.from(addr))
    }

    fn is_open(&self, link: LinkId) -> bool {
        self.inbound.contains_key(&link) || self.dialled_peer(link).is_some()
    }

    fn new_link(&mut self) -> LinkId {
        let link = LinkId(self.next_link);
        self.next_link += 1;
        link
    }

    fn send(&mut self, link: LinkId, channel: Channel, message: &Message) {
        // Messages are built within their bounds, so encoding does not fail. If it did, closing the
        // link would leave the frame unacknowledged, and so to be sent again.
        match wire::encode_as(self.version_on(link), message) {
            Ok((bytes, _)) if bytes.len() <= MAX_MESSAGE_BYTES => {
                self.count_sent(self.addr_of(link), bytes.len());
                self.actions.push_back(Action::Message { link, channel, bytes: bytes.into() });
            }
            _ => self.actions.push_back(Action::Close { link }),
        }
    }

    /// Whether this node speaks a version of the format.
    fn speaks(&self, version: u16) -> bool {
        (OLDEST_VERSION..=self.options.newest_version).contains(&version)
    }

    /// The version of the format that both sides of a link speak.
    fn version_on(&self, link: LinkId) -> u16 {
        if let Some(inbound) = self.inbound.get(&link) {
            return inbound.version;
        }
        let peer = self.dialled.get(&link).and_then(|addr| self.peers.get(addr));
        peer.map_or(OLDEST_VERSION, |peer| peer.version)
    }

    fn close(&mut self, now: Nanos, link: LinkId) {
        self.actions.push_back(Action::Close { link });
        self.forget_link(now, link);
    }

    fn forget_link(&mut self, now: Nanos, link: LinkId) {
        self.end_serving(link);
        self.abort_pull(link);
        self.beats.forget(link);
        let dialled = self.dialled.remove(&link);
        match self.inbound.remove(link) {
            Some(Inbound { id: Some(id), .. }) => self.apply_late(now, id.origin()),
            Some(_) => {}
            None => self.peer_closed(now, link, dialled),
        }
    }
}

/// The peer has broken the protocol; the link is closed.
struct Violation;
