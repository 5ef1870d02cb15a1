//! What all connections of the front-end share.
//!
//! # Orderings of this file
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | I1 commands, all accesses | relaxed | none: a statistic | - | - |

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::clients::Clients;
use super::queue::{MAX_ALL_QUEUED_BYTES, Queue};
use crate::config::bounds::{
    COMMAND_TIMEOUT, MAX_CONNECTIONS, MAX_UNREAD_BYTES, TransactionBounds, UNDER_WAY,
};
use crate::config::password::InForce;
use crate::front::budget::{Budget, Share};
use crate::front::turns::Turns;
use crate::service::Service;
use crate::telemetry::log_throttle::SharedLogThrottle;
use crate::telemetry::meter::{FrontEndName, Meter};

/// For how long a reading of the process's memory is good enough.
const MEMORY_LIFE: Duration = Duration::from_secs(1);

/// The bounds of the front-end that may be chosen.
#[derive(Clone, Copy, Debug)]
pub struct RespBounds {
    /// The most connections at a time.
    pub max_clients: usize,
    /// How long a client may send nothing; `None` is any time.
    pub idle_timeout: Option<Duration>,
    /// The most bytes that connections hold in incomplete commands.
    pub max_unread_bytes: usize,
    /// How long a command may take from its first byte to its last.
    pub command_timeout: Duration,
    /// What a client may queue in one transaction.
    pub transaction: TransactionBounds,
    /// How long a client may take, once the node drains, to learn that its connection closes.
    pub under_way: Duration,
}

impl Default for RespBounds {
    fn default() -> Self {
        Self {
            max_clients: MAX_CONNECTIONS,
            idle_timeout: None,
            max_unread_bytes: MAX_UNREAD_BYTES,
            command_timeout: COMMAND_TIMEOUT,
            transaction: TransactionBounds::default(),
            under_way: UNDER_WAY,
        }
    }
}

/// What all connections of the front-end share, and `INFO` reports.
#[derive(Debug)]
pub struct ServerInfo {
    service: Arc<Service>,
    /// Counts the decisions of all connections.
    meter: Meter,
    address: SocketAddr,
    password: Option<InForce>,
    bounds: RespBounds,
    started: Instant,
    clients: Arc<Clients>,
    /// Of connections that have more to do than others may wait for.
    turns: Turns,
    commands: AtomicU64,
    /// The bytes that connections hold in incomplete commands.
    unread: Arc<Budget>,
    /// The bytes that connections hold in commands of transactions.
    queued: Arc<Budget>,
    /// The memory of the process, in bytes, and when that was read.
    resident: Mutex<Option<(Instant, u64)>>,
    /// Lines of the log about wrong passwords.
    guesses: Arc<SharedLogThrottle>,
}

impl ServerInfo {
    /// Without a password every client is let in.
    pub fn new(
        service: Arc<Service>,
        address: SocketAddr,
        password: Option<InForce>,
        bounds: RespBounds,
    ) -> Self {
        Self {
            meter: service.meter(FrontEndName::Resp),
            service,
            address,
            password,
            bounds,
            started: Instant::now(),
            clients: Arc::default(),
            turns: Turns::default(),
            commands: AtomicU64::new(0),
            unread: Arc::new(Budget::new(bounds.max_unread_bytes)),
            queued: Arc::new(Budget::new(MAX_ALL_QUEUED_BYTES)),
            resident: Mutex::new(None),
            guesses: Arc::new(SharedLogThrottle::new("wrong passwords")),
        }
    }

    pub fn service(&self) -> &Service {
        &self.service
    }

    pub const fn meter(&self) -> &Meter {
        &self.meter
    }

    pub const fn password(&self) -> Option<&InForce> {
        self.password.as_ref()
    }

    pub const fn bounds(&self) -> &RespBounds {
        &self.bounds
    }

    /// The connections that are open.
    pub const fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    pub const fn turns(&self) -> &Turns {
        &self.turns
    }

    /// A share of that budget for one connection.
    pub fn unread_share(&self) -> Share {
        Share::new(Arc::clone(&self.unread))
    }

    /// An empty transaction, which counts in that of transactions.
    pub fn queue(&self) -> Queue {
        Queue::new(Share::new(Arc::clone(&self.queued)), self.bounds.transaction)
    }

    pub fn count_commands(&self, commands: u64) {
        // I1
        self.commands.fetch_add(commands, Ordering::Relaxed);
    }

    /// The commands of all connections that have been counted so far.
    pub fn commands(&self) -> u64 {
        // I1
        self.commands.load(Ordering::Relaxed)
    }

    /// Counts a wrong password, and logs it once a second at most.
    pub fn count_guess(&self, from: Option<SocketAddr>) {
        self.service.metrics().count_guess();
        if let Some(left_out) = self.guesses.admit_shared() {
            let from = from.map(tracing::field::display);
            tracing::warn!(from, left_out, "a Redis client gave a wrong password");
        }
    }

    /// The port at which clients reach the front-end.
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// How long the front-end has been serving.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The memory of the process, in bytes, as of the last second; 0 where the system does not
    /// report it.
    pub fn resident_bytes(&self) -> u64 {
        let now = Instant::now();
        // No panic leaves a reading half written.
        let mut resident = self.resident.lock().unwrap_or_else(PoisonError::into_inner);
        match *resident {
            Some((read, bytes)) if now.saturating_duration_since(read) < MEMORY_LIFE => bytes,
            _ => {
                let bytes = resident_bytes().unwrap_or(0);
                *resident = Some((now, bytes));
                bytes
            }
        }
    }
}

/// The memory of the process, which Linux reports in KiB.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
