//! Cuts: how far a node's words contain each origin, and what they contain after that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::Core;
use crate::protocol::bounds::MAX_ORIGINS;
use crate::protocol::change::Change;
use crate::protocol::delta::KeyId;
use crate::protocol::host::Host;
use crate::protocol::id::Origin;
use crate::protocol::inbound::PendingLevels;
use crate::protocol::log::Batch;
use crate::protocol::recent::{AppliedBatch, find};
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
        1 + self.applied.keys().filter(|origin| !self.is_gone(lives, **origin)).count() as i64
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
        let own = self.log.since(known)?.collect();
        let mut others = Vec::new();
        for (origin, applied) in &self.applied {
            let at = if *origin == from { Some(pending.number) } else { cut.get(origin).copied() };
            let last = applied.position.through;
            let is_torn = applied.position.missed.is_some() && !self.torn.is_over(lives.now);
            if at.is_some_and(|at| at >= last) && !is_torn || self.is_gone(lives, *origin) {
                continue;
            }
            let recent = self.recent.get(origin)?;
            let at = at.filter(|at| recent.reaches(*at, last))?;
            others.extend(recent.after(at));
        }
        Some(AfterCut { own, others })
    }
}

impl AfterCut<'_> {
    /// What of it changed a key, as far as that is known.
    pub(super) fn of(&self, from: Origin, id: KeyId, now: Nanos) -> Option<KeyAfterCut> {
        let mut beyond = KeyAfterCut { changes: Vec::new(), shifted: 0, since: now };
        for batch in &self.own {
            if let Some(change) = find(&batch.deltas, id) {
                beyond.since = beyond.since.min(batch.since);
                beyond.changes.push(change);
            }
            let shifts =
                batch.levels.shifts.iter().filter(|s| s.to == from && (s.limit, s.key) == id);
            beyond.shifted += shifts.map(|shift| shift.by).sum::<i64>();
        }
        for seen in &self.others {
            if seen.late.contains(&id) {
                return None;
            }
            if let Some(change) = find(&seen.deltas, id) {
                beyond.since = beyond.since.min(seen.at);
                beyond.changes.push(change);
            }
        }
        Some(beyond)
    }
}
