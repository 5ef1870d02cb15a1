//! What all connections of the front-end share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::budget::{Budget, MAX_UNREAD_BYTES, Share};

/// What all connections of the front-end share, and `INFO` reports.
#[derive(Debug)]
pub struct ServerInfo {
    address: SocketAddr,
    started: Instant,
    next_id: AtomicI64,
    commands: AtomicU64,
    /// The bytes that connections hold in incomplete commands.
    unread: Arc<Budget>,
}

impl ServerInfo {
    pub fn new(address: SocketAddr) -> Self {
        Self::with_budget(address, Budget::new(MAX_UNREAD_BYTES))
    }

    pub fn with_budget(address: SocketAddr, unread: Budget) -> Self {
        Self {
            address,
            started: Instant::now(),
            next_id: AtomicI64::new(1),
            commands: AtomicU64::new(0),
            unread: Arc::new(unread),
        }
    }

    /// A number that no other connection of this process has.
    pub fn next_id(&self) -> i64 {
        // Relaxed: the number guards nothing else.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// A share of that budget for one connection.
    pub fn unread_share(&self) -> Share {
        Share::new(Arc::clone(&self.unread))
    }

    pub fn count_commands(&self, commands: u64) {
        // Relaxed: a statistic.
        self.commands.fetch_add(commands, Ordering::Relaxed);
    }
    /// The commands of all connections that have been counted so far.
    pub fn commands(&self) -> u64 {
        // Relaxed: a statistic.
        self.commands.load(Ordering::Relaxed)
    }

    /// The port at which clients reach the front-end.
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// How long the front-end has been serving.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}
