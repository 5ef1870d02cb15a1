//! Members that are alive and without a link.
//!
//! Failure detection asks others about a node that does not answer, so of two nodes that cannot
//! reach each other, and both can reach a third, neither is declared down. But no node forwards
//! what they consume: each admits as if the other did nothing. This is reported to an operator.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::Core;
use crate::protocol::event::Event;
use crate::protocol::host::Host;
use crate::protocol::time::{Nanos, SECOND};

/// Between two observations, at least.
const OBSERVE_EVERY: Nanos = SECOND;
/// A link that is lost, or to a node that has just started, may take this long to be opened.
const REPORT_AFTER: Nanos = 10 * SECOND;
/// Between two reports of one member.
const REPORT_EVERY: Nanos = 60 * SECOND;
/// Members that are reported in that time, at most.
const MAX_REPORTS: usize = 8;

/// The members that lacked a link at the last observation. Bounded as the peers are.
#[derive(Debug, Default)]
pub(super) struct Unlinked {
    observed_at: Nanos,
    members: BTreeMap<SocketAddr, Lack>,
    /// Since when members are reported, and how many were.
    reports_since: Nanos,
    reports: usize,
}

/// Links that a member lacks.
#[derive(Clone, Copy, Debug)]
struct Lack {
    since: Nanos,
    reported_at: Option<Nanos>,
}

impl Unlinked {
    /// How many have lacked a link for long enough to be reported.
    pub(super) fn count(&self) -> u64 {
        let long = |lack: &&Lack| self.observed_at.saturating_sub(lack.since) >= REPORT_AFTER;
        self.members.values().filter(long).count() as u64
    }

    /// What to report of a member.
    fn note(&mut self, now: Nanos, addr: SocketAddr, sends: bool, receives: bool) -> Option<Event> {
        if sends && receives {
            let lack = self.members.remove(&addr)?;
            return lack.reported_at.map(|_| Event::Linked { addr });
        }
        let lack = self.members.entry(addr).or_insert(Lack { since: now, reported_at: None });
        let passed = now.saturating_sub(lack.since);
        let is_due = lack.reported_at.map_or(passed >= REPORT_AFTER, |at| now - at >= REPORT_EVERY);
        if !is_due || self.reports >= MAX_REPORTS {
            return None;
        }
        lack.reported_at = Some(now);
        self.reports += 1;
        let (passed, all) = (Duration::from_nanos(passed), self.count());
        Some(Event::Unlinked { addr, sends, receives, passed, all })
    }
}

impl<H: Host> Core<H> {
    /// Notes which members are alive and lack a link, to them or from them.
    pub(super) fn note_unlinked(&mut self, now: Nanos) {
        let is_due = now.saturating_sub(self.unlinked.observed_at) >= OBSERVE_EVERY;
        if !is_due || self.leaving || !self.has_joined() {
            return;
        }
        self.unlinked.observed_at = now;
        if now.saturating_sub(self.unlinked.reports_since) >= REPORT_EVERY {
            (self.unlinked.reports_since, self.unlinked.reports) = (now, 0);
        }
        let (membership, peers) = (&self.membership, &self.peers);
        self.unlinked
            .members
            .retain(|addr, _| membership.is_active(*addr) && peers.get(addr).is_some());
        let active = self.peers.iter().filter(|(addr, _)| self.membership.is_active(**addr));
        for (addr, peer) in active {
            // A node that takes over a state, to join or after a gap, receives all of it by that.
            let sends = peer.welcomed_link().is_some();
            let receives = self.inbound.from(*addr).is_some();
            let event = self.unlinked.note(now, *addr, sends, receives);
            if let Some(event) = event {
                self.events.push(event);
            }
        }
    }
}
