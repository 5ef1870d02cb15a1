//! The engine's limiters as the protocol's [`Host`].

use std::cell::RefCell;
use std::cmp::min_by_key;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_engine::KeyHash;
use tidegate_engine::clock::Timestamp;

use super::shared::Shared;
use crate::inline;
use crate::limits::{DebtLimiter, InUse, LimitId, most_debt};
use crate::protocol::{Change, Delta, Host, Level, Nanos, ScanPosition, nanos};

/// How long reading both clocks may take; if more, the thread did not run meanwhile, and they are
/// read again, up to [`MAX_READS`] times in all: the shortest reading counts.
const MAX_READ_TIME: Nanos = 20_000;
const MAX_READS: usize = 3;

pub(super) struct Limiters {
    shared: Arc<Shared>,
    last: RefCell<Option<Last>>,
}

/// The limiter that was looked up last: most of what a step looks up is of the same one. While it
/// lives, no other one is that of its limit.
struct Last {
    limit: u64,
    limiter: Weak<dyn DebtLimiter>,
    reading: Option<Reading>,
}

/// A limiter's clock, read once for the debts of a step.
#[derive(Clone, Copy)]
struct Reading {
    /// When the step began, on the driver's clock.
    step: Nanos,
    at: Timestamp,
    /// How long after that it was read.
    since: Nanos,
}

impl Limiters {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, last: RefCell::new(None) }
    }

    fn limiter(&self, limit: u64) -> Option<InUse<'_>> {
        let limit = inline::words_of(limit);
        let mut last = self.last.borrow_mut();
        let known = last.as_ref().filter(|last| last.limit == limit);
        let known = known.and_then(|last| self.shared.limits.get_again(&last.limiter));
        if let Some(limiter) = known {
            return Some(limiter);
        }
        let limiter = self.shared.limits.get(limit)?;
        *last = Some(Last { limit, limiter: limiter.downgrade(), reading: None });
        Some(limiter)
    }

    /// A limiter, and a reading of its clock in the step that began at `now`.
    fn limiter_at(&self, now: Nanos, limit: u64) -> Option<(InUse<'_>, Reading)> {
        let limiter = self.limiter(limit)?;
        let mut last = self.last.borrow_mut();
        let last = last.as_mut()?;
        let known = last.reading.filter(|reading| reading.step == now);
        let reading = known.unwrap_or_else(|| self.read_clock(now, &*limiter));
        last.reading = Some(reading);
        Some((limiter, reading))
    }

    fn read_clock(&self, now: Nanos, limiter: &dyn DebtLimiter) -> Reading {
        let read = || {
            let (before, at, after) = (self.shared.now(), limiter.now(), self.shared.now());
            let reading = Reading { step: now, at, since: after.saturating_sub(now) };
            (after.saturating_sub(before), reading)
        };
        let mut best = read();
        for _ in 1..MAX_READS {
            if best.0 <= MAX_READ_TIME {
                break;
            }
            best = min_by_key(best, read(), |(took, _)| *took);
        }
        best.1
    }
}

impl Host for Limiters {
    fn take_recorded(&mut self, now: Nanos, most: usize, into: &mut Vec<Delta>) -> bool {
        self.shared.recorder.take(now, most, into)
    }

    fn prefetch(&self, deltas: &[Delta]) {
        for run in deltas.chunk_by(|a, b| a.limit == b.limit) {
            let Some(limiter) = self.limiter(run[0].limit) else { continue };
            for delta in run {
                limiter.prefetch(KeyHash::from_bits(delta.key));
            }
        }
    }

    fn apply(&mut self, now: Nanos, delta: Delta) -> bool {
        let known = self.limiter(delta.limit).map(Ok);
        let limiter = known.unwrap_or_else(|| self.shared.limits.get_or_change(now, delta));
        let limiter = match limiter {
            Ok(limiter) => limiter,
            Err(kept) => return kept,
        };
        let key = KeyHash::from_bits(delta.key);
        let Change { debt, date } = delta.change;
        if let Ok(debt) = u64::try_from(debt) {
            let age = now.saturating_add_signed(date.saturating_neg());
            limiter.charge(key, Duration::from_nanos(debt), Duration::from_nanos(age));
        } else {
            limiter.lower(key, Duration::from_nanos(debt.unsigned_abs()));
        }
        true
    }

    fn shift(&mut self, limit: u64, key: u64, by: i64) {
        let Some(limiter) = self.limiter(limit) else { return };
        let (key, debt) = (KeyHash::from_bits(key), Duration::from_nanos(by.unsigned_abs()));
        if by >= 0 {
            limiter.charge(key, debt, Duration::ZERO);
        } else {
            limiter.lower(key, debt);
        }
    }

    fn raise(&mut self, now: Nanos, level: Level) -> bool {
        let limiter = match self.shared.limits.get_or_raise(now, level) {
            Ok(limiter) => limiter,
            Err(kept) => return kept,
        };
        let debt = level.debt.saturating_sub(self.shared.now().saturating_sub(now));
        limiter.raise(KeyHash::from_bits(level.key), Duration::from_nanos(debt));
        true
    }

    fn debt(&mut self, now: Nanos, limit: u64, key: u64) -> Nanos {
        let Some((limiter, Reading { at, since, .. })) = self.limiter_at(now, limit) else {
            return 0;
        };
        match nanos(limiter.debt_at(KeyHash::from_bits(key), at)) {
            0 => 0,
            debt => debt.saturating_add(since),
        }
    }

    fn tolerance(&self, limit: u64) -> Option<Nanos> {
        let limiter = self.limiter(limit)?;
        Some(inline::tolerance(limit).unwrap_or_else(|| nanos(limiter.tolerance())))
    }

    fn unit(&self, limit: u64) -> Option<Nanos> {
        let limiter = self.limiter(limit)?;
        if limit == LimitId::INLINE.to_bits() {
            return None;
        }
        Some(inline::unit(limit).unwrap_or_else(|| nanos(limiter.unit())))
    }

    fn most_debt(&self, limit: u64) -> Nanos {
        most_debt(limit, self.tolerance(limit))
    }

    fn scan(&mut self, at: ScanPosition, into: &mut Vec<Level>) -> Option<ScanPosition> {
        self.shared.limits.scan(self.shared.now(), at, into)
    }
}
