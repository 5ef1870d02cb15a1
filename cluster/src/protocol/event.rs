//! What happened, for an operator to read: not part of the protocol.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use super::id::NodeId;
use crate::member::MemberState;

/// Events that wait to be polled, at most.
const MAX_EVENTS: usize = 256;

/// Something that an operator may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// This node is the first of its cluster.
    Founded,
    /// This node has joined: it has taken over another node's state.
    Joined {
        /// The other node.
        from: SocketAddr,
    },
    /// Two clusters have met, and the other one was founded first: this node starts over in it.
    StartedOver {
        /// A node of the other cluster.
        with: SocketAddr,
    },
    /// A member is in another state; seen within a quarter of a second.
    Member {
        /// The member.
        id: NodeId,
        /// Its state before; `None` of a node that was not a member in this run of it.
        was: Option<MemberState>,
        /// Its state.
        is: MemberState,
    },
    /// Others held this node down, so it comes back under a new rank.
    Rejoined,
    /// This node has decided alone for a second: it knows of others, or a source of seeds is not
    /// found, and it has a link to none.
    Alone,
    /// It has a link to another node again.
    NoLongerAlone,
    /// A member is alive and has lacked a link for 10 s, or for a minute since the last such event.
    Unlinked {
        /// The member.
        addr: SocketAddr,
        /// There is a link to it: it counts what this node consumes.
        sends: bool,
        /// There is one from it: this node counts what it consumes.
        receives: bool,
        /// For how long.
        passed: Duration,
        /// How many members there are of which this is so: not all of them are reported.
        all: u64,
    },
    /// That member has both links again.
    Linked {
        /// The member.
        addr: SocketAddr,
    },
    /// The node at an address was there in a later run before: another node has the same address,
    /// or its clock was set back.
    Contended {
        /// Its present run.
        id: NodeId,
        /// The later one.
        before: NodeId,
    },
    /// This node was stopped or starved, and catches up with its peers before it decides.
    Stale {
        /// How long it has not run.
        unseen: Duration,
    },
    /// It decides again.
    CaughtUp {
        /// How many of its peers it still awaited: it has not caught up with them within the bound.
        awaited: usize,
    },
    /// A link that this node dialled is open, and the other side has identified itself.
    LinkOpen {
        /// The other side.
        addr: SocketAddr,
    },
    /// It is closed.
    LinkClosed {
        /// The other side.
        addr: SocketAddr,
    },
    /// The log of a node does not reach back to what this one knows of it.
    Gap {
        /// The node.
        of: SocketAddr,
    },
    /// The state of that node is here.
    StateTakenOver {
        /// The node.
        of: SocketAddr,
    },
    /// A node speaks other versions of the protocol, so there is no link.
    VersionMismatch {
        /// The node.
        addr: SocketAddr,
        /// The oldest version it speaks.
        oldest: u16,
        /// The newest.
        newest: u16,
    },
    /// A node reports more of a key than it can owe by this node's limit, as where limits of one
    /// name differ; at most once a minute.
    DebtRefused {
        /// The node.
        from: SocketAddr,
    },
    /// A node has broken the protocol, and the link is closed.
    Violation {
        /// The node, if it has identified itself.
        addr: Option<SocketAddr>,
    },
    /// There was no room for some events.
    LeftOut {
        /// How many.
        count: u64,
    },
}

/// Events that wait to be polled; the newest are left out where there is no room.
#[derive(Debug, Default)]
pub(super) struct Events {
    queue: VecDeque<Event>,
    left_out: u64,
}

impl Events {
    pub(super) fn beginning_with(first: Option<Event>) -> Self {
        Self { queue: first.into_iter().collect(), left_out: 0 }
    }

    pub(super) fn push(&mut self, event: Event) {
        if self.queue.len() < MAX_EVENTS {
            self.queue.push_back(event);
        } else {
            self.left_out += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.queue.pop_front().or_else(|| {
            let count = std::mem::take(&mut self.left_out);
            (count > 0).then_some(Event::LeftOut { count })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut events = Events::default();
        (0..300).for_each(|_| events.push(Event::Alone));
        let kept: Vec<Event> = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(kept.len(), MAX_EVENTS + 1);
        assert_eq!(kept.last(), Some(&Event::LeftOut { count: 44 }));
        assert_eq!(events.pop(), None);
    }
}
