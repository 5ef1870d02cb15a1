//! The signals of a node: those that stop it, and the one that makes it read files again. What else
//! stops it.

use std::{fmt, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::limits::gossip::Gossip;

/// Why a node stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    Signal(&'static str),
    /// Its part in the cluster has ended by a failure: it would decide alone for ever.
    GossipEnded,
}

impl StopReason {
    /// Waits for the first one.
    pub async fn first(signal: impl Future<Output = &'static str>, gossip: &Gossip) -> Self {
        tokio::select! {
            signal = signal => Self::Signal(signal),
            () = gossip.ended() => Self::GossipEnded,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(name) => f.write_str(name),
            Self::GossipEnded => f.write_str("gossip has ended"),
        }
    }
}

/// SIGTERM and SIGINT. The first one stops the node; each further one ends the part of stopping
/// that is waited for: the time as a lame duck, the drain, leaving the cluster.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From here on neither signal ends the process by itself.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal; several that arrive at once may count as one.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// SIGHUP, which from here on does not end the process.
pub fn hangups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}
