//! When what the host has recorded was drained, and what of it is to be sealed yet.

use super::delta::Delta;
use super::time::Nanos;

#[derive(Debug)]
pub(super) struct Drains {
    /// When the last drain began.
    began: Nanos,
    /// When the one before began, while the last one is not over.
    before: Option<Nanos>,
    /// What was drained before a flush was due, which seals it, and since when it was recorded.
    ahead: Vec<Delta>,
    since: Nanos,
    /// No more is drained ahead before this.
    ahead_at: Nanos,
    /// The drain that is not over was begun ahead.
    is_begun_ahead: bool,
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
        Self {
            began: now,
            before: None,
            ahead: Vec::new(),
            since: now,
            ahead_at: now,
            is_begun_ahead: false,
        }
    }

    /// Whether all that was recorded before the last drain began has been drained.
    pub(super) fn is_over(&self) -> bool {
        self.before.is_none()
    }

    /// Whether all that was drained has been given to be sealed, by a drain that is over.
    pub(super) fn is_sealed(&self) -> bool {
        self.is_over() && self.ahead.is_empty()
    }

    /// Whether the last drain was begun before a flush was due, and was not over then.
    pub(super) fn is_begun_ahead(&self) -> bool {
        self.is_begun_ahead
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
            self.is_begun_ahead = false;
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

    /// How much was drained ahead, and is not sealed.
    pub(super) fn ahead(&self) -> usize {
        self.ahead.len()
    }

    /// Keeps what was drained before a flush was due.
    pub(super) fn keep_ahead(&mut self, drained: Drained) {
        self.is_begun_ahead |= !self.is_over();
        if self.ahead.is_empty() {
            self.since = drained.span.0;
        }
        self.ahead.extend(drained.deltas);
    }

    /// Adds what was drained ahead to what a flush has drained, a key once.
    pub(super) fn add_ahead_to(&mut self, drained: &mut Drained) {
        if self.ahead.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.ahead);
        all.append(&mut drained.deltas);
        // Stable, so what was drained first is first.
        all.sort_by_key(Delta::id);
        all.dedup_by(|later, first| {
            let is_same = later.id() == first.id();
            if is_same {
                first.change = first.change.then(later.change);
            }
            is_same
        });
        *drained = Drained { span: (self.since, drained.span.1), deltas: all };
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::Change;
    use super::*;

    fn drained(span: (Nanos, Nanos), changes: &[(u64, i64, i64)]) -> Drained {
        let delta = |&(key, debt, date)| Delta { limit: 1, key, change: Change::new(debt, date) };
        Drained { span, deltas: changes.iter().map(delta).collect() }
    }

    #[test]
    fn what_was_drained_ahead_is_sealed_with_the_next_flush_each_key_once() {
        let mut drains = Drains::new(5);
        assert!(drains.may_go_ahead(10, 2) && !drains.may_go_ahead(11, 2));
        drains.begin(10);
        drains.end();
        drains.keep_ahead(drained((5, 10), &[(7, 30, 8), (9, 1, 6)]));
        drains.begin(11);
        assert_eq!((drains.until(), drains.is_over()), (10, false));
        drains.keep_ahead(drained((10, 11), &[(7, -10, 11)]));
        assert!(drains.is_begun_ahead() && !drains.is_sealed());
        drains.end();
        assert_eq!((drains.ahead(), drains.until()), (3, 11));
        let mut flushed = drained((11, 15), &[(7, 5, 12), (8, 2, 13)]);
        drains.begin(15);
        assert!(!drains.is_begun_ahead());
        drains.end();
        drains.add_ahead_to(&mut flushed);
        assert_eq!((flushed.span, flushed.at()), ((5, 15), 15));
        let of = |key| flushed.deltas.iter().filter(move |delta| delta.key == key);
        assert_eq!(of(7).map(|delta| delta.change).collect::<Vec<_>>(), [Change::new(25, 8)]);
        assert_eq!(flushed.deltas.iter().map(|delta| delta.key).collect::<Vec<_>>(), [7, 8, 9]);
        assert!(drains.is_sealed() && drains.may_go_ahead(12, 2));
    }
}
