//! Levels: which are told, and what becomes of those of other nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::Core;
use crate::protocol::agreement::step;
use crate::protocol::bounds::{MAX_LEVELS, MAX_SHIFTS};
use crate::protocol::change::Change;
use crate::protocol::delta::{Delta, KeyId, signed};
use crate::protocol::host::{Host, Level};
use crate::protocol::id::Origin;
use crate::protocol::origin::{Applied, Held};
use crate::protocol::recent::{Recent, find};
use crate::protocol::time::{Nanos, SECOND};
use crate::protocol::wire::{Agreement, Shift};

/// How often a key's level is told, at most.
pub(super) const LEVELS_EVERY: Nanos = SECOND / 10;
/// The share of the burst tolerance above which a key's debt is told: one in so many.
const DEEP: Nanos = 10;
/// Changes that are looked at for keys in debt, at most.
const MAX_LOOKS: usize = 4_096;
/// How long levels wait for what their cut contains and this node lacks.
const MAX_WAIT: Nanos = SECOND;
/// How often levels that wait are looked at.
const LOOK_EVERY: Nanos = SECOND / 100;

impl<H: Host> Core<H> {
    /// The levels to tell with the next batch: of keys that changed lately and are deep in debt.
    pub(super) fn due_levels(&mut self, now: Nanos, unsealed: &[Delta]) -> Agreement {
        if self.levels_at > now || self.leaving || !self.joined {
            return Agreement::default();
        }
        let since = self.levels_at.saturating_sub(LEVELS_EVERY);
        self.levels_at = now + LEVELS_EVERY;
        if self.open_links().is_empty() {
            return Agreement::default();
        }
        let mut levels = Vec::new();
        for (limit, key) in self.changed_since(since, unsealed) {
            let Some(tolerance) = self.host.tolerance(limit) else { continue };
            let debt = self.host.debt(limit, key);
            if debt > tolerance / DEEP && levels.len() < MAX_LEVELS {
                self.watches.keep(now, (limit, key), debt);
                levels.push(Level { limit, key, debt });
            }
        }
        if levels.is_empty() {
            return Agreement::default();
        }
        self.stats.levels_sent += levels.len() as u64;
        let cut = self.applied.iter().filter(|(_, applied)| !applied.is_torn());
        let cut = cut.map(|(origin, applied)| (*origin, applied.position.through)).collect();
        Agreement { cut, levels, shifts: Vec::new() }
    }

    /// Looks at the keys that are watched; what was recorded is in `deltas`.
    pub(super) fn look_at_words(&mut self, now: Nanos, deltas: &[Delta]) {
        for delta in deltas {
            self.watches.charged(delta.id(), delta.change.debt);
        }
        let host = &mut self.host;
        self.watches
            .look(now, |(limit, key)| (host.debt(limit, key), host.tolerance(limit).unwrap_or(0)));
    }

    /// Keys that changed here since then.
    fn changed_since(&self, since: Nanos, unsealed: &[Delta]) -> BTreeSet<KeyId> {
        let own = self.log.newest().take_while(|batch| batch.at >= since);
        let own = unsealed.iter().chain(own.flat_map(|batch| &batch.deltas));
        let others = self.recent.values().flat_map(|recent| {
            recent.newest().take_while(|seen| seen.at >= since).flat_map(|seen| &seen.deltas)
        });
        own.take(MAX_LOOKS).chain(others.take(MAX_LOOKS)).map(Delta::id).collect()
    }

    /// When levels are due, or are to be compared.
    pub(super) fn agree_deadline(&self) -> Option<Nanos> {
        let active = self.recent.values().filter_map(Recent::last_at).max();
        let due = active.filter(|at| *at + LEVELS_EVERY >= self.levels_at && !self.leaving);
        let due = due.map(|_| self.levels_at);
        let look = (!self.held.is_empty()).then_some(self.look_at);
        due.into_iter().chain(look).min()
    }

    pub(super) fn tick_levels(&mut self, now: Nanos) {
        if self.agree_deadline().is_some_and(|at| at <= now) {
            self.take_batch(now);
            self.compare_levels(now);
        }
    }

    /// Compares the levels that are held with this node's, as far as it has what they contain.
    /// What was recorded has been taken right before.
    pub(super) fn compare_levels(&mut self, now: Nanos) {
        if self.held.is_empty() {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        if self.applied.values().any(Applied::is_torn) {
            return;
        }
        self.compare_held(now);
        if !self.shifts.is_empty() {
            // The other halves of the moves.
            self.take_batch(now);
        }
    }

    fn compare_held(&mut self, now: Nanos) {
        for (origin, held) in std::mem::take(&mut self.held) {
            if now.saturating_sub(held.since) > MAX_WAIT {
                continue;
            }
            let cut: BTreeMap<Origin, u64> = held.cut.iter().copied().collect();
            if !self.contains(&cut) {
                self.held.insert(origin, held);
                continue;
            }
            for level in &held.levels {
                self.compare(now, origin, &held, &cut, *level);
            }
        }
    }

    /// Whether this node's words contain what the cut does. What an origin that is gone has told
    /// others alone will not come.
    fn contains(&self, cut: &BTreeMap<Origin, u64>) -> bool {
        cut.iter().all(|(origin, number)| {
            *origin == self.me().origin()
                || !self.membership.is_active(origin.addr)
                || self.applied.get(origin).is_some_and(|a| a.position.through >= *number)
        })
    }

    fn compare(
        &mut self,
        now: Nanos,
        origin: Origin,
        held: &Held,
        cut: &BTreeMap<Origin, u64>,
        level: Level,
    ) {
        if self.shifts.len() >= MAX_SHIFTS {
            return;
        }
        let (limit, key) = (level.limit, level.key);
        let debt = self.host.debt(limit, key);
        self.watches.keep(now, (limit, key), debt);
        let Some(mut beyond) = self.beyond(origin, held, cut, (limit, key)) else { return };
        let since = self.watches.in_debt_since((limit, key));
        if debt == 0 || since.is_none_or(|since| beyond.since < since) {
            return;
        }
        let own = signed(now).saturating_add(signed(debt));
        let peer = held.at.saturating_add(signed(level.debt));
        let active = |origin: &&Origin| self.membership.is_active(origin.addr);
        let nodes = 1 + self.applied.keys().filter(active).count() as i64;
        // What the other node is told and does not contain yet.
        let peer = peer.saturating_add(beyond.told);
        if let Some(by) = step(own, peer, &mut beyond.changes, signed(now), nodes) {
            let most = signed(self.host.tolerance(limit).unwrap_or(0));
            let by = by.clamp(-most, most);
            self.stats.levels_compared += 1;
            if by != 0 {
                self.shift((limit, key), by);
                self.shifts.push(Shift { to: origin, limit, key, by: by.saturating_neg() });
            }
        }
    }

    /// Moves this node's word of a key.
    pub(super) fn shift(&mut self, (limit, key): KeyId, by: i64) {
        self.watches.charged((limit, key), by);
        self.host.shift(limit, key, by);
    }

    /// What this node's word of a key contains behind the cut; `None` when that is not known.
    fn beyond(
        &self,
        from: Origin,
        held: &Held,
        cut: &BTreeMap<Origin, u64>,
        id: KeyId,
    ) -> Option<Beyond> {
        let me = self.me().origin();
        let known = cut.get(&me).copied().unwrap_or(0);
        let mut beyond = Beyond { changes: Vec::new(), told: 0, since: held.since };
        for batch in self.log.since(known)? {
            beyond.since = beyond.since.min(batch.at.saturating_sub(SECOND / 100));
            beyond.changes.extend(find(&batch.deltas, id));
            let told = batch.shifts.iter().filter(|s| s.to == from && (s.limit, s.key) == id);
            beyond.told += told.map(|shift| shift.by).sum::<i64>();
        }
        for (origin, applied) in &self.applied {
            let last = applied.position.through;
            let at = if *origin == from { held.number } else { *cut.get(origin).unwrap_or(&0) };
            let Some(recent) = self.recent.get(origin) else {
                if at < last && self.membership.is_active(origin.addr) {
                    return None;
                }
                continue;
            };
            if !recent.reaches(at, last) {
                return None;
            }
            for seen in recent.behind(at) {
                beyond.since = beyond.since.min(seen.at);
                beyond.changes.extend(find(&seen.deltas, id));
            }
        }
        Some(beyond)
    }
}

/// What a word contains behind a cut.
struct Beyond {
    changes: Vec<Change>,
    /// By how much the other node is to move for this node's batches behind the cut.
    told: i64,
    /// When the first batch behind the cut came.
    since: Nanos,
}
