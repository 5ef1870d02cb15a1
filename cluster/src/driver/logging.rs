//! What the cluster logs for an operator, by `tracing`, with the target `tidegate_cluster`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::member::MemberState;
use crate::protocol::{Event, NodeId};

pub(super) const TARGET: &str = "tidegate_cluster";
/// Between two lines of what others can cause as often as they like.
const THROTTLED_EVERY: Duration = Duration::from_secs(1);
/// Between two lines of what goes on until an operator mends it.
const LASTING_EVERY: Duration = Duration::from_secs(10);

/// Lines of one kind about members that come at once, as when a cluster starts; from there on each
/// waits for [`LASTING_EVERY`], as two nodes with one address join in turn for as long as both run.
const MEMBERS_AT_ONCE: u32 = 32;

/// Lets one line through a second, and counts the others.
#[derive(Debug, Default)]
pub(super) struct LogThrottle {
    /// Until when the lines that were let through are made up for.
    until: Option<Instant>,
    left_out: u64,
}

impl LogThrottle {
    /// Whether to log it: then with how many were left out since the last time.
    pub(super) fn admit(&mut self, now: Instant) -> Option<u64> {
        self.admit_each(THROTTLED_EVERY, now)
    }

    fn admit_each(&mut self, every: Duration, now: Instant) -> Option<u64> {
        self.admit_some(every, 1, now)
    }

    /// Lets `most` lines through at once, and one more for each time that passes.
    fn admit_some(&mut self, every: Duration, most: u32, now: Instant) -> Option<u64> {
        let until = self.until.map_or(now, |until| until.max(now)) + every;
        if until.saturating_duration_since(now) > every * most {
            self.left_out += 1;
            return None;
        }
        self.until = Some(until);
        Some(std::mem::take(&mut self.left_out))
    }
}

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
    pub(super) fn record(&mut self, event: &Event) {
        let now = Instant::now();
        match event {
            Event::Founded => info!(target: TARGET, "founded a cluster"),
            Event::Joined { from } => info!(target: TARGET, %from, "joined"),
            Event::StartedOver { with } => {
                warn!(target: TARGET, %with, "met a cluster that was founded first; joining it");
            }
            Event::Member { id, was, is } => self.members.record(now, id, *was, *is),
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
            Event::Stale { unseen } => {
                if let Some(left_out) = self.stale.admit(now) {
                    warn!(target: TARGET, ?unseen, left_out, "was stopped or starved; catching up \
                        with the other nodes before it decides");
                }
            }
            Event::Current { awaited: 0 } => {
                if let Some(left_out) = self.current.admit(now) {
                    info!(target: TARGET, left_out, "has caught up with the other nodes");
                }
            }
            Event::Current { awaited } => {
                if let Some(left_out) = self.current.admit(now) {
                    warn!(target: TARGET, awaited, left_out, "decides without having caught up \
                        with others");
                }
            }
            Event::Gap { .. } | Event::CaughtUp { .. } => self.log_gap(now, event),
            Event::Version { addr, oldest, newest } => {
                if let Some(left_out) = self.versions.admit(now) {
                    warn!(target: TARGET, peer = %addr, oldest, newest, left_out,
                        "speaks other versions of the protocol; no link");
                }
            }
            // Once a minute at most.
            Event::Refused { from } => warn!(target: TARGET, peer = %from, "reports more of a key \
                than it can owe by this node's limits: do all nodes have the same?"),
            Event::Violation { addr } => {
                if let Some(left_out) = self.violations.admit(now) {
                    let peer = addr.map_or_else(|| "unknown".to_owned(), |addr| addr.to_string());
                    warn!(target: TARGET, peer, left_out, "broke the protocol; link closed");
                }
            }
            Event::LeftOut { count } => warn!(target: TARGET, count, "events left out"),
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
            Event::CaughtUp { of } => {
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

/// What a member lacks of its links, and what comes of that.
fn lacking(sends: bool, receives: bool) -> &'static str {
    match (sends, receives) {
        (false, true) => "there is no link to it: it does not count what this node admits",
        (true, false) => "there is no link from it: this node does not count what it admits",
        _ => "there is no link to it nor from it: neither counts what the other admits",
    }
}

/// What is said of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MemberLine {
    Joined,
    Refuted,
    Returned,
    Suspect,
    Down,
    Left,
}

impl MemberLine {
    fn of(was: Option<MemberState>, is: MemberState) -> Self {
        match (was, is) {
            (None, _) => Self::Joined,
            (Some(MemberState::Suspect), MemberState::Alive) => Self::Refuted,
            (_, MemberState::Alive) => Self::Returned,
            (_, MemberState::Suspect) => Self::Suspect,
            (_, MemberState::Down) => Self::Down,
            (_, MemberState::Left) => Self::Left,
        }
    }

    fn is_warning(self) -> bool {
        matches!(self, Self::Suspect | Self::Down)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Joined => "member joined",
            Self::Refuted => "member refuted the suspicion",
            Self::Returned => "member returned",
            Self::Suspect => "member suspect: it does not answer",
            Self::Down => "member down",
            Self::Left => "member left",
        }
    }
}

/// One throttle for each kind of line about members.
#[derive(Debug, Default)]
struct MemberLog(BTreeMap<MemberLine, LogThrottle>);

impl MemberLog {
    fn record(&mut self, now: Instant, id: &NodeId, was: Option<MemberState>, is: MemberState) {
        let line = MemberLine::of(was, is);
        let Some(left_out) = self.admit(now, line) else { return };
        if line.is_warning() {
            warn!(target: TARGET, member = %id, left_out, "{}", line.text());
        } else {
            info!(target: TARGET, member = %id, left_out, "{}", line.text());
        }
    }

    fn admit(&mut self, now: Instant, line: MemberLine) -> Option<u64> {
        self.0.entry(line).or_default().admit_some(LASTING_EVERY, MEMBERS_AT_ONCE, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_and_a_count_of_the_others() {
        let mut throttle = LogThrottle::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let said: Vec<_> = [0, 1, 500, 999, 1_000, 1_500, 3_000]
            .into_iter()
            .filter_map(|millis| throttle.admit(at(millis)).map(|left_out| (millis, left_out)))
            .collect();
        assert_eq!(said, [(0, 0), (1_000, 3), (3_000, 1)]);
    }

    /// Three times a second one of two processes with the same address joins.
    #[test]
    fn members_that_join_in_turn_are_logged_ever_less_and_others_at_once() {
        let (mut log, start) = (MemberLog::default(), Instant::now());
        let mut joined = |second: u64, ms| {
            let at = start + Duration::from_millis(second * 1_000 + ms);
            log.admit(at, MemberLine::of(None, MemberState::Alive))
        };
        let said: Vec<_> =
            (0..600).flat_map(|s| [0, 300, 600].map(|ms| (s, joined(s, ms)))).collect();
        let lines = |from, to| {
            let within = said.iter().filter(|(second, _)| (from..to).contains(second));
            within.filter_map(|(_, said)| *said).collect::<Vec<u64>>()
        };
        assert_eq!(lines(0, 10), [0; MEMBERS_AT_ONCE as usize - 2], "a cluster starts");
        assert!(lines(20, 600).len() <= 59, "{:?}", lines(20, 600));
        assert!(lines(60, 600).iter().all(|left_out| *left_out == 29), "{:?}", lines(60, 600));
        let down = MemberLine::of(Some(MemberState::Alive), MemberState::Down);
        assert_eq!(log.admit(start, down), Some(0));
    }
}
