//! Which keys are sent with a flush, and which wait.

use std::collections::BTreeSet;

use super::Core;
use super::void::is_void;
use crate::protocol::bounds::DELTA_BYTES;
use crate::protocol::delta::{Delta, KeyId};
use crate::protocol::host::Host;
use crate::protocol::pace::{Taken, is_much};
use crate::protocol::time::Nanos;
use crate::protocol::wire::Agreement;

/// The share of the burst tolerance, as a divisor, that a key waits at most.
const WAIT_DIVISOR: u64 = 2;
/// Keys that are due in one flush, at most: the next one takes the rest.
const MAX_DUE: usize = 1 << 10;

/// What a flush sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// What is urgent, or has waited for long enough.
    Due,
    All,
}

/// What decides whether a delta waits.
#[derive(Clone, Copy, Debug)]
struct Pacing {
    /// The burst tolerance of its limit, and how long a key may wait; `None` where it may not.
    terms: Option<(Nanos, Nanos)>,
    nodes: usize,
    /// There is no room for all that is to be sent.
    is_short: bool,
}

impl<H: Host> Core<H> {
    /// What is to be sent now of what waits and of these deltas, which were consumed since a time.
    pub(super) fn pace_deltas(
        &mut self,
        (since, now): (Nanos, Nanos),
        deltas: &[Delta],
        scope: Scope,
    ) -> Taken {
        let nodes = self.nodes_alive();
        let room = if scope == Scope::All { usize::MAX } else { self.room_to_send(now) };
        // Where not all of it finds room, what is urgent waits in the order in which it became so.
        let is_short = deltas.len().saturating_add(self.pace.capped()) > room;
        let mut taken = Taken::default();
        for run in deltas.chunk_by(|a, b| a.limit == b.limit) {
            let terms = if scope == Scope::Due { self.waiting_terms(run[0].limit) } else { None };
            for delta in run {
                let pacing = Pacing { terms, nodes, is_short };
                self.pace_delta((since, now), delta, pacing, &mut taken);
            }
        }
        if scope == Scope::Due && self.pace.capped() > 0 {
            let grace = self.options.grace;
            self.pace.drop_void(MAX_DUE, |delta| is_void(&self.host, delta, now, grace));
        }
        for id in self.keys_to_send(now, scope, room.saturating_sub(taken.deltas.len())) {
            self.pace.take(now, id, nodes, &mut taken);
        }
        self.take_rest(now, nodes, &mut taken);
        taken
    }

    /// Takes what waits of words of which something is sent, under other quotas: others know of
    /// all that this node has consumed then, whichever quota lets them go on.
    fn take_rest(&mut self, now: Nanos, nodes: usize, taken: &mut Taken) {
        let sent = taken.deltas.iter().map(Delta::id);
        let words: BTreeSet<KeyId> = sent.filter(|id| self.pace.may_share(*id)).collect();
        for id in words {
            self.pace.take_word(now, id, nodes, taken);
        }
    }

    /// Which of the keys that wait are sent, where `most` may be.
    fn keys_to_send(&self, now: Nanos, scope: Scope, most: usize) -> Vec<KeyId> {
        if scope == Scope::All {
            return self.pace.keys();
        }
        let most = most.min(MAX_DUE);
        let mut keys = self.pace.first_capped(most);
        keys.extend(self.pace.due(now, most - keys.len()));
        keys
    }

    /// Deltas that may be sealed now; any number without a cap.
    fn room_to_send(&self, now: Nanos) -> usize {
        let Some(bytes) = self.budget.room(now) else { return usize::MAX };
        // What is sealed now would wait for what was sealed before.
        if bytes == 0 || self.budget.do_new_frames_wait() {
            return 0;
        }
        let peers = self.census().flowing.max(1) as u64;
        usize::try_from(bytes / (DELTA_BYTES * peers)).unwrap_or(usize::MAX).max(1)
    }

    /// Whether levels may be sent and compared: what they are of is sealed with them.
    pub(super) fn may_agree(&self, now: Nanos) -> bool {
        self.room_to_send(now) > 0
    }

    /// When the next of what waits may be sent.
    pub(super) fn pace_deadline(&self) -> Option<Nanos> {
        let capped = (self.pace.capped() > 0).then_some(0);
        let due = capped.or_else(|| self.pace.deadline());
        due.map(|due| due.max(self.budget.room_at()))
    }

    fn pace_delta(
        &mut self,
        (since, now): (Nanos, Nanos),
        delta: &Delta,
        pacing: Pacing,
        taken: &mut Taken,
    ) {
        let Pacing { terms, nodes, is_short } = pacing;
        let (id, debt) = (delta.id(), delta.change.debt);
        let waits = self.pace.waits(id);
        // What is left of a scarce key is split, and no more than the burst is left of any.
        let may_begin = |tolerance| self.pace.may_begin(id) && !is_much(debt, tolerance, nodes);
        let terms = terms
            .filter(|(tolerance, _)| (waits || may_begin(*tolerance)) && !self.splits.is_split(id));
        let terms =
            terms.map(|(tolerance, wait)| (tolerance.saturating_sub(self.debt(now, id)), wait));
        let is_urgent = terms.is_none_or(|(left, _)| !waits && is_much(debt, left, nodes));
        if is_urgent && !(is_short && (waits || self.pace.has_room(id))) {
            self.take_now(now, since, *delta, nodes, taken);
            return;
        }
        let due = terms.map_or(now, |(_, wait)| now.saturating_add(wait));
        self.pace.add(now, (since, due), *delta, nodes);
        let is_urgent =
            is_urgent || terms.is_some_and(|(left, _)| self.pace.is_urgent(now, id, left, nodes));
        if is_urgent && is_short {
            self.pace.cap(now, id);
        } else if is_urgent {
            self.pace.take_word(now, id, nodes, taken);
        }
    }

    /// Takes a delta that is to be sent, with what waits of its key.
    fn take_now(
        &mut self,
        now: Nanos,
        since: Nanos,
        delta: Delta,
        nodes: usize,
        taken: &mut Taken,
    ) {
        let id = delta.id();
        if self.pace.waits(id) {
            self.pace.add(now, (since, now), delta, nodes);
            self.pace.take(now, id, nodes, taken);
        } else {
            taken.add(since, delta);
        }
    }

    /// Seals what waits of the words of these keys.
    pub(super) fn send_keys(&mut self, now: Nanos, keys: impl Iterator<Item = KeyId>) {
        let (nodes, mut taken) = (self.nodes_alive(), Taken::default());
        for id in keys {
            self.pace.take_word(now, id, nodes, &mut taken);
        }
        self.seal_all(now, taken, Agreement::default());
    }

    /// The burst tolerance of a limit, and how long its keys may wait; `None` where they may not.
    fn waiting_terms(&self, limit: u64) -> Option<(Nanos, Nanos)> {
        self.host.unit(limit)?;
        let tolerance = self.host.tolerance(limit)?;
        let wait = self.options.max_send_delay.min(tolerance / WAIT_DIVISOR);
        (wait > self.options.flush_interval).then_some((tolerance, wait))
    }
}
