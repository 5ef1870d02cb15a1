//! foca's timers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use foca::Timer;

use crate::protocol::id::NodeId;
use crate::protocol::time::Nanos;

/// A deadline, and the order of submission.
type Place = (Nanos, u64);

/// Timers in the order of their deadlines.
///
/// A node that gossips that one identity of an address is down, and then the next one, has a timer
/// submitted with each, which forgets that identity after hours. Those of identities that are not
/// the present one do nothing, so of each address there is one timer of a kind, that of the last
/// identity, as it was submitted first. So there are as many as members, where each ends another
/// suspicion or forgets another member.
#[derive(Debug, Default)]
pub(super) struct Timers {
    by_deadline: BTreeMap<Place, Timer<NodeId>>,
    of_members: BTreeMap<(Kind, SocketAddr), Place>,
    submitted: u64,
}

/// What a timer of a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    EndSuspicion,
    Forget,
}

impl Timers {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_deadline.len()
    }

    pub(super) fn submit(&mut self, at: Nanos, timer: Timer<NodeId>) {
        let place = (at, self.submitted);
        self.submitted += 1;
        if let Some(member) = member_of(&timer) {
            if let Some(earlier) = self.of_members.get(&member) {
                // A member that is suspect is suspected again with each probe that fails.
                if self.by_deadline.get(earlier) == Some(&timer) {
                    return;
                }
                self.by_deadline.remove(earlier);
            }
            self.of_members.insert(member, place);
        }
        self.by_deadline.insert(place, timer);
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.by_deadline.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes the next one that is due.
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<Timer<NodeId>> {
        let place = *self.by_deadline.first_key_value()?.0;
        if place.0 <= now { self.take(place) } else { None }
    }

    /// Removes the first one that forgets a member.
    pub(super) fn take_forgetting(&mut self) -> Option<Timer<NodeId>> {
        let forgets = |timer: &Timer<NodeId>| matches!(timer, Timer::RemoveDown(_));
        let place = *self.by_deadline.iter().find(|(_, timer)| forgets(timer))?.0;
        self.take(place)
    }

    fn take(&mut self, place: Place) -> Option<Timer<NodeId>> {
        let timer = self.by_deadline.remove(&place)?;
        if let Some(member) = member_of(&timer) {
            self.of_members.remove(&member);
        }
        Some(timer)
    }
}

fn member_of(timer: &Timer<NodeId>) -> Option<(Kind, SocketAddr)> {
    match timer {
        Timer::ChangeSuspectToDown { member_id, .. } => Some((Kind::EndSuspicion, member_id.addr)),
        Timer::RemoveDown(id) => Some((Kind::Forget, id.addr)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_is_submitted_again_is_due_no_later() {
        let node = |rank| NodeId { rank, ..NodeId::new("10.0.0.1:1".parse().unwrap(), 5) };
        let mut timers = Timers::default();
        for at in 3..9 {
            timers.submit(at, Timer::RemoveDown(node(1)));
        }
        assert_eq!(timers.deadline(), Some(3));
        timers.submit(9, Timer::RemoveDown(node(2)));
        assert_eq!((timers.deadline(), timers.len()), (Some(9), 1));
        assert_eq!(timers.take_due(9), Some(Timer::RemoveDown(node(2))));
        assert_eq!(timers.take_due(9), None);
    }
}
