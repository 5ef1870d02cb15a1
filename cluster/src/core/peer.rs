//! A node that this one dials.

use super::queue::Queue;
use super::wire::Position;
use super::{LinkId, Nanos};

/// A node that is dialled.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) seed: bool,
    pub(super) dial: Dial,
    pub(super) attempts: u32,
    /// Its life, once it has said so.
    pub(super) generation: Option<u64>,
    pub(super) queue: Option<Queue>,
    /// Where the peer wants to continue, kept until this node has joined.
    pub(super) resume: Option<(Option<Position>, bool)>,
    pub(super) down_since: Option<Nanos>,
    pub(super) announce_at: Nanos,
}

/// How far the link to it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dial {
    Waiting { until: Nanos },
    Dialling { link: LinkId },
    Open { link: LinkId, welcomed: bool, flowing: bool },
}

impl Peer {
    pub(super) fn seed(now: Nanos) -> Self {
        Self { seed: true, ..Self::met(now) }
    }

    pub(super) fn met(now: Nanos) -> Self {
        Self {
            seed: false,
            dial: Dial::Waiting { until: now },
            attempts: 0,
            generation: None,
            queue: None,
            resume: None,
            down_since: None,
            announce_at: 0,
        }
    }

    pub(super) fn queue(&self) -> Option<&Queue> {
        self.queue.as_ref()
    }

    pub(super) fn queue_mut(&mut self) -> Option<&mut Queue> {
        self.queue.as_mut()
    }

    pub(super) fn open_link(&self) -> Option<LinkId> {
        match self.dial {
            Dial::Open { link, .. } => Some(link),
            _ => None,
        }
    }

    /// The link on which the peer has told who it is.
    pub(super) fn welcomed_link(&self) -> Option<LinkId> {
        match self.dial {
            Dial::Open { link, welcomed: true, .. } => Some(link),
            _ => None,
        }
    }

    pub(super) fn generation(&self) -> Option<u64> {
        self.generation
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.open_link().is_none() || self.queue.as_ref().is_none_or(Queue::is_empty)
    }

    pub(super) fn link(&self) -> Option<LinkId> {
        match self.dial {
            Dial::Dialling { link } | Dial::Open { link, .. } => Some(link),
            Dial::Waiting { .. } => None,
        }
    }
}
