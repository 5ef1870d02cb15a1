//! Which keys are told with a flush, and which wait.

use super::Core;
use crate::protocol::delta::{Delta, KeyId};
use crate::protocol::host::Host;
use crate::protocol::pace::{MAX_WAITING, Taken, is_much};
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
        for delta in deltas {
            let id = delta.id();
            let waits = self.pace.waits(id);
            let may_wait = tell == Tell::Due && (waits || self.pace.len() < MAX_WAITING);
            let terms = if may_wait { self.waiting_terms(id) } else { None };
            let Some((left, most)) = terms else {
                self.tell(now, since, *delta, &mut taken);
                continue;
            };
            if !waits && is_much(delta.change.debt, left, nodes) {
                taken.add(since, *delta);
                continue;
            }
            self.pace.add(now, (since, now.saturating_add(most)), *delta, nodes);
            if self.pace.is_urgent(id, left, nodes) {
                self.pace.take(now, id, nodes, &mut taken);
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

    /// Tells a delta, with what waits of its key.
    fn tell(&mut self, now: Nanos, since: Nanos, delta: Delta, taken: &mut Taken) {
        let id = delta.id();
        if self.pace.waits(id) {
            let nodes = self.nodes_alive();
            self.pace.add(now, (since, now), delta, nodes);
            self.pace.take(now, id, nodes, taken);
        } else {
            taken.add(since, delta);
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

    /// What is left of a key, and how long it may wait. `None` where it may not: what is left of a
    /// scarce key is split.
    fn waiting_terms(&mut self, id: KeyId) -> Option<(Nanos, Nanos)> {
        self.host.unit(id.0)?;
        let tolerance = self.host.tolerance(id.0).filter(|_| !self.rooms.is_split(id))?;
        let wait = self.options.tell_within.min(tolerance / WAIT);
        (wait > self.options.flush_interval).then_some(())?;
        Some((tolerance.saturating_sub(self.debt(id)), wait))
    }
}
