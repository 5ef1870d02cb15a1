//! When what the host has recorded was drained, and what of it is to be sealed yet.

use super::delta::Delta;
use super::time::Nanos;

#[derive(Debug)]
pub(super) struct Drains {
    /// When the last drain began.
    began: Nanos,
    /// When the one before began, while the last one is not over.
    before: Option<Nanos>,
    /// What was drained before a flush was due, which seals it.
    ahead: Vec<Drained>,
    /// No more is drained ahead before this.
    ahead_at: Nanos,
}

/// What was recorded, and in which time: up to the beginning of the drain.
#[derive(Debug)]
pub(super) struct Drained {
    pub(super) span: (Nanos, Nanos),
    pub(super) deltas: Vec<Delta>,
}

impl Drained {
    /// When the drain, or this part of it, began.
    pub(super) fn at(&self) -> Nanos {
        self.span.1
    }
}

impl Drains {
    pub(super) fn new(now: Nanos) -> Self {
        Self { began: now, before: None, ahead: Vec::new(), ahead_at: now }
    }

    /// Whether a drain that has begun takes all that was recorded before: it is over.
    pub(super) fn is_over(&self) -> bool {
        self.before.is_none()
    }

    /// Whether all that was drained has been given to be sealed, by a drain that is over.
    pub(super) fn is_sealed(&self) -> bool {
        self.is_over() && self.ahead.is_empty()
    }

    /// All that was recorded before this has been drained.
    pub(super) fn until(&self) -> Nanos {
        self.before.unwrap_or(self.began)
    }

    /// A drain begins, or goes on.
    pub(super) fn begin(&mut self, now: Nanos) {
        if self.before.is_none() {
            self.before = Some(self.began);
            self.began = now;
        }
    }

    /// The drain is over.
    pub(super) fn end(&mut self) {
        self.before = None;
    }

    /// Whether something may be drained ahead; if so, not again for this long.
    pub(super) fn may_go_ahead(&mut self, now: Nanos, every: Nanos) -> bool {
        let may = self.ahead_at <= now;
        if may {
            self.ahead_at = now.saturating_add(every);
        }
        may
    }

    pub(super) fn keep_ahead(&mut self, drained: Drained) {
        self.ahead.push(drained);
    }

    pub(super) fn take_ahead(&mut self) -> Vec<Drained> {
        std::mem::take(&mut self.ahead)
    }
}
