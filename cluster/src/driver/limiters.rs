//! The engine's limiters as the protocol's [`Host`].

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::{Clock, KeyHash, Limiter};

use super::shared::Shared;
use crate::limits::{LimitId, Limits};
use crate::protocol::{Delta, Host, Nanos, nanos};

pub(super) struct Limiters {
    limits: Limits,
    shared: Arc<Shared>,
}

impl Limiters {
    pub(super) fn new(limits: Limits, shared: Arc<Shared>) -> Self {
        Self { limits, shared }
    }

    fn limiter(&self, delta: Delta) -> Option<&Limiter> {
        self.limits.get(LimitId::from_bits(delta.limit))
    }
}

impl Host for Limiters {
    fn take_recorded(&mut self, into: &mut Vec<Delta>) {
        self.shared.recorder.take(into);
    }

    fn charge(&mut self, delta: Delta, age: Nanos) -> bool {
        let Some(limiter) = self.limiter(delta) else { return false };
        let at = limiter.clock().now().saturating_sub(Duration::from_nanos(age));
        limiter.charge_debt(KeyHash::from_bits(delta.key), Duration::from_nanos(delta.debt), at);
        true
    }

    fn raise(&mut self, delta: Delta) -> bool {
        let Some(limiter) = self.limiter(delta) else { return false };
        limiter.raise_debt(KeyHash::from_bits(delta.key), Duration::from_nanos(delta.debt));
        true
    }

    fn live(&mut self) -> Vec<Delta> {
        let of_limit = |(id, limiter): (LimitId, &Limiter)| -> Vec<Delta> {
            let limit = id.to_bits();
            let delta = |(key, debt): (KeyHash, Duration)| Delta {
                limit,
                key: key.to_bits(),
                debt: nanos(debt),
            };
            limiter.live().map(delta).collect()
        };
        self.limits.iter().flat_map(of_limit).collect()
    }
}
