//! Since when each member is in its state, and what has changed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::member::MemberState;
use crate::protocol::event::{Event, Events};
use crate::protocol::id::NodeId;
use crate::protocol::time::{Nanos, SECOND};

/// Between two observations of all members, at least.
const OBSERVE_EVERY: Nanos = SECOND / 20;
/// A member that was alive and is down has left, most likely, and its own announcement of that,
/// which comes by another way than that of others, is waited for this long.
const LEAVES_WITHIN: Nanos = SECOND / 5;

/// What each member was at the last observation. Bounded as the members are.
#[derive(Debug, Default)]
pub(super) struct States {
    known: BTreeMap<SocketAddr, Known>,
    observed_at: Option<Nanos>,
    /// Something may have changed since, or is to be reported later.
    is_due: bool,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    id: NodeId,
    state: MemberState,
    since: Nanos,
    /// When it was first seen down, while it is not known whether it has left.
    fell_at: Option<Nanos>,
    /// When it was observed last.
    observed_at: Nanos,
}

impl States {
    /// Observes all members, this node among them, unless that was only just done, and reports what
    /// has changed.
    pub(super) fn observe(
        &mut self,
        now: Nanos,
        me: NodeId,
        others: impl Iterator<Item = (NodeId, MemberState)>,
        events: &mut Events,
    ) {
        let due = |at: Nanos| now.saturating_sub(at) >= OBSERVE_EVERY;
        if !self.observed_at.is_none_or(due) {
            self.is_due = true;
            return;
        }
        self.is_due = false;
        if self.observed_at.is_none() {
            // This node is not news to itself.
            let _ = self.see(now, me, MemberState::Alive);
        }
        self.observed_at = Some(now);
        for (id, state) in others {
            let contended = self.contended(id, state);
            for event in contended.into_iter().chain(self.see(now, id, state)) {
                events.push(event);
            }
        }
        self.known.retain(|addr, known| known.observed_at == now || *addr == me.addr);
    }

    /// For how long a member has been in its state.
    pub(super) fn since(&self, addr: SocketAddr) -> Duration {
        let since = self.known.get(&addr).map(|known| known.fell_at.unwrap_or(known.since));
        let passed = since.zip(self.observed_at).map(|(since, now)| now.saturating_sub(since));
        Duration::from_nanos(passed.unwrap_or(0))
    }

    /// When the next observation is due.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.observed_at.filter(|_| self.is_due).map(|at| at.saturating_add(OBSERVE_EVERY))
    }

    /// Whether a member that is alive is an earlier run than was seen at its address last.
    fn contended(&self, id: NodeId, state: MemberState) -> Option<Event> {
        let before = self.known.get(&id.addr).map(|known| known.id);
        let before = before.filter(|before| before.generation > id.generation)?;
        let is_there = matches!(state, MemberState::Alive | MemberState::Suspect);
        is_there.then_some(Event::Contended { id, before })
    }

    fn see(&mut self, now: Nanos, id: NodeId, state: MemberState) -> Option<Event> {
        let seen = Known { id, state, since: now, fell_at: None, observed_at: now };
        let before = self.known.insert(id.addr, seen);
        let before = before.filter(|known| known.id.generation == id.generation);
        if let Some(known) = before
            && (known.state, state) == (MemberState::Alive, MemberState::Down)
        {
            let fell_at = known.fell_at.unwrap_or(now);
            if now.saturating_sub(fell_at) < LEAVES_WITHIN {
                let falling = Known { fell_at: Some(fell_at), observed_at: now, ..known };
                self.known.insert(id.addr, falling);
                self.is_due = true;
                return None;
            }
        }
        match before {
            Some(known) if known.state == state => {
                self.known.insert(id.addr, Known { since: known.since, ..seen });
                None
            }
            Some(Known { state: was, .. }) => Some(Event::Member { id, was: Some(was), is: state }),
            // An unknown node that others report as gone is not news.
            None if matches!(state, MemberState::Down | MemberState::Left) => None,
            None => Some(Event::Member { id, was: None, is: state }),
        }
    }
}
