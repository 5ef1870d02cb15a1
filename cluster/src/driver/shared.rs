//! The state that the driver's task shares with the handles.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | P1 phase, store | release | P2 | a thread that finds the node joined decides on words without the state that was taken over | - |
//! | P2 phase, load | acquire | P1 | as P1 | - |
//! | P3 counts of handshakes, the time alone, all accesses | relaxed | none: statistics | - | - |

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atomic::Atomic;
use bytemuck::NoUninit;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::expiry::Expiry;
use super::freshness::{Freshness, WAIT_WITHIN};
use super::keys::Keys;
use super::link::Incomplete;
use super::logging::{self, LogThrottle};
use super::recorder::Recorder;
use crate::limits::Limits;
use crate::member::Member;
use crate::protocol::{
    JoinKind, LinkState, Nanos, OverAdmission, PeerStats, SeenMember, Stats, nanos,
};

/// Whether a node is in its cluster, and how. It is `Joining` again only where it starts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(u8)]
enum Phase {
    /// The node has no state yet.
    Joining,
    Joined,
    Founded,
    FoundedAlone,
    /// The node has ended before it had a state.
    Ended,
}

impl Phase {
    fn join_kind(self) -> Option<JoinKind> {
        match self {
            Self::Joining | Self::Ended => None,
            Self::Joined => Some(JoinKind::Joined),
            Self::Founded => Some(JoinKind::Founded),
            Self::FoundedAlone => Some(JoinKind::FoundedAlone),
        }
    }
}

impl From<JoinKind> for Phase {
    fn from(join_kind: JoinKind) -> Self {
        match join_kind {
            JoinKind::Joined => Self::Joined,
            JoinKind::Founded => Self::Founded,
            JoinKind::FoundedAlone => Self::FoundedAlone,
        }
    }
}

/// What handles read without a round trip to the driver.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) addr: SocketAddr,
    pub(crate) recorder: Recorder,
    pub(crate) keys: Arc<Keys>,
    pub(crate) limits: Limits,
    pub(super) started: Instant,
    freshness: Freshness,
    phase: Atomic<Phase>,
    /// Wakes the tasks that wait for the phase.
    phase_is_set: Notify,
    /// Incoming connections that never reached the protocol.
    pub(super) handshakes: HandshakeCounts,
    pub(super) expiry: Expiry,
    view: Mutex<View>,
    /// The longest time alone that was shown, in nanoseconds: a view is a little older than what
    /// follows from it, and what counts up is not shown smaller later.
    alone_shown: AtomicU64,
    /// Seeds are to be looked up.
    pub(crate) look_up: Notify,
    /// Hosts whose nodes are known before they are members.
    seed_hosts: Mutex<Vec<IpAddr>>,
}

/// Counts incoming connections that were not accepted.
#[derive(Debug, Default)]
pub(super) struct HandshakeCounts {
    rejected: AtomicU64,
    refused: AtomicU64,
    retried: AtomicU64,
    /// Any host that reaches the port can cause a log line.
    throttle: Mutex<LogThrottle>,
}

impl HandshakeCounts {
    /// A handshake failed.
    pub(super) fn count_rejected(&self, from: SocketAddr, why: Incomplete) {
        self.rejected.fetch_add(1, Ordering::Relaxed); // P3
        match why {
            Incomplete::Distrusted => {
                self.log_refused(from, "it failed, as with another secret or cluster");
            }
            Incomplete::Expired => self.log_refused(from, "its certificate is out of date"),
            Incomplete::ExpiredHere => {
                self.log_refused(from, "it takes this node's certificate for expired");
            }
            Incomplete::GivenUp => logging::given_up(from),
        }
    }

    fn log_refused(&self, from: SocketAddr, why: &'static str) {
        logging::refused(
            &mut self.throttle.lock().unwrap_or_else(PoisonError::into_inner),
            from,
            why,
        );
    }

    /// A connection was asked to validate its address.
    pub(super) fn count_retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed); // P3
    }

    /// A connection exceeded the bound.
    pub(super) fn count_refused(&self, from: SocketAddr) {
        self.refused.fetch_add(1, Ordering::Relaxed); // P3
        self.log_refused(from, "too many connections");
    }
}

/// The cluster as the driver has seen it last.
#[derive(Debug, Default)]
pub(super) struct View {
    /// When that was, on the driver's clock.
    pub(super) at: Nanos,
    pub(super) members: Vec<SeenMember>,
    pub(super) peers: Vec<PeerStats>,
    /// What was admitted beyond each limit, by its bits.
    pub(super) beyond: BTreeMap<u64, OverAdmission>,
    pub(super) stats: Stats,
    /// When the node failed: it decides alone since.
    pub(super) cut_off_at: Option<Nanos>,
}

impl Shared {
    pub(super) fn new(addr: SocketAddr, keys: Keys, started: Instant) -> Self {
        Self {
            addr,
            recorder: Recorder::new(started.into_std()),
            keys: Arc::new(keys),
            limits: Limits::default(),
            started,
            freshness: Freshness::new(),
            phase: Atomic::new(Phase::Joining),
            phase_is_set: Notify::new(),
            handshakes: HandshakeCounts::default(),
            expiry: Expiry::default(),
            view: Mutex::default(),
            alone_shown: AtomicU64::new(0),
            look_up: Notify::new(),
            seed_hosts: Mutex::default(),
        }
    }

    /// The present on the protocol's clock.
    pub(crate) fn now(&self) -> Nanos {
        nanos(self.started.elapsed())
    }

    /// Until when the node's words are recent enough to decide from.
    pub(super) fn set_current_until(&self, until: Nanos) {
        self.freshness.set(self.now(), until);
    }

    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.freshness.is_current(|| self.now())
    }

    pub(crate) async fn current(&self) {
        self.freshness.wait(WAIT_WITHIN, || self.now()).await;
    }

    pub(super) fn publish(&self, view: View) {
        *self.view() = view;
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node is in its cluster; in another way once it has started over.
    pub(super) fn enter(&self, join_kind: JoinKind) {
        self.set_phase(join_kind.into());
    }

    /// The node has no state: it has not joined yet, or has started over.
    pub(super) fn await_state(&self) {
        self.set_phase(Phase::Joining);
    }

    /// The node has failed.
    pub(super) fn cut_off(&self) {
        let now = self.now();
        self.view().cut_off_at = Some(now);
    }

    /// The node has ended: callers that wait for it need not go on. The view, which is the last
    /// one, has no link from here on.
    pub(super) fn end(&self) {
        let mut view = self.view();
        view.peers.iter_mut().for_each(|peer| peer.link = LinkState::Waiting);
        (view.stats.links_out, view.stats.links_in) = (0, 0);
        drop(view);
        self.freshness.set(self.now(), Nanos::MAX);
        self.recorder.close();
        if !self.has_joined() {
            self.set_phase(Phase::Ended);
        }
    }

    /// Only the driver calls it.
    fn set_phase(&self, phase: Phase) {
        if self.phase() != phase {
            self.phase.store(phase, Ordering::Release); // P1
            self.phase_is_set.notify_waiters();
        }
    }

    fn phase(&self) -> Phase {
        self.phase.load(Ordering::Acquire) // P2
    }

    /// As long in their states as by now: a driver without work publishes nothing.
    pub(crate) fn members(&self) -> Vec<Member> {
        let view = self.view();
        let (members, passed) = (view.members.clone(), self.since(view.at));
        drop(view);
        members.iter().map(|seen| seen.after(passed)).collect()
    }

    pub(crate) fn over_admission(&self, limit: u64) -> OverAdmission {
        self.view().beyond.get(&limit).copied().unwrap_or_default()
    }

    /// With ages as by now, also while the driver is starved.
    pub(crate) fn peers(&self) -> Vec<PeerStats> {
        let view = self.view();
        let (mut peers, passed) = (view.peers.clone(), self.since(view.at));
        for peer in &mut peers {
            peer.staleness = peer.staleness.map(|staleness| staleness + passed);
            if peer.unacked_batches > 0 {
                peer.unacked_for += passed;
            }
        }
        peers
    }

    fn since(&self, at: Nanos) -> Duration {
        Duration::from_nanos(self.now().saturating_sub(at))
    }

    /// Nodes of the cluster are at these addresses.
    pub(super) fn set_seeds(&self, seeds: &[SocketAddr]) {
        let hosts = seeds.iter().map(SocketAddr::ip).collect();
        *self.seed_hosts.lock().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    /// Whether a known member, or a seed, is at this host.
    pub(super) fn knows_host(&self, host: IpAddr) -> bool {
        let seeds = self.seed_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        seeds.contains(&host) || self.view().members.iter().any(|member| member.addr().ip() == host)
    }

    /// With the time alone as by now: a node without links has little to do.
    pub(crate) fn stats(&self) -> Stats {
        let view = self.view();
        let alone_at = Some(view.at).filter(|_| view.stats.is_alone).or(view.cut_off_at);
        let stats = view.stats;
        drop(view);
        let alone_since = alone_at.map_or(Duration::ZERO, |at| self.since(at));
        let alone_for = nanos(stats.alone_for + alone_since);
        let shown = self.alone_shown.fetch_max(alone_for, Ordering::Relaxed); // P3
        // Counted outside the protocol, so not part of what it publishes.
        Stats {
            steps: stats.steps.as_of(self.started.elapsed()),
            records_shared: self.recorder.shared(),
            records_dropped: self.recorder.dropped(),
            unknown_dropped: self.limits.dropped(),
            // P3
            handshakes_rejected: self.handshakes.rejected.load(Ordering::Relaxed),
            handshakes_retried: self.handshakes.retried.load(Ordering::Relaxed),
            links_refused: self.handshakes.refused.load(Ordering::Relaxed),
            is_alone: alone_at.is_some(),
            alone_for: Duration::from_nanos(alone_for.max(shown)),
            // As `has_joined`, not older.
            founded: u64::from(self.phase().join_kind().is_some_and(JoinKind::is_founding)),
            ..stats
        }
    }

    pub(crate) fn certificate_expiry(&self) -> Option<SystemTime> {
        self.expiry.until().map(|until| UNIX_EPOCH + until)
    }

    pub(crate) fn has_joined(&self) -> bool {
        self.phase().join_kind().is_some()
    }

    /// Waits until the node is in its cluster; `None` when it ends before.
    pub(crate) async fn joined(&self) -> Option<JoinKind> {
        loop {
            // It is woken by what is set after its creation, so what was set before is seen here.
            let set = self.phase_is_set.notified();
            match self.phase() {
                Phase::Joining => set.await,
                phase => return phase.join_kind(),
            }
        }
    }
}
