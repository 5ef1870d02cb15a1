//! What other nodes consumed, applied to this node's words.
//!
//! A delta is applied in the order of dates ([`IdleSpans`]) up to an age of the limit's burst
//! tolerance, or of twice the usual age of its origin's deltas and [`Options::grace`]. Up to a
//! second a charge is applied so too where all idle spans since its date are known, unless it is
//! the sum of all that was missed.
//!
//! An older delta, as after a partition or a stall, has drained at its origin meanwhile, and not
//! from this node's word. It is *late*: it waits until the origin has caught up. Then what was left
//! of it when this node's word was last empty (a second ago at most) is applied, as the word has
//! lacked that since. So what was consumed in a partition denies nothing if the limit was not
//! exceeded; and nothing is given away where it was, and where frames are late as a rule. A late
//! refund lapses.
//!
//! [`IdleSpans`]: crate::protocol::idle::IdleSpans
//! [`Options::grace`]: super::Options::grace

use std::net::SocketAddr;

use super::Core;
use crate::protocol::change::Change;
use crate::protocol::clock::RemoteClock;
use crate::protocol::delta::{Delta, KeyId, signed};
use crate::protocol::event::Event;
use crate::protocol::host::Host;
use crate::protocol::id::Origin;
use crate::protocol::inbound::{Applied, Dating};
use crate::protocol::time::{Nanos, SECOND};
use crate::protocol::wire::Shift;

/// After this long without another late change an origin has caught up.
const QUIET: Nanos = SECOND / 2;
/// How far back a word counts as lacking what came late, at most: after a long partition in which a
/// limit was exceeded, nodes pay back what they admitted in this time, and deny for no longer.
const MAX_LACK: Nanos = SECOND;
/// Late changes of one origin that are held back, at most.
const MAX_LATE: usize = 1 << 14;

impl<H: Host> Core<H> {
    /// Applies one change of `origin`, or holds it back. What was applied at once.
    pub(super) fn apply(
        &mut self,
        now: Nanos,
        origin: Origin,
        delta: Delta,
        dating: Dating,
    ) -> Option<Delta> {
        let refused = self.stats.debts_refused;
        let applied = self.apply_bounded(now, origin, delta, dating);
        self.report_refused(now, refused, origin.addr);
        applied
    }

    /// Reports to an operator, now and then, that something of what this node sent was refused
    /// since there were `before`.
    pub(super) fn report_refused(&mut self, now: Nanos, before: u64, from: SocketAddr) {
        if self.stats.debts_refused > before && self.refused.is_to_be_reported(now) {
            self.events.push(Event::DebtRefused { from });
        }
    }

    fn apply_bounded(
        &mut self,
        now: Nanos,
        origin: Origin,
        mut delta: Delta,
        dating: Dating,
    ) -> Option<Delta> {
        let Some(tolerance) = self.host.tolerance(delta.limit) else {
            self.stats.deltas_unknown += 1;
            let most = self.host.most_debt(delta.limit);
            self.bound(now, most, &mut delta);
            if self.host.apply(now, delta) {
                self.note_changes(&[delta]);
            }
            return None;
        };
        let most = self.host.most_debt(delta.limit);
        self.bound(now, most, &mut delta);
        let grace = tolerance.max(self.grace(origin));
        let is_late = |grace| delta.change.date < signed(now).saturating_sub(signed(grace));
        let has_place = dating == Dating::InBatch || !is_late(grace);
        if has_place && self.keep_unplayed((origin, dating), delta) {
            return None;
        }
        let is_dated = dating == Dating::InBatch && delta.change.debt >= 0;
        let is_exact = || is_dated && self.idle.reach(delta.id(), delta.change.date);
        if !is_late(grace) || !is_late(MAX_LACK) && is_exact() {
            if delta.change.debt < 0 {
                let leeway = self.clocks.get(&origin).map_or(0, |clock| clock.transit());
                delta.change.date = self.idle.date((origin, &delta), leeway);
            }
            let owed = self.debt(now, delta.id());
            let mut change = self.idle.landed(now, self.known_until(now), (origin, &delta), owed);
            let refused = self.bound_word(now, delta.id(), owed, &mut change);
            if refused > 0 {
                self.idle.forget(delta.id());
                delta.change.debt = delta.change.debt.saturating_sub(refused).max(0);
            }
            // Also what has drained here of it: it refilled for all.
            self.pace.landed(now, delta.id(), delta.change.debt, self.nodes_alive());
            self.put(now, Delta { change, ..delta });
            self.splits.consumed_by(delta.id(), origin, delta.change.debt);
            self.stats.deltas_applied += 1;
            return Some(delta);
        }
        self.stats.deltas_late += 1;
        let applied = self.applied.entry(origin).or_default();
        applied.late_at = now;
        let late = &mut applied.late;
        late.entry(delta.word_id())
            .and_modify(|(limit, sum)| {
                (*limit, *sum) = ((*limit).max(delta.limit), sum.then(delta.change));
            })
            .or_insert((delta.limit, delta.change));
        if late.len() > MAX_LATE {
            self.apply_late(now, origin);
        }
        None
    }

    /// Applies one change to this node's word.
    pub(super) fn put(&mut self, now: Nanos, delta: Delta) {
        let change = self.splits.landed(&delta);
        self.host.apply(now, Delta { change, ..delta });
        self.note_changes(&[delta]);
        self.note_beyond_vector(&[delta]);
        self.watches.charged(delta.id(), change.debt);
    }

    /// Applies the late changes of an origin that sends nothing newer.
    pub(super) fn end_late(&mut self, now: Nanos, origin: Origin) {
        let quiet = |applied: &Applied| now.saturating_sub(applied.late_at) >= QUIET;
        if self.applied.get(&origin).is_some_and(quiet) {
            self.apply_late(now, origin);
        }
    }

    /// How old a change of this origin may be and not count as late, at least.
    pub(super) fn grace(&self, origin: Origin) -> Nanos {
        let lag = self.clocks.get(&origin).map_or(0, RemoteClock::lag);
        lag.saturating_mul(2).saturating_add(self.options.grace)
    }

    /// Moves this node's word of a key as another node says: by a burst tolerance at most. The
    /// other one has moved its own by all of it, so the sum of the words falls by what is cut off
    /// here, and never grows.
    pub(super) fn shift_by_peer(&mut self, now: Nanos, shift: Shift) {
        let Some(tolerance) = self.host.tolerance(shift.limit) else { return };
        let most = signed(tolerance);
        self.shift(now, (shift.limit, shift.key), shift.by.clamp(-most, most));
    }

    /// Applies what is left of the late changes of an origin that has caught up.
    pub(super) fn apply_late(&mut self, now: Nanos, origin: Origin) {
        let Some(applied) = self.applied.get_mut(&origin) else { return };
        for ((_, key), (limit, change)) in std::mem::take(&mut applied.late) {
            let owed = self.host.debt(now, limit, key);
            let debt = change.left(signed(self.empty_at(now, (limit, key), owed)));
            if debt > 0 {
                let mut change = Change { debt, date: signed(now) };
                self.bound_word(now, (limit, key), owed, &mut change);
                self.idle.added(now, self.known_until(now), (limit, key), change.debt);
                self.put(now, Delta { limit, key, change });
                self.stats.deltas_applied += 1;
            }
            self.schedule.changed(now, (limit, key));
        }
    }

    /// All that was recorded before this has been drained.
    pub(super) fn flushed(&self) -> Nanos {
        self.drains.until()
    }

    /// All that was consumed here before this is drained: while it is stale, a node consumes
    /// nothing. What it recorded right before that drains into the span that is noted until now.
    pub(super) fn known_until(&self, now: Nanos) -> Nanos {
        if self.stale.is_stale() { now } else { self.flushed() }
    }

    /// When this node's word of a key, which owes `owed`, was last empty, as far as is known: at
    /// `now` if it is not.
    fn empty_at(&self, now: Nanos, (limit, key): KeyId, owed: Nanos) -> Nanos {
        if owed == 0 {
            return now;
        }
        let watched = self.watches.in_debt_since((limit, key));
        let emptied = self.idle.last_end((limit, key)).and_then(|end| Nanos::try_from(end).ok());
        let since = watched.max(emptied).unwrap_or(now);
        since.max(now.saturating_sub(MAX_LACK))
    }

    /// Reduces a change to what an honest node could owe, and counts that.
    fn bound(&mut self, now: Nanos, most: Nanos, delta: &mut Delta) {
        let (id, change) = (delta.id(), &mut delta.change);
        change.date = change.date.min(signed(now));
        let room = signed(now).saturating_add(signed(most)).saturating_sub(change.date);
        if change.debt > room {
            let refused = change.debt.saturating_sub(room);
            change.debt = room;
            self.refuse(now, id, (most, refused));
        }
    }

    /// Counts that of a key that owes `most` this was refused. No word of a limit that does not
    /// exist here is ever compared.
    pub(super) fn refuse(&mut self, now: Nanos, id: KeyId, (most, refused): (Nanos, i64)) {
        self.stats.debts_refused += 1;
        if self.host.tolerance(id.0).is_some() {
            self.refused.add(now, id, (most, refused));
        }
    }

    /// Reduces a change that honest nodes with this limit cannot have made to a key's word that
    /// owes `owed`: afterwards it owes no more than a key can, or than before. By how much; counts
    /// that.
    pub(super) fn bound_word(
        &mut self,
        now: Nanos,
        id: KeyId,
        owed: Nanos,
        change: &mut Change,
    ) -> i64 {
        let most = self.host.most_debt(id.0);
        let room = signed(most.saturating_sub(owed));
        let excess = change.debt.saturating_sub(room);
        if excess <= 0 {
            return 0;
        }
        let tat = change.tat();
        // What drains at once of a word that is empty goes first.
        *change = Change { debt: room, date: change.date.saturating_add(excess).min(signed(now)) };
        let refused = if owed > 0 { excess } else { tat.saturating_sub(change.tat()) };
        if refused > 0 {
            self.refuse(now, id, (most, refused));
        }
        refused
    }
}
