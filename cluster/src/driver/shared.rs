//! What the driver's task and the handles both see.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use atomic::Atomic;
use bytemuck::NoUninit;
use tokio::time::Instant;

use super::recorder::Recorder;
use crate::core::Stats;
use crate::member::Member;

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(u8)]
enum Phase {
    /// The state of the cluster is still to come.
    Joining,
    /// The node founded the cluster, or has taken its state over. Final.
    Joined,
}

/// What handles read without asking the driver.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) addr: SocketAddr,
    pub(crate) recorder: Recorder,
    started: Instant,
    join_patience: Duration,
    phase: Atomic<Phase>,
    /// What becomes of connections before the core hears of them.
    pub(super) door: Door,
    view: Mutex<View>,
}

/// Counts connections that others began in vain.
#[derive(Debug, Default)]
pub(super) struct Door {
    rejected: AtomicU64,
    refused: AtomicU64,
}

impl Door {
    /// The handshake did not succeed.
    pub(super) fn reject(&self) {
        // Relaxed here and below: a count that orders nothing.
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// There were too many.
    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct View {
    members: Vec<Member>,
    stats: Stats,
}

impl Shared {
    pub(super) fn new(addr: SocketAddr, started: Instant, join_patience: Duration) -> Self {
        Self {
            addr,
            recorder: Recorder::new(),
            started,
            join_patience,
            phase: Atomic::new(Phase::Joining),
            door: Door::default(),
            view: Mutex::default(),
        }
    }

    pub(super) fn publish(&self, members: Vec<Member>, stats: Stats) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = View { members, stats };
    }

    pub(super) fn set_joined(&self) {
        // Release: whoever sees `Joined` also sees the state that was taken over; pairs with
        // `has_joined`.
        self.phase.store(Phase::Joined, Ordering::Release);
    }

    pub(crate) fn members(&self) -> Vec<Member> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).members.clone()
    }

    pub(crate) fn stats(&self) -> Stats {
        let stats = self.view.lock().unwrap_or_else(PoisonError::into_inner).stats;
        // What is counted outside the core changes without it having anything to publish.
        Stats {
            records_dropped: self.recorder.dropped(),
            handshakes_rejected: self.door.rejected.load(Ordering::Relaxed),
            links_refused: self.door.refused.load(Ordering::Relaxed),
            ..stats
        }
    }

    pub(crate) fn is_joining(&self) -> bool {
        !self.has_joined() && self.started.elapsed() < self.join_patience
    }

    pub(crate) fn has_joined(&self) -> bool {
        // Acquire: pairs with `set_joined`.
        self.phase.load(Ordering::Acquire) == Phase::Joined
    }
}
