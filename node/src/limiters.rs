//! The limiters of a node.

use std::sync::Arc;

use tidegate_engine::clock::TscClock;
use tidegate_engine::{BuildError, KeyHasher, Limiter, OverflowPolicy, Quota};

use crate::config::LimitConfig;

/// The capacity of each limit, in keys. The memory of unused slots is only reserved.
pub const KEYS_PER_LIMIT: usize = 1 << 20;

/// The limiters of a node.
#[derive(Debug)]
pub struct Limiters {
    pub named: Vec<(String, Arc<Limiter>)>,
    /// Decides for all limits given with a call: their keys are one namespace, for any quota.
    pub inline: Arc<Limiter>,
}

impl Limiters {
    /// # Errors
    /// When a quota cannot be enforced or the memory cannot be allocated.
    pub fn build(limits: &[LimitConfig], hasher: &KeyHasher) -> Result<Self, BuildError> {
        let clock = TscClock::new();
        let build = |quota, overflow| {
            let limiter =
                Limiter::builder(quota).capacity(KEYS_PER_LIMIT).overflow_policy(overflow);
            limiter.hasher(hasher.clone()).clock(clock.clone()).build().map(Arc::new)
        };
        let named = limits
            .iter()
            .map(|limit| Ok((limit.name.clone(), build(limit.quota, limit.overflow)?)));
        Ok(Self {
            named: named.collect::<Result<_, BuildError>>()?,
            // One unit a second makes the limiter count in whole nanoseconds.
            inline: build(Quota::per_second(1), OverflowPolicy::default())?,
        })
    }
}
