//! The engine's limiters as the protocol's [`Host`].

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::rule::MAX_BURST_TOLERANCE;
use tidegate_engine::{Clock, KeyHash, Limiter};

use super::shared::Shared;
use crate::limits::{LimitId, Limits};
use crate::protocol::{Change, Delta, Host, Level, Nanos, Part, nanos};

/// What a key can owe for what one node tells, in burst tolerances: charges after the fact may go
/// beyond the burst.
const MAX_TOLERANCES: u64 = 16;

pub(super) struct Limiters {
    limits: Limits,
    shared: Arc<Shared>,
}

impl Limiters {
    pub(super) fn new(limits: Limits, shared: Arc<Shared>) -> Self {
        Self { limits, shared }
    }

    fn limiter(&self, limit: u64) -> Option<&Limiter> {
        self.limits.get(LimitId::from_bits(limit))
    }
}

impl Host for Limiters {
    fn take_recorded(&mut self, _: Nanos, into: &mut Vec<Delta>) {
        self.shared.recorder.take(into);
    }

    fn apply(&mut self, now: Nanos, delta: Delta) -> bool {
        let Some(limiter) = self.limiter(delta.limit) else { return false };
        let key = KeyHash::from_bits(delta.key);
        let Change { debt, date } = delta.change;
        if let Ok(debt) = u64::try_from(debt) {
            let age = now.saturating_add_signed(date.saturating_neg());
            let at = limiter.clock().now().saturating_sub(Duration::from_nanos(age));
            limiter.charge_debt(key, Duration::from_nanos(debt), at);
        } else {
            limiter.lower_debt(key, Duration::from_nanos(debt.unsigned_abs()));
        }
        true
    }

    fn shift(&mut self, limit: u64, key: u64, by: i64) {
        let Some(limiter) = self.limiter(limit) else { return };
        let (key, debt) = (KeyHash::from_bits(key), Duration::from_nanos(by.unsigned_abs()));
        if by >= 0 {
            limiter.charge_debt(key, debt, limiter.clock().now());
        } else {
            limiter.lower_debt(key, debt);
        }
    }

    fn raise(&mut self, level: Level) -> bool {
        let Some(limiter) = self.limiter(level.limit) else { return false };
        limiter.raise_debt(KeyHash::from_bits(level.key), Duration::from_nanos(level.debt));
        true
    }

    fn debt(&mut self, limit: u64, key: u64) -> Nanos {
        self.limiter(limit).map_or(0, |limiter| nanos(limiter.debt(KeyHash::from_bits(key))))
    }

    fn tolerance(&self, limit: u64) -> Option<Nanos> {
        let quota = self.limiter(limit)?.quota();
        Some(nanos(quota.debt_of(quota.burst_size())))
    }

    fn most_debt(&self, limit: u64) -> Nanos {
        // The quotas of inline limits are not known here, but no quota takes longer to refill.
        if limit == LimitId::INLINE.to_bits() {
            return nanos(MAX_BURST_TOLERANCE);
        }
        self.tolerance(limit).map_or(0, |tolerance| tolerance.saturating_mul(MAX_TOLERANCES))
    }

    fn live(&mut self, at: Part, into: &mut Vec<Level>) -> Option<Part> {
        let Part(limit, part) = at;
        let (id, limiter) = self.limits.from(LimitId::from_bits(limit))?;
        let limit = id.to_bits();
        // A limit that was added meanwhile begins at its first part.
        let part = if limit == at.0 { part } else { 0 };
        let level = |(key, debt): (KeyHash, Duration)| Level {
            limit,
            key: key.to_bits(),
            debt: nanos(debt),
        };
        into.extend(limiter.live_part(part as usize).map(level));
        if part + 1 < limiter.live_parts() as u64 {
            Some(Part(limit, part + 1))
        } else {
            Some(Part(limit.checked_add(1)?, 0))
        }
    }
}
