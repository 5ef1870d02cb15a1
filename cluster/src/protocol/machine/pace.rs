//! Which keys are told with a flush, and which wait.

use super::Core;
use crate::protocol::delta::{Delta, KeyId};
use crate::protocol::host::Host;
use crate::protocol::pace::{Taken, is_much};
use crate::protocol::time::Nanos;
use crate::protocol::wire::Agreement;

/// The part of the burst tolerance, one in so many, that a key waits at most.
const WAIT: Nanos = 2;
/// Keys that are due in one flush, at most: the next one takes the rest.
const MAX_DUE: usize = 1 << 10;

/// What a flush tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// What is urgent, or has waited for long enough.
    Due,
    All,
}

impl<H: Host> Core<H> {
    /// What is to be told now of what waits and of these deltas, which were consumed since a time.
    pub(super) fn pace_deltas(
        &mut self,
        (since, now): (Nanos, Nanos),
        deltas: &[Delta],
        tell: Tell,
    ) -> Taken {
        let nodes = self.nodes_alive();
        let mut taken = Taken::default();
        for run in deltas.chunk_by(|a, b| a.limit == b.limit) {
            let terms = if tell == Tell::Due { self.waiting_terms(run[0].limit) } else { None };
            for delta in run {
                self.pace_delta((since, now), delta, terms, nodes, &mut taken);
            }
        }
        let due = match tell {
            Tell::Due => self.pace.due(now, MAX_DUE),
            Tell::All => self.pace.keys(),
        };
        for id in due {
            self.pace.take(now, id, nodes, &mut taken);
        }
        taken
    }

    fn pace_delta(
        &mut self,
        (since, now): (Nanos, Nanos),
        delta: &Delta,
        terms: Option<(Nanos, Nanos)>,
        nodes: usize,
        taken: &mut Taken,
    ) {
        let id = delta.id();
        let waits = self.pace.waits(id);
        // What is left of a scarce key is split, and no more than the burst is left of any.
        let may_begin =
            |tolerance| self.pace.may_begin(id) && !is_much(delta.change.debt, tolerance, nodes);
        let terms = terms
            .filter(|(tolerance, _)| (waits || may_begin(*tolerance)) && !self.rooms.is_split(id));
        let Some((tolerance, wait)) = terms else {
            if waits {
                self.pace.add(now, (since, now), *delta, nodes);
                self.pace.take(now, id, nodes, taken);
            } else {
                taken.add(since, *delta);
            }
            return;
        };
        let left = tolerance.saturating_sub(self.debt(id));
        if !waits && is_much(delta.change.debt, left, nodes) {
            taken.add(since, *delta);
            return;
        }
        self.pace.add(now, (since, now.saturating_add(wait)), *delta, nodes);
        if self.pace.is_urgent(id, left, nodes) {
            self.pace.take(now, id, nodes, taken);
        }
    }

    /// Seals what waits of these keys.
    pub(super) fn tell_keys(&mut self, now: Nanos, keys: impl Iterator<Item = KeyId>) {
        let (nodes, mut taken) = (self.nodes_alive(), Taken::default());
        for id in keys {
            self.pace.take(now, id, nodes, &mut taken);
        }
        self.seal_all(now, taken, Agreement::default());
    }

    /// The burst tolerance of a limit, and how long its keys may wait; `None` where they may not.
    fn waiting_terms(&self, limit: u64) -> Option<(Nanos, Nanos)> {
        self.host.unit(limit)?;
        let tolerance = self.host.tolerance(limit)?;
        let wait = self.options.tell_within.min(tolerance / WAIT);
        (wait > self.options.flush_interval).then_some((tolerance, wait))
    }
}
