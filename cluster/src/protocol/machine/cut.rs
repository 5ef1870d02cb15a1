//! Cuts: how far a node's words contain each origin, and what they contain after that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::Core;
use crate::inline;
use crate::protocol::bounds::MAX_ORIGINS;
use crate::protocol::change::Change;
use crate::protocol::delta::{Delta, KeyId, word_id};
use crate::protocol::host::Host;
use crate::protocol::id::Origin;
use crate::protocol::inbound::PendingLevels;
use crate::protocol::log::Batch;
use crate::protocol::recent::{AGE, AppliedBatch, find};
use crate::protocol::time::{Nanos, SECOND};

/// An origin without a link, which membership does not know, is gone when nothing was received of
/// it for this long.
const GONE_AFTER: Nanos = 10 * SECOND;

/// Which origins may still send something.
pub(super) struct Lives {
    now: Nanos,
    linked: BTreeSet<Origin>,
    /// By address, the generation that membership knows, and whether it is active.
    known: BTreeMap<SocketAddr, (u64, bool)>,
}

/// What this node's word of a key contains after a cut.
pub(super) struct KeyAfterCut {
    pub(super) changes: Vec<Change>,
    /// By how much the other node is to move for this node's batches after the cut.
    pub(super) shifted: i64,
    /// From when on these changes may have been made.
    pub(super) since: Nanos,
}

impl KeyAfterCut {
    fn add(&mut self, since: Nanos, change: Change) {
        self.since = self.since.min(since);
        self.changes.push(change);
    }

    /// Whether the other node lacks anything of before this time.
    pub(super) fn lacks(&self, old: i64) -> bool {
        self.changes.iter().any(|change| change.date < old)
    }
}

/// The batches that this node's words contain after a cut.
pub(super) struct AfterCut<'a> {
    own: Vec<&'a Batch>,
    others: Vec<&'a AppliedBatch>,
}

impl Lives {
    /// Whether an origin is known here by the version vector of a state alone: membership passes
    /// on members that are down for a while only. One that another node's cut does not name either
    /// is gone.
    fn is_stranger(&self, origin: Origin) -> bool {
        !self.linked.contains(&origin) && !self.known.contains_key(&origin.addr)
    }

    fn active(&self) -> impl Iterator<Item = Origin> {
        let active = self.known.iter().filter(|(_, (_, is_active))| *is_active);
        active.map(|(addr, (generation, _))| Origin { addr: *addr, generation: *generation })
    }
}

impl<H: Host> Core<H> {
    pub(super) fn lives(&self, now: Nanos) -> Lives {
        let linked = self.inbound.values().filter_map(|link| link.id);
        let known = self.membership.known();
        Lives {
            now,
            linked: linked.map(|id| id.origin()).collect(),
            known: known.map(|(id, active)| (id.addr, (id.generation, active))).collect(),
        }
    }

    /// Whether an origin sends nothing any more. What it has sent to some nodes and not to others
    /// stays a difference of their words.
    fn is_gone(&self, lives: &Lives, origin: Origin) -> bool {
        if lives.linked.contains(&origin) {
            return false;
        }
        // An earlier generation of this node.
        if origin.addr == self.me().addr {
            return true;
        }
        match lives.known.get(&origin.addr) {
            Some((generation, active)) if *generation == origin.generation => !active,
            Some((generation, _)) if *generation > origin.generation => true,
            _ => self
                .applied
                .get(&origin)
                .is_some_and(|applied| applied.received_at.saturating_add(GONE_AFTER) <= lives.now),
        }
    }

    /// The nodes that may change words, this one included.
    pub(super) fn nodes(&self, lives: &Lives) -> i64 {
        let others = self
            .applied
            .keys()
            .filter(|origin| !self.is_gone(lives, **origin) && !lives.is_stranger(**origin));
        1 + others.count() as i64
    }

    /// How far this node's words contain each origin that is not gone; `None` while they contain a
    /// part of a set of batches whose rest is waited for, or of a state.
    pub(super) fn cut(&self, now: Nanos) -> Option<Vec<(Origin, u64)>> {
        if self.is_raising() {
            return None;
        }
        let lives = self.lives(now);
        let applied = self.applied.iter().filter(|(origin, _)| !self.is_gone(&lives, **origin));
        let mut cut = BTreeMap::new();
        for (origin, applied) in applied {
            if applied.position.missed.is_some() && !self.torn.is_over(now) {
                return None;
            }
            cut.insert(*origin, applied.position.through);
        }
        for origin in lives.active() {
            cut.entry(origin).or_insert(0);
        }
        Some(cut.into_iter().take(MAX_ORIGINS).collect())
    }

    /// Whether this node's words contain what the cut does of all that is not gone.
    pub(super) fn contains(&self, lives: &Lives, cut: &BTreeMap<Origin, u64>) -> bool {
        let me = self.me().origin();
        cut.iter().filter(|(origin, number)| **origin != me && **number > 0).all(
            |(origin, number)| {
                self.applied.get(origin).is_some_and(|a| a.position.through >= *number)
                    || self.is_gone(lives, *origin)
            },
        )
    }

    /// What this node's words contain after the cut, with which levels of `from` came; `None` when
    /// that is not known.
    pub(super) fn after_cut<'a>(
        &'a self,
        lives: &Lives,
        from: Origin,
        pending: &PendingLevels,
        cut: &BTreeMap<Origin, u64>,
    ) -> Option<AfterCut<'a>> {
        let known = cut.get(&self.me().origin()).copied().unwrap_or(0);
        let own: Vec<&Batch> = self.log.since(known)?.collect();
        if own.first().is_some_and(|first| first.at.saturating_add(AGE) < lives.now) {
            return None;
        }
        let mut others = Vec::new();
        for (origin, applied) in &self.applied {
            let at = if *origin == from { Some(pending.number) } else { cut.get(origin).copied() };
            let last = applied.position.through;
            let is_torn = applied.position.missed.is_some() && !self.torn.is_over(lives.now);
            if at.is_some_and(|at| at >= last) && !is_torn || self.is_gone(lives, *origin) {
                continue;
            }
            let Some(recent) = self.recent.get(origin) else {
                if at.is_none() && lives.is_stranger(*origin) {
                    continue;
                }
                return None;
            };
            let at = at.filter(|at| recent.reaches(*at, last))?;
            others.extend(recent.after(at));
        }
        Some(AfterCut { own, others })
    }
}

impl AfterCut<'_> {
    /// What of it changed each of these words, as far as that is known. They are in order, each of
    /// them once: each batch is looked at once for all of them.
    pub(super) fn of(&self, from: Origin, words: &[KeyId], now: Nanos) -> Vec<Option<KeyAfterCut>> {
        let none = || KeyAfterCut { changes: Vec::new(), shifted: 0, since: now };
        let mut all: Vec<_> = words.iter().map(|_| none()).collect();
        for batch in &self.own {
            each_of(words, &batch.deltas, |place, change| all[place].add(batch.since, change));
            let shifts = batch.levels.shifts.iter().filter(|shift| shift.to == from);
            for shift in shifts {
                if let Ok(place) = words.binary_search(&word_id((shift.limit, shift.key))) {
                    all[place].shifted = all[place].shifted.saturating_add(shift.by);
                }
            }
        }
        for seen in &self.others {
            each_of(words, &seen.deltas, |place, change| all[place].add(seen.at, change));
        }
        let mut all: Vec<_> = all.into_iter().map(Some).collect();
        for id in self.others.iter().flat_map(|seen| &seen.late) {
            if let Ok(place) = words.binary_search(&word_id(*id)) {
                all[place] = None;
            }
        }
        all
    }
}

/// The changes of some words in a batch; both are in order. The fewer are looked up in the others,
/// except that those with a quota, which come last, are not in the order of their words.
fn each_of(words: &[KeyId], deltas: &[Delta], mut each: impl FnMut(usize, Change)) {
    let named = deltas.partition_point(|delta| delta.limit < inline::FIRST);
    let named = if deltas.len() < words.len() { 0 } else { named };
    let (named, others) = deltas.split_at(named);
    for delta in others {
        if let Ok(place) = words.binary_search(&delta.word_id()) {
            each(place, delta.change);
        }
    }
    if !named.is_empty() {
        for (place, word) in words.iter().enumerate() {
            if let Some(change) = find(named, *word) {
                each(place, change);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_some_keys_are_found_whichever_are_fewer() {
        let delta = |key| Delta { limit: 1, key, change: Change::new(1, key.cast_signed()) };
        for (keys, changed) in [(0..9, 3..5), (3..5, 0..9), (0..5, 3..9), (3..9, 0..5)] {
            let ids: Vec<KeyId> = keys.map(|key| (1, key)).collect();
            let deltas: Vec<Delta> = changed.map(delta).collect();
            let mut found = Vec::new();
            each_of(&ids, &deltas, |place, change| found.push((ids[place].1, change.date)));
            assert_eq!(found, [(3, 3), (4, 4)]);
        }
    }

    /// A level may be sent under none of the quotas that came with checks.
    #[test]
    fn changes_of_a_word_are_found_whatever_quota_came_with_a_check() {
        let delta = |limit, key, debt| Delta { limit, key, change: Change::new(debt, 0) };
        let (quick, slow) = (inline::id(1_000, 10), inline::id(1_000_000, 10));
        assert!(quick < slow);
        let deltas = [delta(0, 7, 1), delta(5, 7, 2), delta(quick, 7, 3), delta(slow, 7, 4)];
        for more in 0..9 {
            let words: Vec<KeyId> = (7..=7 + more).map(|key| (0, key)).collect();
            let mut found = Vec::new();
            each_of(&words, &deltas, |place, change| found.push((words[place].1, change.debt)));
            found.sort_unstable();
            assert_eq!(found, [(7, 1), (7, 3), (7, 4)]);
        }
    }
}
