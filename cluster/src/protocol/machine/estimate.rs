//! What was admitted beyond each limit: feeds the playbacks.

use super::Core;
use crate::inline;
use crate::protocol::clock::RemoteClock;
use crate::protocol::delta::{Delta, KeyId, signed};
use crate::protocol::estimate::{HISTORY, OverAdmission, Piece, piece};
use crate::protocol::host::Host;
use crate::protocol::id::Origin;
use crate::protocol::recent::find;
use crate::protocol::time::Nanos;

/// Keys that begin to be followed in one step, at most.
const MAX_BEGUN: usize = 4;

impl<H: Host> Core<H> {
    /// A batch of `origin` that was sealed at `at`, on this node's clock, and applied.
    pub(super) fn estimate_remote(
        &mut self,
        now: Nanos,
        origin: Origin,
        at: i64,
        applied: &[Delta],
    ) {
        let since = self.estimates.since(origin, at);
        self.estimates.add(now, since, at, applied);
        for delta in applied.iter().filter(|delta| delta.change.debt > 0) {
            let Some(tolerance) = self.estimated(delta.limit) else { continue };
            let (limit, key) = delta.id();
            if !self.estimates.follows((limit, key)) && self.debt(now, (limit, key)) > tolerance / 2
            {
                self.estimates.want((limit, key));
            }
        }
    }

    /// What this node has recorded since, and sealed right before.
    pub(super) fn estimate_own(&mut self, (since, now): (Nanos, Nanos), deltas: &[Delta]) {
        self.estimates.add(now, signed(since), signed(now), deltas);
    }

    /// Follows more of the keys that may be worth it. All that was recorded is sealed: the words
    /// contain nothing else.
    pub(super) fn follow_wanted(&mut self, now: Nanos) {
        for _ in 0..MAX_BEGUN {
            let Some(id) = self.estimates.next_wanted() else { break };
            let Some(tolerance) = self.estimated(id.0) else { continue };
            let pieces = self.pieces(now, id);
            let tat = signed(now).saturating_add(signed(self.debt(now, id)));
            self.estimates.follow(now, id, tolerance, tat, &pieces);
        }
        self.tick_estimates(now);
    }

    pub(super) fn tick_estimates(&mut self, now: Nanos) {
        if self.estimates.deadline().is_some_and(|at| at <= now) {
            let lag = self.clocks.values().map(RemoteClock::lag).max().unwrap_or(0);
            let host = &self.host;
            self.estimates.play(now, lag, |limit| host.tolerance(limit));
        }
    }

    /// The burst tolerance of a limit; `None` where it comes with each request: there may be any
    /// number of such limits.
    fn estimated(&self, limit: u64) -> Option<Nanos> {
        let is_named = inline::words_of(limit) == limit && limit != 0;
        self.host.tolerance(limit).filter(|_| is_named)
    }

    /// What batches say of a key since a while ago.
    fn pieces(&self, now: Nanos, id: KeyId) -> Vec<Piece> {
        let begin = now.saturating_sub(HISTORY);
        let mut pieces = Vec::new();
        let mut own = self.log.newest().take_while(|batch| batch.at >= begin).peekable();
        while let Some(batch) = own.next() {
            let since = own.peek().map_or(batch.at, |before| before.at);
            if let Some(change) = find(&batch.deltas, id) {
                let delta = Delta { limit: id.0, key: id.1, change };
                pieces.push(piece(&delta, signed(since), signed(batch.at)));
            }
        }
        for recent in self.recent.values() {
            let mut seen = recent.newest().take_while(|seen| seen.at >= begin).peekable();
            while let Some(batch) = seen.next() {
                let since = seen.peek().map_or(batch.sealed, |before| before.sealed);
                if let Some(change) = find(&batch.deltas, id) {
                    let delta = Delta { limit: id.0, key: id.1, change };
                    pieces.push(piece(&delta, since, batch.sealed));
                }
            }
        }
        pieces
    }

    /// What was admitted beyond each limit of which a key has been near it, as far as this node
    /// knows.
    pub fn over_admission(&self) -> impl Iterator<Item = (u64, OverAdmission)> {
        self.estimates.limits().map(|limit| (limit, self.estimates.of(limit)))
    }
}
