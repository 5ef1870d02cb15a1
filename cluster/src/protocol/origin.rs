//! The receiving end of frames: links that other nodes opened, and how far the deltas of each
//! origin have been applied.

use super::id::{NodeId, Origin};
use super::time::Nanos;
use super::wire::Position;

/// How long the dialler of a link may take to send `Hello`.
const HELLO_TIMEOUT: Nanos = 5_000_000_000;

/// A link that another node opened.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) hello_by: Nanos,
    pub(super) id: Option<NodeId>,
    pub(super) flow: Flow,
}

/// What the dialler of a link may send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// No frames: it has not been sent a position (`Resume`).
    NotResumed,
    /// Frames behind the position held here, which only they move.
    Frames,
    /// No frames until its state has been taken over: its log does not reach back to the position.
    Gap,
}

impl Inbound {
    pub(super) fn new(now: Nanos) -> Self {
        Self { hello_by: now.saturating_add(HELLO_TIMEOUT), id: None, flow: Flow::NotResumed }
    }

    pub(super) fn is_of(&self, origin: Origin) -> bool {
        self.id.is_some_and(|id| id.origin() == origin)
    }
}

/// How far the deltas of an origin are contained in this node's words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Applied {
    pub(super) position: Position,
    /// The last frame left deltas of its batches to the next one.
    pub(super) split: bool,
}

impl Applied {
    /// The origin's entry in a version vector. No node could continue behind a part of a set of
    /// deltas; the origin answers this entry with a gap.
    pub(super) fn entry(&self) -> Position {
        let through = if self.split { u64::MAX } else { self.position.through };
        Position { seq: 0, through }
    }
}
