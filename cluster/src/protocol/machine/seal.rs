//! What was admitted here becomes numbered batches.

use super::Core;
use super::frames::Unsent;
use super::pace::Scope;
use super::void::is_void;
use crate::protocol::action::Channel;
use crate::protocol::bounds::{MAX_BATCH_DELTAS, MAX_SHIFTS};
use crate::protocol::cursor::Cursor;
use crate::protocol::delta::Delta;
use crate::protocol::drains::Drained;
use crate::protocol::host::Host;
use crate::protocol::log::Batch;
use crate::protocol::pace::Taken;
use crate::protocol::peer::{Dial, Peer};
use crate::protocol::time::{Nanos, SECOND};
use crate::protocol::wire::{Agreement, Message, Shift};

/// After this long without an acknowledgement a peer on an open link counts as absent.
const ABSENT_AFTER: Nanos = SECOND;

/// Deltas that one step of a flush drains and seals, at most: a millisecond or two.
const MAX_TAKEN: usize = 1_024;
/// Deltas of a batch, at most: as many as a receiver applies in one step. Fewer than a message may
/// have, for keys that are new to its table.
const MAX_SEALED: usize = 512;
const _: () = assert!(MAX_SEALED <= MAX_BATCH_DELTAS);
/// Entries that one step frees, at most: more than it adds, so what is discarded and what is kept
/// never exceed what was kept.
const MAX_FREED: usize = 8 * MAX_SEALED;

/// How often in a flush interval something is taken before it is due, at most.
const TAKEN_AHEAD_PER_FLUSH: u64 = 5;

impl<H: Host> Core<H> {
    /// Takes what the host has recorded, and seals what is to be sent of it, with the levels that
    /// are due.
    pub(super) fn take_batch(&mut self, now: Nanos) {
        self.take_whole(now, Scope::Due);
    }

    /// The same, and seals all that waits.
    pub(super) fn take_all(&mut self, now: Nanos) {
        self.take_whole(now, Scope::All);
    }

    fn take_whole(&mut self, now: Nanos, scope: Scope) {
        // A drain that has begun may lack what was recorded since.
        while !self.drains.is_over() {
            self.take_some(now, scope);
        }
        while !self.take_some(now, scope) {}
        self.trim_log(now);
    }

    /// Takes as much as one step may. Whether the drain is over: then levels are sent, as words
    /// contain nothing else. Until then the next flush is due at once.
    pub(super) fn take_step(&mut self, now: Nanos) -> bool {
        let is_over = self.take_some(now, Scope::Due);
        if !is_over {
            self.flush_at = Some(now);
        }
        self.trim_log(now);
        is_over
    }

    fn take_some(&mut self, now: Nanos, scope: Scope) -> bool {
        let is_whole = self.drains.is_over();
        let mut drained = self.drain_some(now);
        // What one that was begun before this flush has left is not all that is recorded.
        let is_over = self.drains.is_over() && (is_whole || !self.drains.is_begun_ahead());
        self.drains.add_ahead_to(&mut drained);
        let (mut levels, mut later) = (Agreement::default(), None);
        if is_over {
            (levels, later) = self.due_levels(now, &drained.deltas);
            levels.shifts = self.due_shifts();
        }
        self.seal_drained(now, drained, levels, scope);
        if let Some(later) = later {
            self.seal_drained(now, later, Agreement::default(), scope);
        }
        self.end_drain(now, is_over)
    }

    /// Whether the drain is over, and what follows it then.
    fn end_drain(&mut self, now: Nanos, is_over: bool) -> bool {
        let is_over = is_over && self.drains.is_over();
        if is_over {
            self.follow_wanted(now);
            self.split_keys(now);
        }
        is_over
    }

    /// Takes what was recorded here, as far as a step may, before changes of another node that give
    /// something back: no more of that has an effect than was owed at its date, and what was used
    /// here by then was part of it.
    pub(super) fn take_before(&mut self, now: Nanos, changes: &[Delta]) {
        // What comes to a stale node is kept, and applied in order once it has caught up with the
        // others.
        if self.stale.is_stale() && self.pull.is_none() {
            return;
        }
        let (mut given_back, mut is_behind) = (Vec::new(), false);
        for delta in changes.iter().filter(|delta| delta.change.debt < 0) {
            if self.host.tolerance(delta.limit).is_some() {
                let debt = self.debt(now, delta.id());
                is_behind |= self.idle.is_behind(now, delta.id(), debt);
                given_back.push((*delta, debt));
            }
        }
        let every = self.options.flush_interval / TAKEN_AHEAD_PER_FLUSH;
        let is_due = is_behind && self.drains.may_go_ahead(now, every);
        if is_due {
            // A drain that has begun may lack what was recorded since.
            if !self.drains.is_over() {
                self.take_ahead(now);
            }
            self.take_ahead(now);
            for (delta, debt) in &mut given_back {
                *debt = self.debt(now, delta.id());
            }
        }
        for (delta, debt) in given_back {
            self.idle.begin(now, &delta, debt);
        }
        if is_due {
            // What was used here meanwhile.
            self.take_ahead(now);
        }
    }

    /// Takes some of what the host has recorded, which the next flush seals: no more than that may
    /// take.
    fn take_ahead(&mut self, now: Nanos) {
        let most = MAX_TAKEN.saturating_sub(self.drains.ahead());
        if most > 0 {
            let drained = self.drain(now, most);
            if !drained.deltas.is_empty() || !self.drains.is_over() {
                self.recorded(now);
            }
            self.drains.keep_ahead(drained);
        }
    }

    fn due_shifts(&mut self) -> Vec<Shift> {
        let shifts = self.shifts.len().min(MAX_SHIFTS);
        self.shifts.drain(..shifts).collect()
    }

    /// Seals what is to be sent of what was drained, with the levels.
    fn seal_drained(&mut self, now: Nanos, drained: Drained, levels: Agreement, scope: Scope) {
        let Drained { span, deltas } = drained;
        let mut taken = self.pace_deltas(span, &deltas, scope);
        // A level contains nothing that is sent after it: a node that goes on after a stop raises
        // its word to it, and would add that once more.
        for level in &levels.levels {
            self.pace.take_word(now, level.id(), self.nodes_alive(), &mut taken);
        }
        self.seal_all(now, taken, levels);
        self.estimate_own(span, &deltas);
        self.split_new_keys(now, &deltas);
    }

    /// Seals what was drained as levels were compared, with the moves of the other nodes' words.
    pub(super) fn seal_compared(&mut self, now: Nanos, drained: Drained) {
        let levels = Agreement { shifts: self.due_shifts(), ..Agreement::default() };
        self.seal_drained(now, drained, levels, Scope::Due);
        if !self.end_drain(now, true) {
            self.flush_at = Some(now);
        }
    }

    /// Takes some of what the host has recorded.
    pub(super) fn drain_some(&mut self, now: Nanos) -> Drained {
        let most = MAX_TAKEN.saturating_sub(self.drains.ahead()).max(1);
        let drained = self.drain(now, most);
        if self.drains.is_over() {
            self.observe_words(now);
        }
        drained
    }

    fn drain(&mut self, now: Nanos, most: usize) -> Drained {
        self.drains.begin(now);
        let since = self.drains.until();
        let mut deltas = Vec::new();
        let is_over = self.host.take_recorded(now, most, &mut deltas);
        if is_over {
            self.drains.end();
        }
        self.stats.deltas_recorded += deltas.len() as u64;
        self.note_changes(&deltas);
        self.note_beyond_vector(&deltas);
        for delta in &deltas {
            self.watches.charged(delta.id(), delta.change.debt);
            self.splits.consumed(now, delta);
            let (host, provisional) = (&mut self.host, self.splits.provisional(delta.id()));
            let debt = || host.debt(now, delta.limit, delta.key).saturating_sub(provisional);
            self.idle.consumed(now, delta, debt);
        }
        Drained { span: (since, now), deltas }
    }

    /// Seals in batches, the last one with the levels.
    pub(super) fn seal_all(&mut self, now: Nanos, taken: Taken, levels: Agreement) {
        let Taken { mut deltas, since } = taken;
        let is_asked = self.stale.answer_at().is_some_and(|at| at <= now);
        let empty = deltas.is_empty() && levels.levels.is_empty() && levels.shifts.is_empty();
        if empty && !is_asked {
            return;
        }
        self.stale.sealed(now);
        let since = since.unwrap_or(now);
        // Mostly sorted: what waited comes after the rest.
        deltas.sort_by_key(Delta::id);
        let mut rest = deltas.as_slice();
        while rest.len() > MAX_SEALED {
            let (some, others) = rest.split_at(MAX_SEALED);
            self.seal((since, now), some.to_vec(), Agreement::default());
            rest = others;
        }
        self.seal((since, now), rest.to_vec(), levels);
    }

    fn seal(&mut self, (since, now): (Nanos, Nanos), deltas: Vec<Delta>, levels: Agreement) {
        let number = self.log.last() + 1;
        self.unsent = Unsent::Any;
        let mut batch = Batch::new(number, (since, now), deltas, levels);
        // In this step, which is bounded: a peer that returns may be sent many in one.
        if self.peers.values().any(|peer| peer.cursor().is_some()) {
            self.stats.deltas_dropped += batch.encode(self.options.newest_version);
        }
        self.log.push(batch);
    }

    /// Moves what the log no longer keeps to the backlog, as far as a peer needs it: one batch in a
    /// step, and the others in steps that follow. Where the backlog is full, peers that are gone
    /// make room: a dead peer together with many new keys costs the others nothing.
    pub(super) fn trim_log(&mut self, now: Nanos) {
        let horizon = now.saturating_sub(self.options.log_age);
        while let Some(batch) = self.log.trim(horizon) {
            while !self.backlog.has_room_for(&batch) && self.give_up_absent(now) {}
            let cursors = || self.peers.values().filter_map(Peer::cursor);
            if cursors().any(|cursor| cursor.acked() < batch.number) {
                let split = cursors().any(|cursor| cursor.may_stand_at(batch.number - 1));
                let grace = self.options.grace;
                let void = |delta: &Delta| is_void(&self.host, delta, now, grace);
                self.backlog.fold(&batch, split, void);
                break;
            }
        }
        self.discard.free(MAX_FREED);
        let more = self.log.is_over(horizon) || !self.discard.is_empty();
        self.trim_at = more.then_some(now);
        self.stats.deltas_dropped += self.backlog.take_dropped();
    }

    /// Keeps nothing more for the peer that is furthest behind of those that acknowledge nothing:
    /// it takes over this node's state when it returns. False where there is none.
    ///
    /// A peer that is only slow goes on instead, without what there is no room for, which is
    /// counted: while keys come fast enough that the log is shorter than a state takes, it would be
    /// given one state after the other, and never a frame.
    fn give_up_absent(&mut self, now: Nanos) -> bool {
        let base = self.log.base();
        let absent = |peer: &Peer| {
            let at = peer.cursor().map(Cursor::acked).filter(|acked| *acked < base);
            at.filter(|_| {
                !peer.is_flowing() || peer.delivery.acked_at.saturating_add(ABSENT_AFTER) <= now
            })
        };
        let furthest =
            self.peers.iter_mut().filter_map(|(_, peer)| absent(peer).map(|at| (at, peer)));
        let Some((_, peer)) = furthest.min_by_key(|(at, _)| *at) else { return false };
        peer.delivery.cursor = None;
        self.stats.peers_given_up += 1;
        if let Dial::Open { link, flowing: true, .. } = peer.dial {
            peer.dial = Dial::Open { link, welcomed: true, flowing: false };
            self.send(link, Channel::Main, &Message::Gap);
        }
        self.release_backlog(now);
        true
    }

    /// Discards what every peer has of the backlog.
    pub(super) fn release_backlog(&mut self, now: Nanos) {
        if !self.backlog.is_empty() {
            let cursors = self.peers.values().filter_map(Peer::cursor);
            self.backlog.release(cursors.map(Cursor::acked).min(), &mut self.discard);
        }
        if !self.discard.is_empty() {
            self.trim_at.get_or_insert(now);
        }
    }
}
