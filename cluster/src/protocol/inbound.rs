//! The receiving end of frames: links that other nodes opened, and how far the deltas of each
//! origin have been applied.

use std::collections::{BTreeMap, VecDeque};

use super::bounds::VERSION;
use super::change::Change;
use super::delta::KeyId;
use super::host::Level;
use super::id::{NodeId, Origin};
use super::subject::Subject;
use super::time::{Nanos, SECOND};
use super::wire::{Message, Position};

/// How long the dialler of a link may take to send `Hello`.
const HELLO_TIMEOUT: Nanos = 5_000_000_000;

/// How a change came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dating {
    /// As what was consumed between two flushes.
    InBatch,
    /// As all that a peer missed of a key, which may have drained several times meanwhile: its date
    /// says when the last of it was consumed, as if all before had been right before that.
    InPart,
}

/// A link that another node opened.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) hello_by: Nanos,
    /// The version that both speak.
    pub(super) version: u16,
    pub(super) subject: Subject,
    pub(super) id: Option<NodeId>,
    pub(super) flow: Flow,
    /// Its dialler has sent its clock, as it does once frames flow.
    pub(super) has_sent_clock: bool,
    /// Batches that were applied and not acknowledged, and when they are to be.
    pub(super) unacked: u32,
    pub(super) ack_at: Option<Nanos>,
    /// Messages that wait until the dialler's clock is read, with their times in transit, and when
    /// it is.
    pub(super) early: VecDeque<(Nanos, Message)>,
    pub(super) settled_at: Option<Nanos>,
}

/// What the dialler of a link may send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// No frames: it has not been sent a position (`Resume`).
    NotResumed,
    /// Frames after the position held here, which only they move.
    Frames,
    /// No frames until its state has been taken over: its log does not reach back to the position.
    Gap,
}

impl Inbound {
    pub(super) fn new(now: Nanos, subject: Subject) -> Self {
        let hello_by = now.saturating_add(HELLO_TIMEOUT);
        Self {
            hello_by,
            version: VERSION,
            subject,
            id: None,
            flow: Flow::NotResumed,
            has_sent_clock: false,
            unacked: 0,
            ack_at: None,
            early: VecDeque::new(),
            settled_at: None,
        }
    }

    /// When its dialler is to have greeted, to be acknowledged, or its clock is read.
    pub(super) fn due(&self) -> Option<Nanos> {
        if self.id.is_none() {
            return Some(self.hello_by);
        }
        self.ack_at.into_iter().chain(self.settled_at).min()
    }

    pub(super) fn is_of(&self, origin: Origin) -> bool {
        self.id.is_some_and(|id| id.origin() == origin)
    }
}

/// How far the deltas of an origin are contained in this node's words.
#[derive(Clone, Debug, Default)]
pub(super) struct Applied {
    pub(super) position: Position,
    /// Changes that came late, held back until the origin has caught up: by word, with the limit
    /// whose id says most of those under which it was used.
    pub(super) late: BTreeMap<KeyId, (u64, Change)>,
    /// When the last of them came.
    pub(super) late_at: Nanos,
    /// When this node last received something of the origin, from it or in a state.
    pub(super) received_at: Nanos,
}

impl Applied {
    pub(super) fn at(now: Nanos, through: u64) -> Self {
        let position = Position { through, missed: None };
        Self { position, received_at: now, ..Self::default() }
    }

    /// Whether these words contain a part of a set of batches, or not yet all of them.
    pub(super) fn is_torn(&self) -> bool {
        self.position.missed.is_some() || !self.late.is_empty()
    }

    /// The origin's entry in a version vector. No node could continue after a part of a set of
    /// batches; the origin answers this entry with a gap.
    pub(super) fn entry(&self) -> u64 {
        if self.is_torn() { u64::MAX } else { self.position.through }
    }
}

/// How long the rest is waited for after the last part.
const REST_WAIT: Nanos = 10 * SECOND;
/// For how long all together are waited for, at most: where bytes are capped a backlog takes
/// minutes.
const RESTS_WAIT: Nanos = 300 * SECOND;
/// How often that is.
const RESTS_WAIT_EVERY: Nanos = 600 * SECOND;

/// For how long the rest of what words contain in part is waited for.
#[derive(Debug, Default)]
pub(super) struct TornWait {
    since: Option<Nanos>,
    part_at: Nanos,
}

impl TornWait {
    /// Words are torn.
    pub(super) fn begin(&mut self, now: Nanos) {
        if self.since.is_none_or(|since| since.saturating_add(RESTS_WAIT_EVERY) <= now) {
            *self = Self { since: Some(now), part_at: now };
        }
    }

    /// A part has arrived, and more is to come.
    pub(super) fn note_part(&mut self, now: Nanos) {
        self.begin(now);
        self.part_at = now;
    }

    /// Whether torn words count as whole.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        let Some(since) = self.since else { return false };
        let (rest, all) =
            (self.part_at.saturating_add(REST_WAIT), since.saturating_add(RESTS_WAIT));
        rest.min(all) <= now
    }
}

/// Levels of another node that wait to be compared.
#[derive(Debug)]
pub(super) struct PendingLevels {
    /// The batch that they came with.
    pub(super) number: u64,
    /// When they were read, on this node's clock.
    pub(super) at: i64,
    /// When they arrived.
    pub(super) since: Nanos,
    pub(super) cut: Vec<(Origin, u64)>,
    pub(super) levels: Vec<Level>,
}
