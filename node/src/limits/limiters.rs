//! The limiters of a node.

use std::sync::Arc;

use tidegate_cluster::LimitId;
use tidegate_engine::clock::TscClock;
use tidegate_engine::{KeyHasher, OverflowPolicy, Quota};

use crate::config::file::LimitConfig;
use crate::limits::gossip::{Gossip, Limiter};

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
    /// The limiters of the configured limits, which are those of the cluster if there is one.
    ///
    /// # Errors
    /// One line, when a quota cannot be enforced or the memory cannot be allocated.
    pub fn build(
        limits: &[LimitConfig],
        gossip: &Gossip,
        hasher: &KeyHasher,
    ) -> Result<Self, String> {
        let clock = TscClock::new();
        let build = |id, quota, overflow| {
            // What comes with its quota is recorded with it, by the service.
            let recording = if id == LimitId::INLINE { None } else { gossip.recording(id) };
            let builder = tidegate_engine::Limiter::builder(quota)
                .capacity(KEYS_PER_LIMIT)
                .overflow_policy(overflow)
                .hasher(hasher.clone())
                .clock(clock.clone())
                .observer(recording);
            let limiter = builder.build().map(Arc::new);
            let limiter = limiter.map_err(|error| format!("limits cannot be made: {error}"))?;
            gossip.attach(id, &limiter)?;
            Ok::<_, String>(limiter)
        };
        let named = limits.iter().map(|limit| {
            let id = LimitId::named(&limit.name);
            Ok((limit.name.clone(), build(id, limit.quota, limit.overflow)?))
        });
        Ok(Self {
            named: named.collect::<Result<_, String>>()?,
            // One unit a second makes the limiter count in whole nanoseconds.
            inline: build(LimitId::INLINE, Quota::per_second(1), OverflowPolicy::default())?,
        })
    }
}
