//! What the cluster logs for an operator, by `tracing`, with the target `tidegate_cluster`.

mod members;
mod throttle;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;
use tracing::field::display;
use tracing::{debug, error, info, warn};

use crate::protocol::{Event, NodeId};
use members::{LeftOut, MemberLine, MemberLog};
pub(super) use throttle::LogThrottle;

pub(super) const TARGET: &str = "tidegate_cluster";
/// Between two lines of what goes on until an operator mends it.
const LASTING_EVERY: Duration = Duration::from_secs(10);

/// A handshake of a node at this address has failed, or was refused.
pub(super) fn refused(throttle: &mut LogThrottle, from: SocketAddr, why: &'static str) {
    if let Some(left_out) = throttle.admit(Instant::now()) {
        warn!(target: TARGET, %from, left_out, "handshake refused: {why}");
    }
}

/// This node leaves, and a member that is alive has not acknowledged everything.
pub(super) fn left_unacknowledged() {
    warn!(target: TARGET, "left before all members acknowledged what was admitted here: what they \
        have not received is lost for them");
}

/// The node has ended without having been asked to.
pub(super) fn failed() {
    error!(target: TARGET, "this node's gossip has ended by a failure, such as a panic: from here \
        on it decides alone, and nothing but a restart changes that");
}

/// The node at this address has given up its handshake.
pub(super) fn given_up(from: SocketAddr) {
    debug!(target: TARGET, %from, "handshake given up by the other side");
}

/// One throttle for each kind of event that another node, or a busy machine, can cause at will.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    gaps: LogThrottle,
    stale: LogThrottle,
    current: LogThrottle,
    versions: LogThrottle,
    violations: LogThrottle,
    rejoined: LogThrottle,
    contended: LogThrottle,
    caught_up: LogThrottle,
    members: MemberLog,
}

impl EventLog {
    /// When lines that were left out are to be counted.
    pub(super) fn due(&self) -> Option<Instant> {
        self.members.due()
    }

    /// Logs what is due.
    pub(super) fn on_time(&mut self) {
        self.count_left_out(Some(Instant::now()));
    }

    /// Logs what would be due later. Where it is dropped, it does so by itself.
    pub(super) fn at_end(&mut self) {
        self.count_left_out(None);
    }

    fn count_left_out(&mut self, by: Option<Instant>) {
        for (line, left_out) in self.members.take(by) {
            log_left_out(line, &left_out);
        }
    }

    pub(super) fn record(&mut self, event: &Event) {
        let now = Instant::now();
        match event {
            Event::Founded => info!(target: TARGET, "founded a cluster"),
            Event::Joined { from } => info!(target: TARGET, %from, "joined"),
            Event::StartedOver { with } => {
                warn!(target: TARGET, %with, "met another cluster, which stays: joining it");
            }
            Event::Member { id, was, is } => {
                let line = MemberLine::of(*was, *is);
                if let Some(left_out) = self.members.admit(now, line, id.addr) {
                    log_member(line, id, &left_out);
                }
            }
            Event::Rejoined => {
                if let Some(left_out) = self.rejoined.admit_each(LASTING_EVERY, now) {
                    warn!(target: TARGET, left_out, "others held this node down, as where it \
                        stalls or another node has its address; it is back under a new rank");
                }
            }
            Event::Contended { id, before } => {
                if let Some(left_out) = self.contended.admit_each(LASTING_EVERY, now) {
                    warn!(target: TARGET, member = %id, %before, left_out, "an earlier run of a \
                        member is back: another node has the same address, or its clock was set \
                        back");
                }
            }
            Event::Unlinked { .. }
            | Event::Linked { .. }
            | Event::Alone
            | Event::NoLongerAlone
            | Event::LinkOpen { .. }
            | Event::LinkClosed { .. } => Self::log_link(event),
            Event::Stale { .. } | Event::CaughtUp { .. } => self.log_stale(now, event),
            Event::Gap { .. } | Event::StateTakenOver { .. } => self.log_gap(now, event),
            Event::VersionMismatch { addr, oldest, newest } => {
                if let Some(left_out) = self.versions.admit(now) {
                    warn!(target: TARGET, peer = %addr, oldest, newest, left_out,
                        "speaks other versions of the protocol; no link");
                }
            }
            // Once a minute at most.
            Event::DebtRefused { from } => {
                warn!(target: TARGET, peer = %from, "reports more of a key than it can owe by this \
                    node's limits: do all nodes have the same?");
            }
            Event::Violation { addr } => {
                if let Some(left_out) = self.violations.admit(now) {
                    let peer = addr.map_or_else(|| "unknown".to_owned(), |addr| addr.to_string());
                    warn!(target: TARGET, peer, left_out, "broke the protocol; link closed");
                }
            }
            Event::LeftOut { count } => warn!(target: TARGET, count, "events left out"),
        }
    }

    /// This node was stopped, or decides again.
    fn log_stale(&mut self, now: Instant, event: &Event) {
        match event {
            Event::Stale { unseen } => {
                if let Some(left_out) = self.stale.admit(now) {
                    warn!(target: TARGET, ?unseen, left_out, "this node was stopped or starved; it \
                        catches up with the others before it decides");
                }
            }
            Event::CaughtUp { awaited: 0 } => {
                if let Some(left_out) = self.current.admit(now) {
                    info!(target: TARGET, left_out, "this node has caught up with the other nodes");
                }
            }
            Event::CaughtUp { awaited } => {
                if let Some(left_out) = self.current.admit(now) {
                    warn!(target: TARGET, awaited, left_out, "this node decides without having \
                        caught up with others");
                }
            }
            _ => {}
        }
    }

    /// A gap, or its end.
    fn log_gap(&mut self, now: Instant, event: &Event) {
        match event {
            Event::Gap { of } => {
                if let Some(left_out) = self.gaps.admit(now) {
                    warn!(target: TARGET, peer = %of, left_out, "gap: its log does not reach back; \
                        taking over its state");
                }
            }
            Event::StateTakenOver { of } => {
                if let Some(left_out) = self.caught_up.admit(now) {
                    info!(target: TARGET, peer = %of, left_out, "state taken over");
                }
            }
            _ => {}
        }
    }

    /// Links that are there, or are not.
    fn log_link(event: &Event) {
        match event {
            Event::Unlinked { addr, sends, receives, passed, all } => {
                let seconds = passed.as_secs();
                warn!(target: TARGET, peer = %addr, seconds, unlinked = all, "alive, but {}",
                    lacking(*sends, *receives));
            }
            Event::Linked { addr } => {
                info!(target: TARGET, peer = %addr, "linked again, to it and from it");
            }
            Event::Alone => {
                warn!(target: TARGET, "deciding alone: no link to any other node; are they not \
                    running, or have they another secret?");
            }
            Event::NoLongerAlone => info!(target: TARGET, "no longer alone"),
            Event::LinkOpen { addr } => debug!(target: TARGET, peer = %addr, "link open"),
            Event::LinkClosed { addr } => debug!(target: TARGET, peer = %addr, "link closed"),
            _ => {}
        }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.at_end();
    }
}

/// A member, and the lines of its kind that were left out.
fn log_member(line: MemberLine, id: &NodeId, of_kind: &LeftOut) {
    let (left_out, last) = (of_kind.lines, of_kind.last().map(display));
    if line.is_warning() {
        warn!(target: TARGET, member = %id, left_out, last, "{}", line.text());
    } else {
        info!(target: TARGET, member = %id, left_out, last, "{}", line.text());
    }
}

/// Lines about members that were left out, where none of their kind is logged.
fn log_left_out(line: MemberLine, of_kind: &LeftOut) {
    let (left_out, last) = (of_kind.lines, of_kind.last().map(display));
    if line.is_warning() {
        warn!(target: TARGET, left_out, last, "left out of the log: {}", line.text());
    } else {
        info!(target: TARGET, left_out, last, "left out of the log: {}", line.text());
    }
}

/// What a member lacks of its links, and what comes of that.
fn lacking(sends: bool, receives: bool) -> &'static str {
    match (sends, receives) {
        (false, true) => "there is no link to it: it does not count what this node admits",
        (true, false) => "there is no link from it: this node does not count what it admits",
        _ => "there is no link to it nor from it: neither counts what the other admits",
    }
}
