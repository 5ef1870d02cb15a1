//! Membership and failure detection: foca (SWIM), its timers and its packets.

mod bound;
mod states;
mod timers;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use bytes::Bytes;
use foca::{AccumulatingRuntime, Foca, NoCustomBroadcast, OwnedNotification};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::bounds::{MAX_MEMBERS, MAX_PACKET_BYTES};
use super::event::Events;
use super::id::{NodeId, Origin};
use super::options::Options;
use super::time::{Nanos, nanos};
use super::wire::PacketCodec;
use crate::member::{Member, MemberState};
use states::States;
use timers::Timers;

/// How long a member may stay suspect: twice foca's own timeout.
const MAX_SUSPICION: Nanos = 6_000_000_000;

/// A member whose identity has not been formatted as text yet.
#[derive(Clone, Copy, Debug)]
pub struct SeenMember {
    id: NodeId,
    state: MemberState,
    state_for: Duration,
}

impl SeenMember {
    /// The address that its peers dial.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.id.addr
    }

    /// The member as it is a while later.
    #[must_use]
    pub fn after(&self, passed: Duration) -> Member {
        let Self { id, state, state_for } = *self;
        Member { id: id.to_string(), addr: id.addr, state, state_for: state_for + passed }
    }
}

pub(super) struct Membership {
    foca: Foca<NodeId, PacketCodec, ChaCha8Rng, NoCustomBroadcast>,
    runtime: AccumulatingRuntime<NodeId>,
    timers: Timers,
    packets: VecDeque<(SocketAddr, Bytes)>,
    events: VecDeque<MemberEvent>,
    /// The generations that have left, by address. Bounded by `MAX_MEMBERS`.
    left: BTreeMap<SocketAddr, u64>,
    /// Since when members are suspect. Bounded by `MAX_MEMBERS`.
    suspects: BTreeMap<NodeId, Nanos>,
    states: States,
    /// All known members in order of their addresses, so that finding one takes no scan.
    index: Vec<(SocketAddr, NodeId, foca::State)>,
    /// How often the index has changed.
    revision: u64,
    /// Down members that were forgotten early.
    forgotten: u64,
    /// New members that were ignored.
    refused: u64,
}

/// A change of membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberEvent {
    Up(NodeId),
    Down(NodeId),
    /// This node's identity was declared down and has been renewed: it has to be announced.
    Rejoined,
}

impl Membership {
    pub(super) fn new(me: NodeId, options: &Options) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(options.seed);
        Self {
            foca: Foca::new(me, config(options), rng, PacketCodec),
            runtime: AccumulatingRuntime::new(),
            timers: Timers::default(),
            packets: VecDeque::new(),
            events: VecDeque::new(),
            left: BTreeMap::new(),
            suspects: BTreeMap::new(),
            states: States::default(),
            index: Vec::new(),
            revision: 0,
            forgotten: 0,
            refused: 0,
        }
    }

    pub(super) fn me(&self) -> NodeId {
        *self.foca.identity()
    }

    pub(super) fn packet(&mut self, now: Nanos, bytes: &[u8]) {
        // A malformed packet is ignored.
        if let Some(bytes) = self.fitting(bytes) {
            let _ = self.foca.handle_data(&bytes, &mut self.runtime);
        }
        self.collect(now);
    }

    pub(super) fn announce(&mut self, now: Nanos, to: SocketAddr) {
        let _ = self.foca.announce(NodeId::wildcard(to), &mut self.runtime);
        self.collect(now);
    }

    /// Makes sure that this identity wins against one of `floor` at its address.
    pub(super) fn outrank(&mut self, now: Nanos, floor: u64) {
        let me = self.me();
        // 0 is the rank of no identity.
        let next = NodeId { rank: floor.wrapping_add(1).max(1), ..me };
        if floor != 0 && next.rank != me.rank && next.outranks(me.rank) {
            let _ = self.foca.change_identity(next, &mut self.runtime);
            self.collect(now);
        }
    }

    /// `id` has left.
    pub(super) fn left(&mut self, now: Nanos, id: NodeId) {
        self.make_room_to_leave();
        self.left.insert(id.addr, id.generation);
        let known = self.state_of(id.addr);
        if known.is_none() && !self.make_room(1) {
            self.refused += 1;
            return;
        }
        let current = known.filter(|(known, _)| known.generation == id.generation);
        let down = foca::Member::down(current.map_or(id, |(known, _)| known));
        let _ = self.foca.apply_many(std::iter::once(down), true, &mut self.runtime);
        self.collect(now);
    }

    /// Forgets the leave of a node that is no member first: whether a member is shown as left or as
    /// down depends on it.
    fn make_room_to_leave(&mut self) {
        if self.left.len() >= MAX_MEMBERS {
            let mut unknown = self.left.keys().filter(|addr| self.state_of(**addr).is_none());
            let unknown = unknown.next().or(self.left.keys().next()).copied();
            unknown.and_then(|addr| self.left.remove(&addr));
        }
    }

    pub(super) fn leave(&mut self, now: Nanos) {
        let _ = self.foca.leave_cluster(&mut self.runtime);
        self.collect(now);
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.timers.deadline().into_iter().chain(self.states.deadline()).min()
    }

    pub(super) fn tick(&mut self, now: Nanos) {
        while let Some(timer) = self.timers.take_due(now) {
            // foca ignores a timer that is late or belongs to a state that is over.
            let _ = self.foca.handle_timer(timer, &mut self.runtime);
            self.collect(now);
        }
        self.end_suspicion(now);
    }

    /// Declares members down that have been suspect for [`MAX_SUSPICION`].
    ///
    /// When this node renews its identity, foca drops its timers, also those of suspects. Probes of
    /// a suspect then succeed, but only the suspect itself can refute the suspicion, and no node
    /// gossips about it any more. Once it is declared down it is notified, and rejoins.
    fn end_suspicion(&mut self, now: Nanos) {
        let suspects: Vec<foca::Member<NodeId>> = self
            .foca
            .iter_members()
            .filter(|member| member.state() == foca::State::Suspect)
            .cloned()
            .collect();
        self.suspects.retain(|id, _| suspects.iter().any(|member| member.id() == id));
        for suspect in suspects {
            let since = *self.suspects.entry(*suspect.id()).or_insert(now);
            if now.saturating_sub(since) >= MAX_SUSPICION {
                let down =
                    foca::Member::new(*suspect.id(), suspect.incarnation(), foca::State::Down);
                let _ = self.foca.apply_many(std::iter::once(down), true, &mut self.runtime);
                self.collect(now);
            }
        }
    }

    pub(super) fn next_packet(&mut self) -> Option<(SocketAddr, Bytes)> {
        self.packets.pop_front()
    }

    pub(super) fn next_event(&mut self) -> Option<MemberEvent> {
        self.events.pop_front()
    }

    pub(super) fn is_active(&self, addr: SocketAddr) -> bool {
        self.state_of(addr).is_some_and(|(_, state)| state != foca::State::Down)
    }

    /// Whether this generation of a node is an active member.
    pub(super) fn is_present(&self, origin: Origin) -> bool {
        self.state_of(origin.addr)
            .is_some_and(|(id, state)| id.origin() == origin && state != foca::State::Down)
    }

    /// Grows when a member becomes known, changes its state or is forgotten.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The known rank at the address of `id` that it has to exceed, of another generation or one
    /// that others invented; 0 if there is none.
    pub(super) fn rank_floor(&self, id: NodeId) -> u64 {
        let is_ahead =
            |known: &NodeId| known.generation != id.generation || known.outranks(id.rank);
        let other = self.state_of(id.addr).filter(|(known, _)| is_ahead(known));
        other.map_or(0, |(known, _)| known.rank)
    }

    /// The other members that are known, and which of them are active.
    pub(super) fn known(&self) -> impl Iterator<Item = (NodeId, bool)> {
        let all = self.foca.iter_membership_state();
        all.map(|member| (*member.id(), member.state() != foca::State::Down))
    }

    fn state_of(&self, addr: SocketAddr) -> Option<(NodeId, foca::State)> {
        let place = self.index.binary_search_by_key(&addr, |(addr, ..)| *addr).ok()?;
        self.index.get(place).map(|(_, id, state)| (*id, *state))
    }

    /// Brings the index up to what foca knows.
    fn refresh(&mut self) {
        let members = self.foca.iter_membership_state();
        let entries = members.map(|member| (member.id().addr, *member.id(), member.state()));
        let mut index: Vec<_> = entries.collect();
        index.sort_unstable_by_key(|(addr, ..)| *addr);
        if index != self.index {
            self.index = index;
            self.revision += 1;
        }
    }

    /// Observes all members, unless that was only just done, and reports what has changed.
    pub(super) fn observe(&mut self, now: Nanos, events: &mut Events) {
        let mut states = std::mem::take(&mut self.states);
        let me = self.me();
        let others = self.foca.iter_membership_state().filter(|m| m.id().addr != me.addr);
        let others = others.map(|member| (*member.id(), self.state_of_member(member)));
        states.observe(now, me, others, events);
        self.states = states;
    }

    /// This node first, then the others by address.
    pub(super) fn seen(&self, leaving: bool) -> Vec<SeenMember> {
        let me = self.me();
        let others = self.foca.iter_membership_state().filter(|m| m.id().addr != me.addr);
        let mut members: Vec<_> = others.map(|member| self.describe(member)).collect();
        members.sort_by_key(|member| member.id.addr);
        let state = if leaving { MemberState::Left } else { MemberState::Alive };
        members.insert(0, SeenMember { id: me, state, state_for: self.states.since(me.addr) });
        members
    }

    fn describe(&self, member: &foca::Member<NodeId>) -> SeenMember {
        let (id, state) = (*member.id(), self.state_of_member(member));
        SeenMember { id, state, state_for: self.states.since(id.addr) }
    }

    fn state_of_member(&self, member: &foca::Member<NodeId>) -> MemberState {
        let id = member.id();
        match member.state() {
            foca::State::Alive => MemberState::Alive,
            foca::State::Suspect => MemberState::Suspect,
            foca::State::Down if self.left.get(&id.addr) == Some(&id.generation) => {
                MemberState::Left
            }
            foca::State::Down => MemberState::Down,
        }
    }

    /// Takes foca's packets, timers and notifications.
    fn collect(&mut self, now: Nanos) {
        while let Some((to, bytes)) = self.runtime.to_send() {
            self.packets.push_back((to.addr, bytes));
        }
        while let Some((after, timer)) = self.runtime.to_schedule() {
            self.timers.submit(now.saturating_add(nanos(after)), timer);
        }
        while let Some(notification) = self.runtime.to_notify() {
            let event = match notification {
                OwnedNotification::MemberUp(id) => MemberEvent::Up(id),
                OwnedNotification::MemberDown(id) => MemberEvent::Down(id),
                OwnedNotification::Rejoin(_) => MemberEvent::Rejoined,
                _ => continue,
            };
            self.events.push_back(event);
        }
        self.refresh();
    }
}

/// Tuned for a local network: a silent member is suspect after one to two seconds and down three
/// seconds later.
fn config(options: &Options) -> foca::Config {
    let mut config = foca::Config::simple();
    config.probe_period = Duration::from_secs(1);
    config.probe_rtt = Duration::from_millis(400);
    config.suspect_to_down_after = Duration::from_secs(3);
    config.max_transmissions = NonZeroU8::new(10).unwrap_or(NonZeroU8::MIN);
    config.max_packet_size = NonZeroUsize::new(MAX_PACKET_BYTES).unwrap_or(NonZeroUsize::MIN);
    config.remove_down_after = Some(Duration::from_nanos(options.forget_down_after));
    // A member that was only unreachable must be notified to rejoin under a new identity.
    config.notify_down_members = true;
    config.periodic_gossip = Some(foca::PeriodicParams {
        frequency: Duration::from_millis(200),
        num_members: NonZeroUsize::new(3).unwrap_or(NonZeroUsize::MIN),
    });
    config.periodic_announce = Some(foca::PeriodicParams {
        frequency: Duration::from_secs(30),
        num_members: NonZeroUsize::MIN,
    });
    config
}
