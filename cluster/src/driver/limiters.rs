//! The engine's limiters as the protocol's [`Host`].

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::KeyHash;

use super::shared::Shared;
use crate::inline;
use crate::limits::{LimitId, Words, most_debt};
use crate::protocol::{Change, Delta, Host, Level, Nanos, Part, nanos};

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

    fn raise(&mut self, level: Level) -> bool {
        let words = match self.0.limits.get_or_raise(self.0.now(), level) {
            Ok(words) => words,
            Err(kept) => return kept,
        };
        words.raise(KeyHash::from_bits(level.key), Duration::from_nanos(level.debt));
        true
    }

    fn debt(&mut self, limit: u64, key: u64) -> Nanos {
        self.words(limit).map_or(0, |words| nanos(words.debt(KeyHash::from_bits(key))))
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
