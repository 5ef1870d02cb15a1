//! A node that has joined, or was stopped or starved, catches up with its peers before it decides.
//!
//! The driver steps the core with each input, and at its deadline, which comes at least
//! every [`STEP_EVERY`] while others send it frames. Where [`STALE_AFTER`] has passed since the
//! last step, the node's words are that old: it is *stale* until it has caught up with each node
//! that sent it frames, or [`CATCH_UP_WITHIN`] has passed. It has caught up once it has a batch
//! that was sealed since, by the clock of its origin, and is no older than usual: batches come in
//! order, so everything before it is here too. What only waited in a buffer does not count, nor
//! what is followed by more that is under way, and neither does a link that closes: a stop that is
//! longer than the idle timeout closes all of them, and they are dialled again at once.
//!
//! A node that joins is stale in the same way from when it has taken over a state: what others have
//! consumed since that was read is under way, from all of them at once.
//!
//! What comes meanwhile is applied at the end, all of it in the order of its dates. Applied as it
//! comes, it would be of one origin after the other, and each of them alone would have drained.
//!
//! A node that has nothing to send is asked for a batch, by a position that is sent again. A link
//! on which nothing comes for all that is closed once, so that it is dialled anew: while no answer
//! came, its retransmissions have backed off, and the next one may be as far away as the stop was
//! long.
//!
//! A node that starts over, as its cluster meets one whose key wins, has no state until it has
//! joined that one, and is not current for as long.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::Core;
use crate::protocol::action::LinkId;
use crate::protocol::change::Change;
use crate::protocol::clock::SETTLING;
use crate::protocol::delta::{Delta, signed};
use crate::protocol::event::Event;
use crate::protocol::given_back::{GivenBack, LevelsCut};
use crate::protocol::host::{Host, Level};
use crate::protocol::id::Origin;
use crate::protocol::idle::Unobserved;
use crate::protocol::inbound::{Dating, Flow, Inbound};
use crate::protocol::peer::Peer;
use crate::protocol::time::{Nanos, SECOND};
use crate::protocol::unplayed::{Replayed, Unplayed};

/// A node whose words are this old catches up with its peers before it decides.
const STALE_AFTER: Nanos = SECOND / 2;
/// A node to which others send frames, or that has not joined, is stepped at least this often.
pub(super) const STEP_EVERY: Nanos = SECOND / 4;
/// A node waits for its peers for this long, at most.
pub(crate) const CATCH_UP_WITHIN: Nanos = SECOND;
/// What is older than usual by this many flush intervals, and than what settling a clock takes, is
/// followed by more, which is under way.
const UNDER_WAY_FLUSHES: u64 = 2;
/// What a node has received this long before a stop, others know by its end; what it has sent, as
/// far as they do not say otherwise.
const UNDER_WAY: Nanos = SECOND;
/// A peer that is awaited is asked again after this.
const ASK_EVERY: Nanos = SECOND / 20;
/// A node that is asked by many peers answers all of them with one batch, at most this often.
const ANSWER_EVERY: Nanos = ASK_EVERY;
/// A peer that is awaited by then, and is silent, has its link closed.
const REDIAL_AFTER: Nanos = CATCH_UP_WITHIN / 2;
/// A link is silent on which nothing has come for this long.
const SILENCE: Nanos = REDIAL_AFTER / 2;

/// When the core was last stepped, and which peers it awaits since a step that came late.
#[derive(Debug, Default)]
pub(super) struct Stale {
    stepped_at: Nanos,
    /// The last step that came late.
    since: Nanos,
    /// The last step before the node became stale, or when the state that it has taken over was
    /// read.
    stopped_at: Nanos,
    /// It is stale because it has joined.
    joins: bool,
    /// The peers it has caught up with since.
    caught_up: BTreeSet<SocketAddr>,
    /// The peers it has not caught up with since, and when each is asked next. The node is stale
    /// while there is one.
    awaited: BTreeMap<SocketAddr, Nanos>,
    /// Links on which nothing came have been closed.
    is_redialled: bool,
    times: u64,
    total: Nanos,
    /// How many of these times have ended without a fresh batch of every peer.
    times_incomplete: u64,
    /// What came meanwhile, not yet applied.
    unplayed: Unplayed,
    /// What was given back since shortly before this.
    given_back: GivenBack,
    /// The batches of this node that are looked through for that.
    looked_through: Option<RangeInclusive<u64>>,
    /// The version vector of the state that it has taken over as it joined.
    vector: LevelsCut,
    /// How often it had joined, and has started over.
    times_over: u64,
    /// A peer has asked for a batch, so a flush is sealed also when it is empty.
    is_asked: bool,
    /// When the last batch was sealed.
    sealed_at: Option<Nanos>,
}

impl Stale {
    pub(super) fn new(now: Nanos) -> Self {
        Self { stepped_at: now, ..Self::default() }
    }

    /// Forgets what came, and the peers of which nothing did.
    pub(super) fn start_over(&mut self, had_joined: bool) {
        self.times_over += u64::from(had_joined);
        self.awaited.clear();
        self.unplayed = Unplayed::default();
        self.forget_given_back();
    }

    /// Nothing is compared with it any more.
    fn forget_given_back(&mut self) {
        self.given_back = GivenBack::default();
        self.looked_through = None;
        self.vector = LevelsCut::default();
    }

    /// When the core was last stepped.
    pub(super) fn stepped_at(&self) -> Nanos {
        self.stepped_at
    }

    pub(super) fn is_stale(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Whether something has come that is not applied.
    pub(super) fn has_unplayed(&self) -> bool {
        !self.unplayed.is_empty()
    }

    /// When a batch is due for which a peer has asked.
    pub(super) fn answer_at(&self) -> Option<Nanos> {
        let earliest = self.sealed_at.map_or(0, |at| at.saturating_add(ANSWER_EVERY));
        self.is_asked.then_some(earliest)
    }

    /// A batch is sealed, which answers all peers that have asked for one.
    pub(super) fn sealed(&mut self, now: Nanos) {
        (self.is_asked, self.sealed_at) = (false, Some(now));
    }

    /// How often the node was stale, how often without a fresh batch of every peer in the end, and
    /// for how long in all.
    pub(super) fn times(&self) -> (u64, u64, Duration) {
        (self.times, self.times_incomplete, Duration::from_nanos(self.total))
    }

    /// Whether a word with this cut contains all that the state did which this node has taken over:
    /// one from before may owe what was given back since.
    fn is_reached_by(&self, cut: &LevelsCut) -> bool {
        let is_behind = |(origin, number): (&Origin, &u64)| {
            cut.get(origin).is_some_and(|through| through < number)
        };
        !self.vector.iter().any(is_behind)
    }
}

/// Whether frames come on a link.
fn flows(link: &Inbound) -> bool {
    link.id.is_some() && link.flow == Flow::Frames && link.has_sent_clock
}

impl<H: Host> Core<H> {
    /// Until when the node's words are recent enough to decide from, unless it is stepped before:
    /// 0 while it is stale or joins anew, and [`Nanos::MAX`] where no peer sends it frames.
    #[must_use]
    pub fn current_until(&self) -> Nanos {
        match self.step_deadline() {
            _ if self.stale.is_stale() || self.joins_anew() => 0,
            Some(_) => self.stale.stepped_at.saturating_add(STALE_AFTER),
            None => Nanos::MAX,
        }
    }

    /// Whether the node had joined, has started over and has no state yet: its words do not contain
    /// what either cluster has admitted.
    fn joins_anew(&self) -> bool {
        self.stale.times_over > 0 && !self.has_joined() && !self.leaving
    }

    /// When the core is to be stepped, at the latest.
    pub(super) fn step_deadline(&self) -> Option<Nanos> {
        let every = if self.stale.is_stale() { ASK_EVERY } else { STEP_EVERY };
        let receives = || self.inbound.values().any(flows);
        let is_due = self.stale.is_stale() || self.has_joined() && !self.leaving && receives();
        is_due.then(|| self.stale.stepped_at.saturating_add(every))
    }

    /// Whether the node is stale, or a step makes it so: a peer sends it frames, and it was stopped
    /// for long.
    pub(super) fn is_stale_at(&self, now: Nanos) -> bool {
        let was_stopped = now.saturating_sub(self.stale.stepped_at) >= STALE_AFTER;
        self.stale.is_stale() || was_stopped && self.step_deadline().is_some()
    }

    /// Notes a step, before anything else that comes with it.
    pub(super) fn begin_step(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.stale.stepped_at);
        self.stale.stepped_at = now;
        if self.stale.is_stale() && !self.stale.joins {
            self.stale.total += passed;
        }
        if passed >= STALE_AFTER && !self.has_joined() && !self.leaving {
            self.wait_anew(now);
        }
        if passed >= STALE_AFTER && self.has_joined() && !self.leaving {
            self.begin_stale(now, passed);
        } else if self.stale.is_stale() && now.saturating_sub(self.stale.since) >= CATCH_UP_WITHIN {
            self.stale.times_incomplete += u64::from(!self.stale.joins);
            let awaited = std::mem::take(&mut self.stale.awaited).len();
            self.end_stale(now, awaited);
        }
    }

    fn begin_stale(&mut self, now: Nanos, passed: Nanos) {
        let was_stale = self.stale.is_stale();
        (self.stale.since, self.stale.is_redialled) = (now, false);
        if !was_stale {
            self.stale.stopped_at = now - passed;
            self.note_given_back();
        }
        let joined = std::mem::take(&mut self.stale.joins);
        let origins = self.inbound.values().filter(|link| flows(link)).filter_map(|link| link.id);
        self.stale.awaited.extend(origins.map(|id| (id.addr, now)));
        if self.stale.is_stale() && (!was_stale || joined) {
            self.stale.times += 1;
            self.events.push(Event::Stale { unseen: Duration::from_nanos(passed) });
        }
    }

    /// This node has taken over a state, read at a time: awaits all that are alive, or have a link
    /// to it or from it. Links that have just been opened are not dialled anew.
    pub(super) fn await_all(&mut self, now: Nanos, as_of: Nanos) {
        (self.stale.since, self.stale.is_redialled) = (now, true);
        (self.stale.stopped_at, self.stale.joins) = (as_of, true);
        self.stale.caught_up.clear();
        self.stale.forget_given_back();
        let positions = self.applied.iter();
        let positions = positions.map(|(origin, applied)| (*origin, applied.position.through));
        // Of an origin that the server had in parts no number says what the state contains.
        self.stale.vector = positions.filter(|(_, through)| *through < u64::MAX).collect();
        let linked = self.inbound.values().filter_map(|link| link.id).map(|id| id.addr);
        let is_there = |(addr, peer): &(&SocketAddr, &Peer)| {
            self.membership.is_active(**addr) || peer.welcomed_link().is_some()
        };
        let known = self.peers.iter().filter(is_there).map(|(addr, _)| *addr);
        let awaited = linked.chain(known).filter(|addr| self.is_to_be_awaited(*addr));
        self.stale.awaited = awaited.map(|addr| (addr, now)).collect();
    }

    /// A node has become known, or has opened a link: this one, if it joins, awaits it too.
    pub(super) fn await_too(&mut self, now: Nanos, addr: SocketAddr) {
        if self.is_joining() && self.is_to_be_awaited(addr) {
            self.stale.awaited.entry(addr).or_insert(now);
        }
    }

    /// Another node that this one has not caught up with, and that is not known to join as well.
    fn is_to_be_awaited(&self, addr: SocketAddr) -> bool {
        let peer = self.peers.get(&addr);
        let joins = peer.is_some_and(|peer| peer.welcomed_link().is_some() && !peer.joined);
        addr != self.me().addr && !joins && !self.stale.caught_up.contains(&addr)
    }

    /// Nothing more is to come of a node.
    pub(super) fn stop_awaiting(&mut self, now: Nanos, addr: SocketAddr) {
        if self.stale.awaited.remove(&addr).is_some() && !self.stale.is_stale() {
            self.end_stale(now, 0);
        }
    }

    /// Whether this node has taken over a state, and catches up with the others before it decides.
    #[must_use]
    pub fn is_joining(&self) -> bool {
        self.stale.is_stale() && self.stale.joins
    }

    /// Asks the peers that are awaited for a batch.
    pub(super) fn ask_awaited(&mut self, now: Nanos) {
        if !self.stale.is_stale() {
            return;
        }
        if now.saturating_sub(self.stale.since) >= REDIAL_AFTER {
            self.close_silent(now);
        }
        let due = self.stale.awaited.iter().filter(|(_, at)| **at <= now);
        let due: Vec<SocketAddr> = due.map(|(addr, _)| *addr).collect();
        for addr in due {
            let link = self.inbound.from(addr);
            // Before it has sent its clock on its link, it may be answering with a gap.
            let asked = link.filter(|link| self.inbound.get(link).is_some_and(flows));
            if let Some(link) = asked {
                self.stale.awaited.insert(addr, now.saturating_add(ASK_EVERY));
                self.send_resume(link);
            }
        }
    }

    /// Closes the links on which nothing comes, once: those that are open by then are new.
    fn close_silent(&mut self, now: Nanos) {
        if std::mem::replace(&mut self.stale.is_redialled, true) {
            return;
        }
        for addr in self.stale.awaited.keys().copied().collect::<Vec<_>>() {
            let link = self.inbound.from(addr);
            if let Some(link) = link.filter(|link| self.is_silent(now, *link)) {
                self.close(now, link);
            }
        }
    }

    /// Whether frames may come on a link, and none has for a while.
    fn is_silent(&self, now: Nanos, link: LinkId) -> bool {
        let Some(inbound) = self.inbound.get(&link).filter(|link| flows(link)) else {
            return false;
        };
        let applied = inbound.id.and_then(|id| self.applied.get(&id.origin()));
        applied.is_none_or(|applied| applied.received_at.saturating_add(SILENCE) <= now)
    }

    /// A batch has been applied that was sealed at this time of this node's clock; `age` is how old
    /// it is, and `usual` how old batches usually are.
    pub(super) fn note_batch(
        &mut self,
        now: Nanos,
        (from, sealed): (SocketAddr, i64),
        (age, usual): (Nanos, Nanos),
    ) {
        let interval = self.options.flush_interval;
        let under_way =
            interval.saturating_mul(UNDER_WAY_FLUSHES).max(interval.saturating_add(SETTLING));
        let fresh = usual.saturating_add(under_way);
        let is_anew = sealed >= signed(self.stale.since) && age <= fresh;
        if !is_anew || self.stale.awaited.remove(&from).is_none() {
            return;
        }
        self.stale.caught_up.extend(self.stale.joins.then_some(from));
        if !self.stale.is_stale() {
            self.end_stale(now, 0);
        }
    }

    /// No peer is awaited any more; `awaited` were so in vain.
    fn end_stale(&mut self, now: Nanos, awaited: usize) {
        self.play(now);
        self.stale.forget_given_back();
        if awaited > 0 || !self.stale.joins {
            self.events.push(Event::CaughtUp { awaited });
        }
    }

    /// Whether what comes is kept until the end of this. A state that is taken over is added to
    /// words that contain what came before it.
    fn keeps_unplayed(&self) -> bool {
        self.stale.is_stale() && self.pull.is_none()
    }

    /// Applies what was kept, before something comes that is not, or as there is room for no more.
    /// Not while the changes of a batch are applied, whose number is noted before them: a level
    /// that contains the batch would count as if all of it was here.
    pub(super) fn play_between(&mut self, now: Nanos) {
        if !self.keeps_unplayed() || self.stale.unplayed.is_full() {
            self.play(now);
        }
    }

    /// Keeps what came of an origin while the node is stale; false where it is to be applied as
    /// always.
    pub(super) fn keep_unplayed(
        &mut self,
        (origin, dating): (Origin, Dating),
        delta: Delta,
    ) -> bool {
        if !self.stale.is_stale() {
            return false;
        }
        let through = self.applied.get(&origin).map_or(0, |applied| applied.position.through);
        // The position says that a batch is here, and not that a part is, which begins behind it.
        let number = through.saturating_add(u64::from(dating == Dating::InPart));
        if delta.change.debt < 0 {
            let last = if dating == Dating::InPart { u64::MAX } else { number };
            self.stale.given_back.add(delta.word_id(), origin, last);
        }
        if !self.keeps_unplayed() {
            return false;
        }
        self.stale.unplayed.keep_change((origin, number), &delta);
        true
    }

    /// Keeps what another node's words owed at a time, right after a batch of it, while this node
    /// is stale: its words owe that much at least, but for what was given back since.
    pub(super) fn keep_unplayed_levels(
        &mut self,
        (origin, number, at): (Origin, u64, i64),
        cut: &[(Origin, u64)],
        levels: &[Level],
    ) {
        if !self.keeps_unplayed() {
            return;
        }
        let (host, unplayed) = (&self.host, &mut self.stale.unplayed);
        let known = levels.iter().filter(|level| host.tolerance(level.limit).is_some());
        let cut = || cut.iter().copied().chain([(origin, number)]).collect();
        unplayed.keep_levels(at, cut, known.copied());
    }

    /// Applies what came while the node was stale in the order in which it was consumed, by
    /// whichever node: nodes that each consume less than the limit exceed it together. What the
    /// word owed when the node was stopped has been forgotten; levels make up for it.
    pub(super) fn play(&mut self, now: Nanos) {
        if self.stale.unplayed.is_empty() {
            return;
        }
        let unplayed = std::mem::take(&mut self.stale.unplayed);
        let lives = self.lives(now);
        if unplayed.has_levels() {
            self.note_own_given_back(unplayed.least_contained(self.me().origin()));
        }
        let counts = |cut: &LevelsCut| self.contains(&lives, cut) && self.stale.is_reached_by(cut);
        let words = unplayed.in_order(counts, &self.stale.given_back).collect::<Vec<_>>();
        for ((limit, key), all) in words {
            let changes = all.iter().filter(|replayed| matches!(replayed, Replayed::Change(_)));
            self.stats.deltas_applied += changes.count() as u64;
            let owed = self.debt(now, (limit, key));
            let unobserved = Unobserved {
                since: self.stale.stopped_at,
                debt: owed,
                grace: self.host.tolerance(limit).unwrap_or(0).max(self.options.grace),
            };
            let debt = self.idle.replayed(now, (limit, key), unobserved, &all);
            let mut change = Change { debt, date: signed(now) };
            if self.bound_word(now, (limit, key), owed, &mut change) > 0 {
                self.idle.forget((limit, key));
            }
            self.put(now, Delta { limit, key, change });
            self.schedule.changed(now, (limit, key));
        }
    }

    /// Notes what other nodes gave back shortly before this node was stopped: some may not have
    /// known of it in what they sent.
    fn note_given_back(&mut self) {
        let since = self.stale.stopped_at.saturating_sub(UNDER_WAY);
        self.stale.forget_given_back();
        for (origin, recent) in &self.recent {
            for seen in recent.newest().take_while(|seen| seen.at >= since) {
                let (number, at) = (seen.number, seen.sealed);
                self.stale.given_back.add_batch(*origin, number, at, &seen.deltas);
            }
        }
    }

    /// Notes what this node has given back, since shortly before the stop and after the batch that
    /// all levels contain: what is not sealed yet no other node knows.
    fn note_own_given_back(&mut self, contained: Option<u64>) {
        let since = self.stale.stopped_at.saturating_sub(UNDER_WAY);
        let me = self.me().origin();
        let is_lacked = |number| contained.is_some_and(|contained| number > contained);
        let batches = || self.log.newest().take_while(|b| b.at >= since || is_lacked(b.number));
        let looked_through = self.stale.looked_through.clone();
        let is_new = |number| looked_through.as_ref().is_none_or(|old| !old.contains(number));
        for batch in batches().filter(|batch| is_new(&batch.number)) {
            let at = signed(batch.at);
            self.stale.given_back.add_batch(me, batch.number, at, &batch.deltas);
        }
        let first = batches().last().map(|batch| batch.number).into_iter();
        let first = first.chain(looked_through.map(|old| *old.start())).min();
        self.stale.looked_through = first.map(|first| first..=self.log.last());
        for word in self.pace.given_back() {
            self.stale.given_back.add(word, me, u64::MAX);
        }
    }

    /// Something has come on a link that only comes where frames do.
    pub(super) fn note_clock_sent(&mut self, link: LinkId) {
        self.inbound.change(link, |inbound| inbound.has_sent_clock = true);
    }

    /// A peer to which frames flow has asked for a batch: the next flush sends it something.
    pub(super) fn be_asked(&mut self, now: Nanos) {
        self.stale.is_asked = true;
        self.answer_asked(now);
    }

    /// A flush comes in time for what a peer has asked.
    pub(super) fn answer_asked(&mut self, now: Nanos) {
        if let Some(at) = self.stale.answer_at() {
            self.recorded(now.max(at));
        }
    }
}
