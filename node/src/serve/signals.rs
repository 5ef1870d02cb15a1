//! The signals of a node: those that stop it, and the one that makes it read files again. What else
//! stops it.

use std::{fmt, io};

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::threads;
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

/// The line about it at the start.
pub fn unhandled(error: impl fmt::Display) -> String {
    format!("signals cannot be handled: {error}")
}

/// SIGHUP, which from here on does not end the process.
pub fn hangups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// Keeps SIGHUP from ending the process before there is anything to read again.
pub fn catch_hangups() -> Result<(), String> {
    let runtime = threads::build(Builder::new_current_thread().enable_io()).map_err(unhandled)?;
    let _in_runtime = runtime.enter();
    // What handles it stays when this is dropped.
    hangups().map(drop).map_err(unhandled)
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn a_hangup_that_is_caught_does_not_end_the_process() {
        catch_hangups().unwrap();
        kill_process(getpid(), Signal::HUP).unwrap();
    }
}
