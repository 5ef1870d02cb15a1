//! What this node reports of itself and of its peers: figures, not part of the protocol.

use std::net::SocketAddr;
use std::time::Duration;

use super::Core;
use crate::protocol::clock::RemoteClock;
use crate::protocol::cursor::Cursor;
use crate::protocol::event::Event;
use crate::protocol::host::Host;
use crate::protocol::id::Origin;
use crate::protocol::join_kind::JoinKind;
use crate::protocol::peer::{Dial, Peer};
use crate::protocol::stats::{LinkState, PeerStats, Stats};
use crate::protocol::time::{Nanos, SECOND};

/// Whether a node decides alone, and for how long it has in all, as of an observation.
#[derive(Debug, Default)]
pub(super) struct Alone {
    since: Option<Nanos>,
    total: Nanos,
    observed_at: Nanos,
    /// It has been reported to an operator.
    is_reported: bool,
}

/// A node that is alone for this long reports it: links that are opened anew take less.
const ALONE_REPORTED_AFTER: Nanos = SECOND;

impl<H: Host> Core<H> {
    /// Counters and sizes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        stats.links_out = self.peers.values().filter_map(Peer::open_link).count() as u64;
        stats.links_in = self.inbound.len() as u64;
        stats.peers_undialled = self.undialled.len() as u64;
        stats.deltas_covered = self.pace.covered();
        stats.waiting_keys = self.pace.len() as u64;
        stats.capped_keys = self.pace.capped() as u64;
        stats.deltas_capped = self.pace.times_capped();
        stats.capped_for = self.budget.waited();
        stats.pending_keys = self.backlog.keys() as u64;
        (stats.members_forgotten, stats.members_refused) = self.membership.overflow_counts();
        stats.origins = self.applied.len() as u64;
        stats.founded = u64::from(self.join_kind.is_some_and(JoinKind::is_founding));
        stats.estimates_left_out = self.estimates.left_out();
        stats.is_alone = self.alone.since.is_some();
        stats.unlinked = self.unlinked.count();
        stats.alone_for = Duration::from_nanos(self.alone.total);
        (stats.stale, stats.stale_not_caught_up, stats.stale_for) = self.stale.times();
        stats.run_delay = Duration::from_nanos(self.reported_run_delay());
        stats
    }

    /// The same, with the time that the node is alone up to the present.
    #[must_use]
    pub fn stats_at(&self, now: Nanos) -> Stats {
        let stats = self.stats();
        let passed = now.saturating_sub(self.alone.observed_at);
        let passed = if stats.is_alone { passed } else { 0 };
        Stats { alone_for: stats.alone_for + Duration::from_nanos(passed), ..stats }
    }

    /// The nodes that this one dials, by address.
    #[must_use]
    pub fn peers(&self, now: Nanos) -> Vec<PeerStats> {
        self.peers.iter().map(|(addr, peer)| self.describe(now, *addr, peer)).collect()
    }

    fn describe(&self, now: Nanos, addr: SocketAddr, peer: &Peer) -> PeerStats {
        let (batches, debt, since) = peer.cursor().map_or((0, 0, None), |at| self.unacked(at));
        let traffic = peer.delivery.traffic;
        PeerStats {
            addr,
            link: match peer.dial {
                Dial::Waiting { .. } => LinkState::Waiting,
                Dial::Dialling { .. } => LinkState::Dialling,
                Dial::Open { flowing: false, .. } => LinkState::Open,
                Dial::Open { flowing: true, .. } => LinkState::Flowing,
            },
            staleness: self.staleness(now, addr),
            unacked_batches: batches,
            unacked_debt: Duration::from_nanos(Nanos::try_from(debt.max(0)).unwrap_or(Nanos::MAX)),
            unacked_for: Duration::from_nanos(since.map_or(0, |since| now.saturating_sub(since))),
            frames_sent: traffic.frames_sent,
            frames_resent: traffic.frames_resent,
            frames_received: traffic.frames_received,
            bytes_sent: traffic.bytes_sent,
            bytes_received: traffic.bytes_received,
            gaps: traffic.gaps,
        }
    }

    /// The age of what was last received of a node, by the clock of the life that greeted last.
    fn staleness(&self, now: Nanos, addr: SocketAddr) -> Option<Duration> {
        let lives = Origin { addr, generation: 0 }..=Origin { addr, generation: u64::MAX };
        let known = self.clocks.range(lives).next().map(|(_, clock)| clock);
        known.map(|clock: &RemoteClock| Duration::from_nanos(clock.staleness(now)))
    }

    /// What a peer has not acknowledged: batches, their debt, and when the first was sealed.
    fn unacked(&self, at: &Cursor) -> (u64, i128, Option<Nanos>) {
        let (number, last) = (at.acked(), self.log.last());
        let (older, kept_at) = self.backlog.kept_since(number);
        let first = self.log.kept_since(number).next().map(|batch| batch.at);
        (at.lacks(last), older + self.log.debt_since(number), kept_at.or(first))
    }

    /// Notes whether this node decides alone: it knows of others, or has a source of seeds that is
    /// not found, and has a link to no other node. One that is not welcomed is none: the other node
    /// may yet refuse this one's certificate.
    pub(super) fn note_alone(&mut self, now: Nanos) {
        let may_be = !self.peers.is_empty() || self.seeds.is_awaited();
        let others = may_be && !self.leaving && self.has_joined();
        let is_together = self.peers.values().any(|peer| peer.welcomed_link().is_some())
            || self.inbound.values().any(|link| link.id.is_some());
        let is_alone = others && !is_together;
        let alone = &mut self.alone;
        let passed = now.saturating_sub(alone.observed_at);
        alone.observed_at = now;
        alone.total += if alone.since.is_some() { passed } else { 0 };
        alone.since = is_alone.then(|| alone.since.unwrap_or(now));
        let long = |since| now.saturating_sub(since) >= ALONE_REPORTED_AFTER;
        if !alone.is_reported && alone.since.is_some_and(long) {
            alone.is_reported = true;
            self.events.push(Event::Alone);
        } else if alone.is_reported && is_together {
            alone.is_reported = false;
            self.events.push(Event::NoLongerAlone);
        }
    }

    /// When it is reported to an operator that this node is alone, if it stays so.
    pub(super) fn alone_deadline(&self) -> Option<Nanos> {
        let since = self.alone.since.filter(|_| !self.alone.is_reported);
        since.map(|since| since.saturating_add(ALONE_REPORTED_AFTER))
    }

    /// Counts a message to the node at the other end of a link.
    pub(super) fn count_sent(&mut self, to: Option<SocketAddr>, bytes: usize) {
        self.stats.bytes_sent += bytes as u64;
        if let Some(delivery) = to.and_then(|addr| self.peers.delivery_mut(&addr)) {
            delivery.traffic.bytes_sent += bytes as u64;
        }
    }

    /// Counts a message from the node at the other end of a link.
    pub(super) fn count_received(&mut self, from: Option<SocketAddr>, bytes: usize) {
        self.stats.bytes_received += bytes as u64;
        if let Some(delivery) = from.and_then(|addr| self.peers.delivery_mut(&addr)) {
            delivery.traffic.bytes_received += bytes as u64;
        }
    }

    /// Counts a batch that was applied.
    pub(super) fn count_frame(&mut self, from: SocketAddr) {
        self.stats.frames_received += 1;
        if let Some(delivery) = self.peers.delivery_mut(&from) {
            delivery.traffic.frames_received += 1;
        }
    }
}
