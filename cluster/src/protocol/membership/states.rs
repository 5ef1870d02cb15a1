//! Since when each member is in its state, and what has changed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::Membership;
use crate::member::MemberState;
use crate::protocol::event::{Event, Events};
use crate::protocol::id::NodeId;
use crate::protocol::time::{Nanos, SECOND};

/// Between two looks at all members, at least.
const LOOK_EVERY: Nanos = SECOND / 20;

/// What each member was at the last look. Bounded as the members are.
#[derive(Debug, Default)]
pub(super) struct States {
    known: BTreeMap<SocketAddr, Known>,
    looked_at: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    id: NodeId,
    state: MemberState,
    since: Nanos,
    /// The number of the look that has seen it last.
    look: Nanos,
}

impl States {
    /// For how long a member has been in its state.
    pub(super) fn since(&self, addr: SocketAddr) -> Duration {
        let since = self.known.get(&addr).map(|known| known.since);
        let passed = since.zip(self.looked_at).map(|(since, now)| now.saturating_sub(since));
        Duration::from_nanos(passed.unwrap_or(0))
    }

    fn see(&mut self, now: Nanos, id: NodeId, state: MemberState) -> Option<Event> {
        let seen = Known { id, state, since: now, look: now };
        let before = self.known.insert(id.addr, seen);
        let before = before.filter(|known| known.id.generation == id.generation);
        match before {
            Some(known) if known.state == state => {
                self.known.insert(id.addr, Known { since: known.since, ..seen });
                None
            }
            Some(Known { state: was, .. }) => Some(Event::Member { id, was: Some(was), is: state }),
            // A stranger of whom others say that it is gone is no news.
            None if matches!(state, MemberState::Down | MemberState::Left) => None,
            None => Some(Event::Member { id, was: None, is: state }),
        }
    }
}

impl Membership {
    /// Looks at all members, unless that was only just done, and tells what has changed.
    pub(in crate::protocol) fn look(&mut self, now: Nanos, events: &mut Events) {
        let due = |at: Nanos| now.saturating_sub(at) >= LOOK_EVERY;
        if !self.states.looked_at.is_none_or(due) {
            return;
        }
        let mut states = std::mem::take(&mut self.states);
        let me = self.me();
        if states.looked_at.is_none() {
            // This node is no news to itself.
            let _ = states.see(now, me, MemberState::Alive);
        }
        states.looked_at = Some(now);
        for member in self.foca.iter_membership_state().filter(|m| m.id().addr != me.addr) {
            let change = states.see(now, *member.id(), self.state_of_member(member));
            if let Some(change) = change {
                events.push(change);
            }
        }
        states.known.retain(|addr, known| known.look == now || *addr == me.addr);
        self.states = states;
    }
}
