//! The signals of a node: those that stop it, and the one that makes it read files again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
