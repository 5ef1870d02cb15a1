//! The one place that decides. Front-ends translate to and from it.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_engine::{
    BuildError, Decision, KeyHash, KeyHasher, Limiter, OverflowPolicy, Quota, QuotaError, TscClock,
};

use crate::config::LimitConfig;
use crate::gossip::{Gossip, LimitId};
use crate::metrics::{DecisionMetrics, FrontEndName, Metrics};

/// The longest key, in bytes; the shortest is one byte.
pub const MAX_KEY_BYTES: usize = 1024;
/// Keys that fit at once in each limit. The memory of keys that never come is only reserved.
pub const KEYS_PER_LIMIT: usize = 1 << 20;
/// What limits given with a call are called, in answers and figures.
pub const INLINE: &str = "inline";

/// The limiters of a node, before anything is connected to them.
#[derive(Debug)]
pub struct Limiters {
    pub named: Vec<(String, Arc<Limiter>)>,
    /// Decides for all limits given with a call: their keys are one namespace, whatever the quota.
    pub inline: Arc<Limiter>,
}

impl Limiters {
    /// # Errors
    /// When a quota can not be enforced or the memory is not to be had.
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

/// The service: names to limiters, decisions to figures and gossip.
#[derive(Debug)]
pub struct Service {
    named: HashMap<String, Named>,
    inline: Arc<Limiter>,
    inline_http: DecisionMetrics,
    gossip: Gossip,
    metrics: Metrics,
}

#[derive(Debug)]
struct Named {
    id: LimitId,
    limiter: Arc<Limiter>,
    http: DecisionMetrics,
}

impl Service {
    pub fn new(limiters: Limiters, gossip: Gossip) -> Self {
        let mut all = limiters.named.clone();
        all.push((INLINE.to_owned(), Arc::clone(&limiters.inline)));
        let metrics = Metrics::new(all, gossip.clone(), INLINE);
        let named = limiters.named.into_iter().map(|(name, limiter)| {
            let http = metrics.decisions(&name, FrontEndName::Http);
            let id = LimitId::named(&name);
            (name, Named { id, limiter, http })
        });
        Self {
            named: named.collect(),
            inline: limiters.inline,
            inline_http: metrics.decisions(INLINE, FrontEndName::Http),
            gossip,
            metrics,
        }
    }

    /// Decides under a quota given with the call. Counting is the caller's.
    ///
    /// # Errors
    /// When the key or the quota is out of range; nothing is charged.
    #[inline]
    pub fn check_inline(
        &self,
        quota: &Quota,
        key: &[u8],
        cost: u64,
    ) -> Result<Decision, CheckError> {
        let key = hashed(&self.inline, key)?;
        let decision = self.inline.check_with(key, cost, quota).map_err(CheckError::Quota)?;
        self.tell(LimitId::INLINE, key, quota, &decision, cost);
        Ok(decision)
    }

    /// Decides under a quota given with the call and counts it for HTTP.
    ///
    /// # Errors
    /// As [`Service::check_inline`].
    pub fn check_inline_http(
        &self,
        quota: &Quota,
        key: &[u8],
        cost: u64,
    ) -> Result<Decision, CheckError> {
        let decision = self.check_inline(quota, key, cost)?;
        self.inline_http.count(&decision, cost);
        Ok(decision)
    }

    /// Decides under the limit of this name and counts it for HTTP; the limit's quota with it.
    ///
    /// # Errors
    /// When there is no such limit or the key is out of range; nothing is charged.
    pub fn check_named_http(
        &self,
        name: &str,
        key: &[u8],
        cost: u64,
    ) -> Result<(Decision, Quota), CheckError> {
        let limit = self.named.get(name).ok_or(CheckError::UnknownLimit)?;
        let key = hashed(&limit.limiter, key)?;
        let decision = limit.limiter.check_n(key, cost);
        let quota = limit.limiter.quota();
        self.tell(limit.id, key, &quota, &decision, cost);
        limit.http.count(&decision, cost);
        Ok((decision, quota))
    }

    pub fn gossip(&self) -> &Gossip {
        &self.gossip
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    #[inline]
    fn tell(&self, limit: LimitId, key: KeyHash, quota: &Quota, decision: &Decision, cost: u64) {
        if cost > 0 && decision.is_allowed() {
            self.gossip.record(limit, key, || quota.debt_of(cost));
        }
    }
}

/// Why there is no decision. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// The key is empty or longer than [`MAX_KEY_BYTES`].
    Key,
    /// No limit has this name.
    UnknownLimit,
    Quota(QuotaError),
}

/// Decisions that one connection has not yet added to the node's figures.
#[derive(Debug, Default)]
pub struct Tally {
    pub allowed: u64,
    pub denied: u64,
    pub peeked: u64,
}

impl Tally {
    #[inline]
    pub fn count(&mut self, decision: &Decision, cost: u64) {
        let counter = if cost == 0 {
            &mut self.peeked
        } else if decision.is_allowed() {
            &mut self.allowed
        } else {
            &mut self.denied
        };
        *counter += 1;
    }
}

#[inline]
fn hashed(limiter: &Limiter, key: &[u8]) -> Result<KeyHash, CheckError> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(CheckError::Key);
    }
    Ok(limiter.hash(key))
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
