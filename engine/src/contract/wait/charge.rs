//! What a line grants, and what it takes back.

use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::key::KeyHash;
use crate::rule::gcra::Time;
use crate::time::Timestamp;

/// What a line grants.
#[derive(Clone, Copy)]
pub(crate) struct Granted {
    pub(crate) key: KeyHash,
    pub(crate) decision: Decision,
    /// `None` when nothing was charged.
    pub(crate) charge: Option<Charge>,
    pub(crate) start: Start,
    /// Whether it starts later than at once.
    pub(crate) waits: bool,
}

impl Granted {
    /// A start at once that charges nothing.
    pub(crate) fn uncharged(key: KeyHash, decision: Decision, now: Timestamp) -> Self {
        let start = Start { at: now, jitter: Duration::ZERO };
        Self { key, decision, charge: None, start, waits: false }
    }
}

/// A charge of a key's word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// The time axis that it is on.
    pub(crate) time: Time,
    /// The TAT before it.
    pub(crate) before: u64,
    /// The units at its beginning that are lost, so that the rest drains no earlier than it is
    /// needed.
    pub(crate) lead: u64,
    /// The TAT after it.
    pub(crate) end: u64,
    /// The burst tolerance: it starts this long before its end.
    pub(crate) tolerance: u64,
}

/// When a caller may start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The time, with the jitter.
    pub(crate) at: Timestamp,
    pub(crate) jitter: Duration,
}

/// Units of a charge that are to be taken off a key's word.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    pub(crate) time: Time,
    pub(crate) units: u64,
    /// Where the charge ends.
    pub(crate) end: u64,
    /// Only if the word's TAT is at least this; otherwise others have lowered it.
    pub(crate) least: u64,
    /// For one that has not started: the last point in time at which that is certain.
    pub(crate) whole_until: Option<u64>,
    pub(crate) behind: Behind,
    /// The word's TAT if nothing but places is behind the charge; `None` where that is not known.
    pub(crate) last_known: Option<u64>,
    /// Only if the word's TAT is that.
    pub(crate) only_known: bool,
}

/// Units that were taken off a key's word, and when.
#[derive(Clone, Copy, Debug)]
pub struct TakenOff {
    pub(crate) units: u64,
    pub(crate) at: Timestamp,
    /// The TAT before.
    pub(crate) tat: u64,
}

/// What else may have been charged since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Only places, all of which move up, and what starts after them.
    Places,
    /// Also what has started.
    Started,
    /// What is not known, so the charge is taken back only if it is the last one.
    Unknown,
}

impl Removal {
    /// Whether units may be taken off a word with this TAT, as far as the charges behind are known.
    pub(crate) fn fits(&self, tat: u64) -> bool {
        tat >= self.least && (!self.only_known || self.last_known == Some(tat))
    }

    /// Of a charge whose list does not say what is behind it.
    pub(super) fn of_last(Charge { time, before, end, .. }: Charge) -> Self {
        let units = end.saturating_sub(before);
        let (behind, last_known) = (Behind::Unknown, Some(end));
        let (least, whole_until, only_known) = (end, None, false);
        Self { time, units, end, least, whole_until, behind, last_known, only_known }
    }

    /// What has not drained at a point in time, which is read after the word: then it is not before
    /// any start that the word counts.
    pub(crate) fn left_at(self, point: u64) -> u64 {
        match self.whole_until {
            Some(until) if point > until => 0,
            Some(_) => self.units,
            None => self.units.min(self.end.saturating_sub(point)),
        }
    }
}
