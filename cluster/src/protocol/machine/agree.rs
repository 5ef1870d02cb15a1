//! Levels: which are sent, and what becomes of those of other nodes.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;

use super::Core;
use super::cut::KeyAfterCut;
use crate::protocol::agreement::{are_apart, part, step, with_beyond};
use crate::protocol::bounds::{MAX_LEVELS, MAX_SHIFTS};
use crate::protocol::change::Change;
use crate::protocol::delta::{Delta, KeyId, signed, word_id};
use crate::protocol::drains::Drained;
use crate::protocol::host::{Host, Level};
use crate::protocol::id::Origin;
use crate::protocol::inbound::PendingLevels;
use crate::protocol::schedule::LEVELS_EVERY;
use crate::protocol::time::{Nanos, SECOND};
use crate::protocol::watch::Observed;
use crate::protocol::wire::{Agreement, Shift};

/// The share of the burst tolerance, as a divisor, above which a key's debt is sent.
const DEEP_DIVISOR: u64 = 10;
/// The share of the burst tolerance, as a divisor, below which a move does not make other levels
/// due.
const SLIGHT_DIVISOR: i64 = 1_000;
/// The share of the burst tolerance, as a divisor, that a word may contain unrecorded.
const UNRECORDED_DIVISOR: i64 = 256;
/// Changes that are examined for keys in debt, at most.
const MAX_LOOKS: usize = 4_096;
/// How long levels wait for what their cut contains and this node lacks.
const MAX_WAIT: Nanos = SECOND;
/// How often levels that wait are polled.
const POLL_EVERY: Nanos = SECOND / 100;

/// What the other node lacks of a key may have drained there where it is older than its level by
/// `DRAINED_LAGS` usual lags, and by the burst tolerance divided by `DRAINED_DIVISOR`: its word may
/// have been empty before, which no other node knows. So nothing is compared while a node receives
/// nothing of a third one.
const DRAINED_LAGS: u64 = 2;
const DRAINED_DIVISOR: u64 = 2;

/// Whether a debt is sent, and compared, as exactly as it is known.
fn is_deep(debt: Nanos, tolerance: Nanos) -> bool {
    debt > tolerance / DEEP_DIVISOR
}

/// Words, with a limit under which each was used.
type Used = BTreeMap<KeyId, u64>;

/// What levels are compared by.
#[derive(Clone, Copy, Debug)]
struct Terms<'a> {
    now: Nanos,
    /// What this node used lately.
    used: &'a Used,
    nodes: i64,
    /// From this age on, what the other node lacks may have drained there.
    old: Nanos,
}

/// By how much this node's word of a key moves, and the other node's the other way.
#[derive(Clone, Copy, Debug)]
struct Move {
    other: Origin,
    level: Level,
    by: i64,
}

impl<H: Host> Core<H> {
    /// The levels to send with the next batch: of keys that are deep in debt and changed lately, or
    /// whose turn it is; and of those of which only others have little left. With what was recorded
    /// while words were read.
    pub(super) fn due_levels(
        &mut self,
        now: Nanos,
        unsealed: &[Delta],
    ) -> (Agreement, Option<Drained>) {
        let Agreement { cut, mut levels, .. } = self.read_levels(now, unsealed);
        if levels.is_empty() {
            return Default::default();
        }
        let drained = self.drain_some(now);
        let used = self.used_meanwhile(&drained, levels.iter().map(Level::id));
        for level in levels.extract_if(.., |level| used.contains(&level.id())) {
            self.schedule.changed(now, level.id());
        }
        self.stats.levels_sent += levels.len() as u64;
        let is_scarce = |level: &Level| self.splits.is_split((level.limit, level.key));
        levels.sort_by_key(|level| !is_scarce(level));
        let scarce = levels.iter().take_while(|level| is_scarce(level)).count() as u64;
        (Agreement { cut, levels, scarce, shifts: Vec::new() }, Some(drained))
    }

    /// The levels that are due, and their cut.
    fn read_levels(&mut self, now: Nanos, unsealed: &[Delta]) -> Agreement {
        if self.levels_at > now || self.leaving || !self.has_joined() {
            return Agreement::default();
        }
        let since = self.levels_at.saturating_sub(LEVELS_EVERY);
        self.levels_at = now + LEVELS_EVERY;
        let used = self.used_since(since, unsealed);
        let changed = self.changed_since(since, &used);
        let may_send = self.has_peers() && self.may_agree(now);
        let cut = if may_send { self.cut(now) } else { None };
        let Some(cut) = cut else {
            for id in changed {
                self.schedule.changed(now, id);
            }
            return Agreement::default();
        };
        let mut schedule = std::mem::take(&mut self.schedule);
        let (mut levels, mut unsettled) = (Vec::new(), Vec::new());
        schedule.take(now, changed, MAX_LEVELS, |(limit, key)| {
            let debt = self.debt(now, (limit, key));
            let Some(tolerance) = self.host.tolerance(limit) else { return false };
            let is_behind = self.is_lagging(now, (limit, key), debt, &used);
            let is_due = is_behind || is_deep(debt, tolerance);
            if !is_due || self.is_held_back(now, (limit, key)) {
                return is_due;
            }
            if is_behind {
                levels.push(Level { limit, key, debt });
                return true;
            }
            match self.settled(now, (limit, key)) {
                Some(debt)
                    if is_deep(debt, tolerance)
                        && self.is_known(now, (limit, key), &used, None) =>
                {
                    levels.push(Level { limit, key, debt });
                }
                _ => unsettled.push((limit, key)),
            }
            true
        });
        for id in unsettled {
            schedule.changed(now, id);
        }
        self.schedule = schedule;
        Agreement { cut, levels, ..Agreement::default() }
    }

    /// Of which keys words may have been read with what was recorded after the drain before:
    /// `drained` is what was, or some of it. What is consumed is known of a word that is watched,
    /// what is given back is not.
    fn used_meanwhile(
        &self,
        drained: &Drained,
        ids: impl Iterator<Item = KeyId>,
    ) -> FxHashSet<KeyId> {
        let (at, is_over) = (drained.at(), self.drains.is_over());
        let is_watched = |id| self.watches.observed(at, id).is_some();
        let is_used = |delta: &&Delta| {
            let slack = self.host.tolerance(delta.limit).map_or(0, signed) / UNRECORDED_DIVISOR;
            let given_back = delta.change.given_back(signed(at)) > slack;
            given_back || delta.change.debt > slack && !is_watched(delta.id())
        };
        let used = drained.deltas.iter().filter(is_used).map(Delta::word_id);
        let used = used.collect::<FxHashSet<_>>();
        ids.filter(|id| used.contains(&word_id(*id)) || !is_over && !is_watched(*id)).collect()
    }

    /// Whether others have little left of a key that is used here, and this node nearly all. What
    /// its word contains that is not recorded matters little then.
    fn is_lagging(&mut self, now: Nanos, id: KeyId, debt: Nanos, used: &Used) -> bool {
        let tolerance = self.host.tolerance(id.0).unwrap_or(0);
        if is_deep(debt, tolerance) {
            self.splits.not_lagging(id);
            return false;
        }
        used.contains_key(&word_id(id)) && self.splits.is_lagging(now, id)
    }

    /// A key's debt without what is provisional, as it was right after the last drain; `None` while
    /// its word contains what is not recorded.
    fn settled(&mut self, now: Nanos, id: KeyId) -> Option<Nanos> {
        let (debt, provisional) = (self.debt(now, id), self.splits.provisional(id));
        self.watches.keep(now, id, debt.saturating_add(provisional));
        let Some(Observed { tat, unrecorded }) = self.watches.observed(now, id) else {
            return Some(debt);
        };
        if unrecorded > signed(self.host.tolerance(id.0)?) / UNRECORDED_DIVISOR {
            return None;
        }
        let debt = tat.saturating_sub(signed(now)).saturating_sub(signed(provisional));
        Some(Nanos::try_from(debt).unwrap_or(0))
    }

    /// Whether it is known what a word contains: of one that is used, not from when it was empty or
    /// was looked at first until it has been looked at for a while; with what it contains beyond
    /// another node's level, only where neither word was empty meanwhile.
    fn is_known(
        &self,
        now: Nanos,
        id: KeyId,
        used: &Used,
        beyond: Option<(&KeyAfterCut, i64)>,
    ) -> bool {
        let since = self.watches.in_debt_since(id);
        let is_new = || since.is_some() && self.watches.observed(now, id).is_none();
        let is_new = used.contains_key(&word_id(id)) && is_new();
        let was_empty = |beyond: &KeyAfterCut| since.is_none_or(|since| beyond.since < since);
        !is_new && beyond.is_none_or(|(beyond, old)| !was_empty(beyond) && !beyond.lacks(old))
    }

    /// Whether this node's word of a key lacks something: a change came late and is not applied, or
    /// was refused.
    fn is_held_back(&self, now: Nanos, id: KeyId) -> bool {
        let word = word_id(id);
        self.stale.has_unplayed()
            || self.refused.is_lacking(now, id)
            || self.applied.values().any(|applied| applied.late.contains_key(&word))
    }

    fn has_peers(&self) -> bool {
        self.census().welcomed > 0
    }

    /// Observes the keys that are watched, when what was recorded of them is charged.
    pub(super) fn observe_words(&mut self, now: Nanos) {
        let host = &mut self.host;
        self.watches.observe(now, |(limit, key)| {
            (host.debt(now, limit, key), host.tolerance(limit).unwrap_or(0))
        });
    }

    /// What this node used since then.
    fn used_since(&self, since: Nanos, unsealed: &[Delta]) -> Used {
        let own = self.log.newest().take_while(|batch| batch.at >= since);
        let own = unsealed.iter().chain(own.flat_map(|batch| &batch.deltas));
        own.take(MAX_LOOKS).map(|delta| (delta.word_id(), delta.limit)).collect()
    }

    /// Keys that changed since then, with those that this node used.
    fn changed_since(&self, since: Nanos, used: &Used) -> BTreeSet<KeyId> {
        let others = self.recent.values().flat_map(|recent| {
            recent.newest().take_while(|seen| seen.at >= since).flat_map(|seen| &seen.deltas)
        });
        let used = used.iter().map(|((_, key), limit)| (*limit, *key));
        others.take(MAX_LOOKS).map(Delta::id).chain(used).collect()
    }

    /// When levels are due, or are to be compared.
    pub(super) fn agree_deadline(&self) -> Option<Nanos> {
        let active = self.recent_at.filter(|at| *at + LEVELS_EVERY >= self.levels_at);
        let turn = self.schedule.next_at().filter(|_| self.has_peers());
        let due =
            active.into_iter().chain(turn).min().filter(|_| !self.leaving && self.has_joined());
        let due = due.map(|at| at.max(self.levels_at));
        let poll = (!self.pending_levels.is_empty()).then_some(self.poll_at);
        due.into_iter().chain(poll).min()
    }

    pub(super) fn tick_levels(&mut self, now: Nanos) {
        if self.agree_deadline().is_some_and(|at| at <= now) && self.take_step(now) {
            self.compare_levels(now);
        }
    }

    /// Compares the pending levels with this node's, as far as it has what they contain.
    /// What was recorded has been taken right before.
    pub(super) fn compare_levels(&mut self, now: Nanos) {
        if self.pending_levels.is_empty() || self.is_raising() {
            return;
        }
        self.poll_at = now + POLL_EVERY;
        // Its words lack what is kept to be applied in order.
        if self.stale.is_stale() || !self.may_agree(now) {
            return;
        }
        // What this node contains is what it has sent.
        let pending = self.pending_levels.values().flat_map(|pending| &pending.levels);
        let keys: Vec<KeyId> = pending.map(|level| (level.limit, level.key)).collect();
        self.send_keys(now, keys.into_iter());
        let moves = self.compare_pending(now);
        if !moves.is_empty() {
            let drained = self.drain_some(now);
            let used = self.used_meanwhile(&drained, moves.iter().map(|each| each.level.id()));
            for each in moves {
                if used.contains(&each.level.id()) {
                    // It is compared anew, with that.
                    if let Some(pending) = self.pending_levels.get_mut(&each.other) {
                        pending.levels.push(each.level);
                    }
                } else {
                    self.make_move(now, each);
                }
            }
            self.seal_compared(now, drained);
        }
        self.pending_levels.retain(|_, pending| !pending.levels.is_empty());
    }

    fn make_move(&mut self, now: Nanos, Move { other, level, by }: Move) {
        let Level { limit, key, .. } = level;
        let by = self.shift(now, (limit, key), by);
        if by != 0 {
            // The other half of the move.
            self.shifts.push(Shift { to: other, limit, key, by: by.saturating_neg() });
        }
    }

    /// The moves that are due. Of pending levels, those stay that are not settled here.
    fn compare_pending(&mut self, now: Nanos) -> Vec<Move> {
        let mut moves = Vec::new();
        let lives = self.lives(now);
        let used = self.used_since(now.saturating_sub(LEVELS_EVERY), &[]);
        let terms = Terms {
            now,
            used: &used,
            nodes: self.nodes(&lives),
            old: self.lag().saturating_mul(DRAINED_LAGS),
        };
        for (origin, pending) in std::mem::take(&mut self.pending_levels) {
            if now.saturating_sub(pending.since) > MAX_WAIT {
                continue;
            }
            let cut: BTreeMap<Origin, u64> = pending.cut.iter().copied().collect();
            if !self.contains(&lives, &cut) {
                self.pending_levels.insert(origin, pending);
                continue;
            }
            let Some(contained) = self.after_cut(&lives, origin, &pending, &cut) else { continue };
            let mut words: Vec<KeyId> =
                pending.levels.iter().map(|level| word_id(level.id())).collect();
            words.sort_unstable();
            words.dedup();
            let mut beyond = contained.of(origin, &words, now);
            let mut unsettled = Vec::new();
            for level in &pending.levels {
                // Of several levels of a key the first counts.
                let place = words.binary_search(&word_id(level.id())).ok();
                let Some(beyond) = place.and_then(|place| beyond[place].take()) else { continue };
                match self.settled(now, (level.limit, level.key)) {
                    Some(_) if self.shifts.len() + moves.len() >= MAX_SHIFTS => {}
                    Some(debt) => {
                        moves.extend(self.compare(
                            terms,
                            (origin, pending.at),
                            *level,
                            debt,
                            beyond,
                        ));
                    }
                    None => unsettled.push(*level),
                }
            }
            self.pending_levels.insert(origin, PendingLevels { levels: unsettled, ..pending });
        }
        moves
    }

    /// Compares one level that `origin` had at a time of this node's clock with this node's debt.
    fn compare(
        &mut self,
        Terms { now, used, nodes, old }: Terms,
        (origin, at): (Origin, i64),
        level: Level,
        debt: Nanos,
        mut beyond: KeyAfterCut,
    ) -> Option<Move> {
        let (limit, key) = (level.limit, level.key);
        let tolerance = self.host.tolerance(limit).unwrap_or(0);
        if self.is_held_back(now, (limit, key)) {
            return None;
        }
        let is_soon = old <= (tolerance / DRAINED_DIVISOR).min(DRAINED_LAGS * LEVELS_EVERY);
        let old = at.saturating_sub(signed(old.max(tolerance / DRAINED_DIVISOR)));
        let is_known = debt > 0
            && is_deep(level.debt, tolerance)
            && self.is_known(now, (limit, key), used, Some((&beyond, old)));
        let own = signed(now).saturating_add(signed(debt));
        // With the shifts that are sent to the other node and that it does not contain yet.
        let peer = at.saturating_add(signed(level.debt)).saturating_add(beyond.shifted);
        let mut by = None;
        if is_known {
            by = step(own, peer, &mut beyond.changes, signed(now), nodes);
        }
        // A node that sends a level that is not deep is behind.
        let is_behind = self.is_lagging(now, (limit, key), debt, used);
        let is_behind = is_behind || !is_deep(level.debt, tolerance);
        if by.is_none() && is_behind && is_soon && !beyond.lacks(old) {
            let (peer, _) = with_beyond(peer, &mut beyond.changes);
            let peer = peer.max(signed(now));
            let peers_debt = Nanos::try_from(peer.saturating_sub(signed(now))).unwrap_or(0);
            by = are_apart(debt, peers_debt, tolerance).then(|| part(own, peer, nodes));
        }
        let by = by?.clamp(-signed(tolerance), signed(tolerance));
        self.stats.levels_compared += 1;
        (by != 0).then_some(Move { other: origin, level, by })
    }

    /// Moves this node's word of a key, up to what other nodes may have it owe at most. By how much
    /// it has moved.
    pub(super) fn shift(&mut self, now: Nanos, (limit, key): KeyId, by: i64) -> i64 {
        let owed = if by > 0 { self.host.debt(now, limit, key) } else { 0 };
        let mut change = Change { debt: by, date: signed(now) };
        self.bound_word(now, (limit, key), owed, &mut change);
        let by = change.debt;
        self.watches.charged((limit, key), by);
        if by > 0 && owed == 0 {
            self.idle.added(now, self.known_until(now), (limit, key), by);
        } else {
            self.idle.shifted(now, (limit, key), by);
        }
        self.splits.shifted((limit, key), by);
        self.host.shift(limit, key, by);
        let tolerance = self.host.tolerance(limit).unwrap_or(0);
        if by.saturating_abs() > signed(tolerance) / SLIGHT_DIVISOR {
            self.schedule.changed(now, (limit, key));
        }
        by
    }
}
