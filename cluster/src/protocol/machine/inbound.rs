//! Links that other nodes dialled, and their frames.

use std::ops::RangeInclusive;

use super::key_agreement::Met;
use super::{Core, Violation};
use crate::protocol::action::{Channel, LinkId};
use crate::protocol::bounds::{MAX_ORIGINS, OLDEST_VERSION};
use crate::protocol::clock::RemoteClock;
use crate::protocol::delta::{Delta, KeyId};
use crate::protocol::event::Event;
use crate::protocol::hash_key::HashKey;
use crate::protocol::host::{Host, PREFETCHED};
use crate::protocol::id::{NodeId, Origin};
use crate::protocol::inbound::{Dating, Flow, Inbound, PendingLevels};
use crate::protocol::recent::{AppliedBatch, Recent};
use crate::protocol::time::Nanos;
use crate::protocol::wire::{Agreement, Group, Message, Position, Shift, ungroup};

/// What a batch, or a part of the backlog, brings.
struct Frame {
    number: u64,
    at: Nanos,
    transit: Nanos,
    groups: Vec<Group>,
}

/// Batches that are not acknowledged, at most: a quarter of what may be in flight.
const MAX_UNACKED: u32 = 64;
/// Generations of before of a node of which it is known how far they were applied, at most.
const MAX_ENDED: usize = 2;

impl<H: Host> Core<H> {
    pub(super) fn tick_inbound(&mut self, now: Nanos) {
        let has_greeted = |link: &LinkId| self.inbound.get(link).is_some_and(|l| l.id.is_some());
        let (greeted, silent): (Vec<_>, Vec<_>) =
            self.inbound.due(now).into_iter().partition(has_greeted);
        for link in silent {
            self.close(now, link);
        }
        for link in greeted {
            let is_due = |at: Option<Nanos>| at.is_some_and(|at| at <= now);
            let Some(inbound) = self.inbound.get(&link) else { continue };
            let (settles, owes) = (is_due(inbound.settled_at), is_due(inbound.ack_at));
            if settles {
                self.take_early(now, link);
            }
            if owes {
                self.ack(link);
            }
        }
    }

    /// A message on a link that another node dialled.
    pub(super) fn on_inbound(
        &mut self,
        now: Nanos,
        link: LinkId,
        transit: Nanos,
        message: Message,
    ) -> Result<(), Violation> {
        match self.keep_early(now, (link, transit), message)? {
            Some(message) => self.handle_inbound(now, link, transit, message),
            None => Ok(()),
        }
    }

    pub(super) fn handle_inbound(
        &mut self,
        now: Nanos,
        link: LinkId,
        transit: Nanos,
        message: Message,
    ) -> Result<(), Violation> {
        let id = self.inbound.get(&link).and_then(|inbound| inbound.id);
        match (message, id) {
            (Message::Hello { version, oldest, id, key }, None) => {
                self.on_hello(now, (link, transit), oldest..=version, id, key)
            }
            (Message::Key { key }, Some(id)) => self.meet_key(now, key, id.addr).map(drop),
            (Message::Beat { now: sent, delay, lag, run_delay }, Some(id)) => {
                if !self.clocks.contains_key(&id.origin()) {
                    self.begin_settling(now, link);
                }
                self.on_beat(now, id.origin(), (sent, transit), (delay, lag, run_delay));
                self.note_clock_sent(link);
                Ok(())
            }
            (Message::Batch { number, at, groups, levels }, Some(id)) => {
                let batch = Frame { number, at, transit, groups };
                self.on_batch(now, link, id.origin(), batch, levels)
            }
            (Message::Missed { to, at, upto, groups }, Some(id)) => {
                let part = Frame { number: to, at, transit, groups };
                self.on_part(now, link, id.origin(), part, upto)
            }
            (Message::Gap, Some(_)) => self.on_gap(link),
            (Message::Leaving, Some(id)) => {
                self.membership.left(now, id);
                self.peer_left(now, id.addr);
                self.close(now, link);
                Ok(())
            }
            (Message::StateRequest { request }, Some(_)) => {
                self.serve_state(now, link, request);
                Ok(())
            }
            (Message::StateStop, Some(_)) => {
                self.end_serving(link);
                Ok(())
            }
            (Message::StateAck, Some(_)) => {
                self.serve_more(now, link, true);
                Ok(())
            }
            _ => Err(Violation),
        }
    }

    fn on_hello(
        &mut self,
        now: Nanos,
        (link, transit): (LinkId, Nanos),
        versions: RangeInclusive<u16>,
        id: NodeId,
        key: HashKey,
    ) -> Result<(), Violation> {
        let version = self.options.newest_version.min(*versions.end());
        let spoken = versions.contains(&version) && version >= OLDEST_VERSION;
        if !spoken {
            let (oldest, newest) = (*versions.start(), *versions.end());
            self.events.push(Event::VersionMismatch { addr: id.addr, oldest, newest });
            self.stats.violations += 1;
            self.close(now, link);
            return Ok(());
        }
        let me = self.me();
        let itself = id.origin() == me.origin();
        let covered = |link: &Inbound| link.subject.covers(id.addr);
        let known = id.addr == me.addr && !itself;
        if known || !self.inbound.get(&link).is_some_and(covered) {
            return Err(Violation);
        }
        if !itself && self.meet_key(now, key, id.addr)? == Met::StartedOver {
            return Ok(());
        }
        let joined = self.has_joined();
        let rank_floor = self.membership.rank_floor(id);
        let welcome = Message::Welcome { version, id: me, rank_floor, key: self.hash_key, joined };
        if itself {
            // By another of its addresses: the answer identifies this node to the dialler, which
            // closes the link.
            self.send(link, Channel::Main, &welcome);
            return Ok(());
        }
        // Only the newest link of a node counts: what an older one still delivers was sent before
        // the dialler received its new position.
        while let Some(older) = self.inbound.from(id.addr) {
            self.close(now, older);
        }
        self.end_others(now, id.origin());
        self.inbound.change(link, |inbound| {
            inbound.id = Some(id);
            inbound.version = version;
        });
        self.send(link, Channel::Main, &welcome);
        self.dial_now(now, id, transit);
        self.await_too(now, id.addr);
        if joined && !self.is_applying(id.origin()) {
            self.send_resume(link);
        }
        Ok(())
    }

    /// Sends the dialler the position after which to continue.
    pub(super) fn send_resume(&mut self, link: LinkId) {
        let Some(id) = self.inbound.get(&link).and_then(|inbound| inbound.id) else { return };
        self.inbound.change(link, |inbound| inbound.flow = Flow::Frames);
        let position = self.applied.get(&id.origin()).map(|applied| applied.position);
        self.send(link, Channel::Main, &Message::Resume { position, fresh: self.fresh });
    }

    /// Sends positions to all diallers that were waiting for this node to join.
    pub(super) fn send_all_resumes(&mut self) {
        let waiting = self
            .inbound
            .iter()
            .filter(|(_, link)| link.id.is_some() && link.flow == Flow::NotResumed);
        let waiting: Vec<LinkId> = waiting.map(|(link, _)| *link).collect();
        for link in waiting {
            self.send_resume(link);
        }
    }

    /// The link on which frames of `origin` may be in flight.
    pub(super) fn flow_of(&self, origin: Origin) -> Option<LinkId> {
        let flows = |link: &Inbound| link.flow == Flow::Frames && link.is_of(origin);
        self.inbound.iter().find(|(_, link)| flows(link)).map(|(link, _)| *link)
    }

    /// Whether a frame of `origin` may be in flight.
    pub(super) fn flows_from(&self, origin: Origin) -> bool {
        self.flow_of(origin).is_some()
    }

    fn on_gap(&mut self, link: LinkId) -> Result<(), Violation> {
        match self.inbound.get(&link).map(|inbound| inbound.flow) {
            Some(Flow::Frames) => self.inbound.change(link, |inbound| inbound.flow = Flow::Gap),
            // The answer to a position that was sent again and crossed the first one.
            Some(Flow::Gap) => return Ok(()),
            _ => return Err(Violation),
        };
        self.stats.gaps += 1;
        let Some(of) = self.addr_of(link) else { return Ok(()) };
        self.events.push(Event::Gap { of });
        if let Some(delivery) = self.peers.delivery_mut(&of) {
            delivery.traffic.gaps += 1;
        }
        Ok(())
    }

    /// The origins whose state has to be taken over before their frames flow.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (Origin, LinkId)> {
        self.inbound.gaps().filter_map(|(link, inbound)| Some((inbound.id?.origin(), link)))
    }

    /// The clock of an origin at the time a message was sent.
    fn on_beat(
        &mut self,
        now: Nanos,
        origin: Origin,
        (sent, transit): (Nanos, Nanos),
        (delay, lag, run_delay): (Option<i64>, Nanos, Nanos),
    ) {
        if self.clocks.len() >= MAX_ORIGINS && !self.clocks.contains_key(&origin) {
            let gone = |known: &Origin| !self.inbound.values().any(|link| link.is_of(*known));
            let gone = self.clocks.keys().find(|known| gone(known)).copied();
            gone.and_then(|gone| self.clocks.remove(&gone));
        }
        let clock = self.clocks.entry(origin);
        let clock = clock
            .and_modify(|clock| clock.read(now, sent, transit))
            .or_insert_with(|| RemoteClock::new(now, sent, transit));
        clock.note_report(delay, lag, run_delay);
        self.end_late(now, origin);
    }

    fn on_batch(
        &mut self,
        now: Nanos,
        link: LinkId,
        origin: Origin,
        batch: Frame,
        levels: Agreement,
    ) -> Result<(), Violation> {
        let done = self.expect_frames(link, origin)?;
        let number = batch.number;
        if number <= done.through {
            self.stats.frames_repeated += 1;
            self.send(link, Channel::Main, &Message::Ack { number: done.through });
            return Ok(());
        }
        if number != done.through + 1 || done.missed.is_some() || !self.room_for(now, origin) {
            return Err(Violation);
        }
        // A batch is as good as a beat: what it waited only makes it a worse one.
        let reading = (batch.at, batch.transit);
        let clock = self.read_clock(now, origin, reading).ok_or(Violation)?;
        let local = clock.to_local(batch.at);
        let age = now.saturating_sub(local.try_into().unwrap_or(0));
        let usual = clock.lag();
        clock.arrived(now, age);
        let deltas: Vec<Delta> = ungroup(batch.groups, local).collect();
        self.take_before(now, &deltas);
        self.play_between(now);
        let applied = self.applied.entry(origin).or_default();
        (applied.position.through, applied.received_at) = (number, now);
        let mut seen = AppliedBatch::new(now, number, local);
        for deltas in deltas.chunks(PREFETCHED) {
            self.host.prefetch(deltas);
            for delta in deltas {
                match self.apply(now, origin, *delta, Dating::InBatch) {
                    Some(applied) => seen.add(applied),
                    None => seen.late.push(delta.id()),
                }
            }
        }
        self.play_between(now);
        if age <= self.grace(origin) {
            self.apply_late(now, origin);
        }
        self.estimate_remote(now, origin, local, &seen.deltas);
        self.recent.entry(origin).or_default().push(seen);
        self.recent_at = Some(now);
        self.keep_levels(now, origin, (number, local), levels);
        self.count_frame(origin.addr);
        self.owe_ack(now, link);
        self.note_batch(now, (origin.addr, local), (age, usual));
        Ok(())
    }

    /// Acknowledges batches together, after a while or when they are many.
    fn owe_ack(&mut self, now: Nanos, link: LinkId) {
        let within = self.options.ack_within;
        let due = self.inbound.change(link, |inbound| {
            inbound.unacked += 1;
            let due = inbound.ack_at.get_or_insert(now.saturating_add(within));
            if inbound.unacked >= MAX_UNACKED {
                *due = now;
            }
            *due
        });
        if due.is_some_and(|due| due <= now) {
            self.ack(link);
        }
    }

    fn ack(&mut self, link: LinkId) {
        let id = self.inbound.change(link, |inbound| {
            (inbound.unacked, inbound.ack_at) = (0, None);
            inbound.id
        });
        let applied = id.flatten().and_then(|id| self.applied.get(&id.origin()));
        if let Some(number) = applied.map(|applied| applied.position.through) {
            self.stats.acks_sent += 1;
            self.send(link, Channel::Main, &Message::Ack { number });
        }
    }

    /// Keeps levels until they can be compared; only the last ones of each origin.
    fn keep_levels(
        &mut self,
        now: Nanos,
        origin: Origin,
        (number, at): (u64, i64),
        levels: Agreement,
    ) {
        let Agreement { cut, levels, scarce, shifts } = levels;
        let me = self.me().origin();
        // Of two nodes the one with the lower address compares, and sends the other its part.
        let is_mine = |shift: &Shift| shift.to == me && origin.addr < me.addr;
        for shift in shifts.into_iter().filter(is_mine) {
            self.shift_by_peer(now, shift);
        }
        self.keep_unplayed_levels((origin, number, at), &cut, &levels);
        let scarce = usize::try_from(scarce).unwrap_or(usize::MAX);
        for level in levels.iter().take(scarce) {
            self.splits.mark_scarce(now, (level.limit, level.key));
        }
        if !levels.is_empty() && me.addr < origin.addr {
            self.pending_levels
                .insert(origin, PendingLevels { number, at, since: now, cut, levels });
        }
    }

    /// A part of what this node missed.
    fn on_part(
        &mut self,
        now: Nanos,
        link: LinkId,
        origin: Origin,
        part: Frame,
        upto: Option<KeyId>,
    ) -> Result<(), Violation> {
        let done = self.expect_frames(link, origin)?;
        let to = part.number;
        let same = done
            .missed
            .is_none_or(|(known, key)| known == to && upto.is_none_or(|upto| key <= upto));
        if to <= done.through || !same || !self.room_for(now, origin) {
            return Err(Violation);
        }
        let clock = *self.clocks.get(&origin).ok_or(Violation)?;
        let local = clock.to_local(part.at);
        let deltas: Vec<Delta> = ungroup(part.groups, local).collect();
        self.take_before(now, &deltas);
        self.play_between(now);
        for delta in deltas {
            if done.missed.is_none_or(|(_, key)| delta.id() > key) {
                self.schedule.changed(now, delta.id());
                self.apply(now, origin, delta, Dating::InPart);
            }
        }
        self.apply_late(now, origin);
        let applied = self.applied.entry(origin).or_default();
        applied.received_at = now;
        self.stats.parts_received += 1;
        if let Some(delivery) = self.peers.delivery_mut(&origin.addr) {
            delivery.traffic.frames_received += 1;
        }
        let answer = if let Some(key) = upto {
            applied.position.missed = Some((to, key));
            self.torn.note_part(now);
            Message::AckPart { to, key }
        } else {
            applied.position = Position { through: to, missed: None };
            Message::Ack { number: to }
        };
        self.play_between(now);
        // Nothing is known of how its batches changed which key when.
        self.forget_recent(origin);
        self.send(link, Channel::Main, &answer);
        Ok(())
    }

    /// The position of an origin that may send frames. Where they follow a gap, a position that was
    /// sent again has crossed it, from which the log continues: nothing is missing.
    fn expect_frames(&mut self, link: LinkId, origin: Origin) -> Result<Position, Violation> {
        let flow = self.inbound.get(&link).map(|inbound| inbound.flow);
        let flow = flow.filter(|flow| *flow != Flow::NotResumed).ok_or(Violation)?;
        if flow == Flow::Gap {
            self.inbound.change(link, |inbound| inbound.flow = Flow::Frames);
            // By the time a further gap comes, the state that is asked for would be too old.
            self.cancel_pull(origin);
        }
        Ok(self.applied.get(&origin).map_or_else(Position::default, |applied| applied.position))
    }

    /// Whether the version vector has room for `origin`, after removing an origin that is not
    /// connected if necessary. First goes one of which nothing more comes, then one that is neither
    /// an active member nor has a link, and of several the one of which nothing was received for
    /// longest: the batches of a node that is back would be applied once more.
    pub(super) fn room_for(&mut self, now: Nanos, origin: Origin) -> bool {
        if self.applied.len() < MAX_ORIGINS || self.applied.contains_key(&origin) {
            return true;
        }
        let Some(least) = self.least_origin() else { return false };
        self.forget_origin(now, least);
        true
    }

    /// The origin that a full version vector gives up first.
    fn least_origin(&self) -> Option<Origin> {
        let has_later = |origin: &Origin| {
            let later = Origin { generation: origin.generation.saturating_add(1), ..*origin };
            let next = self.applied.range(later..).next();
            next.is_some_and(|(next, _)| next.addr == origin.addr)
        };
        let idle = self.applied.iter().filter(|(origin, _)| !self.flows_from(**origin));
        let least = idle.min_by_key(|(origin, applied)| {
            // The present generation is the smaller one where the wall clock went back.
            let is_present = self.membership.is_present(**origin);
            let is_known = is_present || self.inbound.from(origin.addr).is_some();
            (is_present || !has_later(origin), is_known, applied.received_at)
        });
        least.map(|(origin, _)| *origin)
    }

    /// Makes room in a full version vector for this node itself, in the state that it gives: where
    /// the node that takes it over had to make some, it may not know yet which origins are members.
    pub(super) fn make_room_for_self(&mut self, now: Nanos) {
        if self.applied.len() >= MAX_ORIGINS
            && let Some(least) = self.least_origin()
            && !self.membership.is_present(least)
        {
            self.forget_origin(now, least);
        }
    }

    /// No frame of another generation of this node is in flight any more; one of before is larger
    /// where the wall clock went back. How far the last ones were applied still says what a state
    /// contains that is given or taken over. Of an address there is one clock, at most.
    fn end_others(&mut self, now: Nanos, present: Origin) {
        let other = |origin: &Origin| origin.addr == present.addr && *origin != present;
        let ended: Vec<Origin> =
            self.applied.keys().filter(|origin| other(origin)).copied().collect();
        let forgotten = ended.len().saturating_sub(MAX_ENDED);
        for (index, origin) in ended.into_iter().enumerate() {
            if index < forgotten {
                self.forget_origin(now, origin);
            } else {
                self.end_origin(now, origin);
            }
        }
        self.clocks.retain(|origin, _| !other(origin));
    }

    /// Forgets how far an origin was applied.
    fn forget_origin(&mut self, now: Nanos, origin: Origin) {
        self.end_origin(now, origin);
        self.applied.remove(&origin);
    }

    /// Forgets what only matters while frames of an origin may come.
    fn end_origin(&mut self, now: Nanos, origin: Origin) {
        self.apply_late(now, origin);
        self.forget_recent(origin);
        self.pending_levels.remove(&origin);
    }

    /// Nothing is known any more of what an origin has sent lately.
    pub(super) fn forget_recent(&mut self, origin: Origin) {
        if self.recent.remove(&origin).is_some() {
            self.recent_at = self.recent.values().filter_map(Recent::last_at).max();
        }
    }
}
