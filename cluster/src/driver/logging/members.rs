//! Which lines about members are logged, each kind by itself, and what is logged of the others.
//!
//! A line is one of these:
//! * The first of its address in [`FORGOTTEN_AFTER`]: it is logged while [`AT_ONCE`] of these are
//!   not exceeded, so it waits for none but those of as many other addresses.
//! * A further one, as of two nodes with one address, which join in turn for as long as both run:
//!   an address has one in [`EVERY`], and all together as many as of the former kind.
//!
//! Each that is left out is counted by the next line that is logged, or by one of its own once
//! [`EVERY`] has passed. What is kept is bounded whatever the number of members.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::throttle::Allowance;
use crate::member::MemberState;

/// Lines of one kind that come at once, as when a cluster starts; from there on each waits for
/// [`EVERY`].
const AT_ONCE: u32 = 32;
/// Between two lines of one address, and until what was left out is counted.
const EVERY: Duration = Duration::from_secs(10);
/// An address of which there was nothing to log for this long is as good as new.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);
/// Addresses that are known to have had a line of one kind, at most: the one of which there was
/// nothing to log for the longest makes room.
const MAX_KNOWN: usize = 256;
/// Addresses that are named of lines that were left out, at most: the last ones.
const MAX_NAMED: usize = 8;

/// What is logged of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MemberLine {
    Joined,
    Refuted,
    Returned,
    Suspect,
    Down,
    Left,
}

impl MemberLine {
    pub(super) fn of(was: Option<MemberState>, is: MemberState) -> Self {
        match (was, is) {
            (None, _) => Self::Joined,
            (Some(MemberState::Suspect), MemberState::Alive) => Self::Refuted,
            (_, MemberState::Alive) => Self::Returned,
            (_, MemberState::Suspect) => Self::Suspect,
            (_, MemberState::Down) => Self::Down,
            (_, MemberState::Left) => Self::Left,
        }
    }

    pub(super) fn is_warning(self) -> bool {
        matches!(self, Self::Suspect | Self::Down)
    }

    pub(super) fn text(self) -> &'static str {
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

/// Lines that were left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) lines: u64,
    pub(super) last: Last,
}

/// Their last addresses, each once; the latest one at the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Last(VecDeque<SocketAddr>);

impl LeftOut {
    fn add(&mut self, addr: SocketAddr) {
        self.lines += 1;
        let Last(last) = &mut self.last;
        last.retain(|other| *other != addr);
        if last.len() == MAX_NAMED {
            last.pop_front();
        }
        last.push_back(addr);
    }

    /// The addresses, where there are any.
    pub(super) fn last(&self) -> Option<&Last> {
        Some(&self.last).filter(|last| !last.0.is_empty())
    }
}

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, addr) in self.0.iter().enumerate() {
            write!(f, "{}{addr}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// The lines about members, each kind by itself.
#[derive(Debug, Default)]
pub(super) struct MemberLog(BTreeMap<MemberLine, Kind>);

impl MemberLog {
    /// Whether to log a line: then with those of its kind that were left out.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        line: MemberLine,
        addr: SocketAddr,
    ) -> Option<LeftOut> {
        self.0.entry(line).or_default().admit(now, addr)
    }

    /// When lines that were left out are to be counted.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().filter_map(|kind| kind.due).min()
    }

    /// Lines that were left out and are to be counted by this time; all of them without one.
    pub(super) fn take(&mut self, by: Option<Instant>) -> Vec<(MemberLine, LeftOut)> {
        let is_due = |due: Instant| by.is_none_or(|by| due <= by);
        let kinds = self.0.iter_mut().filter(|(_, kind)| kind.due.is_some_and(is_due));
        kinds.map(|(line, kind)| (*line, kind.take())).collect()
    }
}

/// Lines of one kind.
#[derive(Debug, Default)]
struct Kind {
    /// Of addresses that were not known.
    first: Allowance,
    /// Of those that were: they take nothing of what others have.
    further: Allowance,
    known: BTreeMap<SocketAddr, Known>,
    left_out: LeftOut,
    /// When that is to be counted, if it is not nothing.
    due: Option<Instant>,
}

/// An address of which there was something to log.
#[derive(Debug)]
struct Known {
    at: Instant,
    said: Allowance,
}

impl Kind {
    fn admit(&mut self, now: Instant, addr: SocketAddr) -> Option<LeftOut> {
        if self.is_said(now, addr) {
            return Some(self.take());
        }
        self.left_out.add(addr);
        self.due.get_or_insert(now + EVERY);
        None
    }

    fn is_said(&mut self, now: Instant, addr: SocketAddr) -> bool {
        if let Some(known) = self.known.get_mut(&addr) {
            let silent = now.saturating_duration_since(known.at);
            known.at = now;
            if silent < FORGOTTEN_AFTER {
                return known.said.take(EVERY, 1, now) && self.further.take(EVERY, AT_ONCE, now);
            }
        } else {
            self.make_room();
        }
        let mut known = Known { at: now, said: Allowance::default() };
        let is_said = self.first.take(EVERY, AT_ONCE, now) && known.said.take(EVERY, 1, now);
        self.known.insert(addr, known);
        is_said
    }

    fn make_room(&mut self) {
        if self.known.len() < MAX_KNOWN {
            return;
        }
        let oldest = self.known.iter().min_by_key(|(_, known)| known.at);
        if let Some(addr) = oldest.map(|(addr, _)| *addr) {
            self.known.remove(&addr);
        }
    }

    fn take(&mut self) -> LeftOut {
        self.due = None;
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests;
