//! The engine's limiters as the protocol's [`Host`].

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::KeyHash;

use super::shared::Shared;
use crate::inline;
use crate::limits::{LimitId, Words, most_debt};
use crate::protocol::{Change, Delta, Host, Level, Nanos, Part, nanos};

/// How long reading a debt and the time may take; if more, the thread did not run meanwhile, and
/// both are read again, for [`MAX_READS`] timed readings at most.
const MAX_READ_TIME: Nanos = 20_000;
const MAX_READS: usize = 3;

pub(super) struct Limiters(Arc<Shared>);

impl Limiters {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    fn words(&self, limit: u64) -> Option<Arc<dyn Words>> {
        self.0.limits.get(limit)
    }
}

impl Host for Limiters {
    fn take_recorded(&mut self, _: Nanos, most: usize, into: &mut Vec<Delta>) -> bool {
        self.0.recorder.take(most, into)
    }

    fn apply(&mut self, now: Nanos, delta: Delta) -> bool {
        let words = match self.0.limits.get_or_change(now, delta) {
            Ok(words) => words,
            Err(kept) => return kept,
        };
        let key = KeyHash::from_bits(delta.key);
        let Change { debt, date } = delta.change;
        if let Ok(debt) = u64::try_from(debt) {
            let age = now.saturating_add_signed(date.saturating_neg());
            words.charge(key, Duration::from_nanos(debt), Duration::from_nanos(age));
        } else {
            words.lower(key, Duration::from_nanos(debt.unsigned_abs()));
        }
        true
    }

    fn shift(&mut self, limit: u64, key: u64, by: i64) {
        let Some(words) = self.words(limit) else { return };
        let (key, debt) = (KeyHash::from_bits(key), Duration::from_nanos(by.unsigned_abs()));
        if by >= 0 {
            words.charge(key, debt, Duration::ZERO);
        } else {
            words.lower(key, debt);
        }
    }

    fn raise(&mut self, now: Nanos, level: Level) -> bool {
        let words = match self.0.limits.get_or_raise(now, level) {
            Ok(words) => words,
            Err(kept) => return kept,
        };
        let debt = level.debt.saturating_sub(self.0.now().saturating_sub(now));
        words.raise(KeyHash::from_bits(level.key), Duration::from_nanos(debt));
        true
    }

    fn debt(&mut self, now: Nanos, limit: u64, key: u64) -> Nanos {
        let Some(words) = self.words(limit) else { return 0 };
        let key = KeyHash::from_bits(key);
        let mut before = self.0.now();
        for _ in 0..MAX_READS {
            let debt = nanos(words.debt(key));
            let after = self.0.now();
            if debt == 0 {
                return 0;
            }
            if after.saturating_sub(before) <= MAX_READ_TIME {
                return debt.saturating_add(after.saturating_sub(now));
            }
            before = after;
        }
        nanos(words.debt(key)).saturating_add(self.0.now().saturating_sub(now))
    }

    fn tolerance(&self, limit: u64) -> Option<Nanos> {
        let words = self.words(limit)?;
        Some(inline::tolerance(limit).unwrap_or_else(|| nanos(words.tolerance())))
    }

    fn unit(&self, limit: u64) -> Option<Nanos> {
        let words = self.words(limit)?;
        if limit == LimitId::INLINE.to_bits() {
            return None;
        }
        Some(inline::unit(limit).unwrap_or_else(|| nanos(words.unit())))
    }

    fn most_debt(&self, limit: u64) -> Nanos {
        most_debt(limit, self.tolerance(limit))
    }

    fn live(&mut self, at: Part, into: &mut Vec<Level>) -> Option<Part> {
        self.0.limits.live(self.0.now(), at, into)
    }
}
