//! The service, which decides. Front-ends translate between it and their protocols.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock, Decision, KeyHash, Quota, QuotaError};

use crate::config::INLINE;
use crate::gossip::{Gossip, Limiter};
use crate::key_count::KeyCount;
use crate::limiters::Limiters;
use crate::metrics::{DecisionMetrics, FrontEndName, Metrics};
use crate::nearest::nearest;

/// The longest key, in bytes; the shortest is one byte.
pub const MAX_KEY_BYTES: usize = 1024;
/// Maps names to limiters, and passes decisions to metrics.
#[derive(Debug)]
pub struct Service {
    named: HashMap<String, NamedLimit>,
    inline: Arc<Limiter>,
    inline_http: DecisionMetrics,
    gossip: Gossip,
    keys: KeyCount,
    metrics: Metrics,
}

#[derive(Debug)]
struct NamedLimit {
    limiter: Arc<Limiter>,
    http: DecisionMetrics,
}

impl Service {
    pub fn new(limiters: Limiters, gossip: Gossip) -> Self {
        let mut all = limiters.named.clone();
        all.push((INLINE.to_owned(), Arc::clone(&limiters.inline)));
        let keys = KeyCount::new(all.iter().map(|(_, limiter)| Arc::clone(limiter)).collect());
        let metrics = Metrics::new(all, gossip.clone(), INLINE);
        let named = limiters.named.into_iter().map(|(name, limiter)| {
            let http = metrics.decisions(&name, FrontEndName::Http);
            (name, NamedLimit { limiter, http })
        });
        Self {
            named: named.collect(),
            inline: limiters.inline,
            inline_http: metrics.decisions(INLINE, FrontEndName::Http),
            gossip,
            keys,
            metrics,
        }
    }

    /// Decides under a quota given with the call. The caller counts the decision.
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
        if cost > 0 && decision.is_allowed() {
            self.gossip.record_inline(key, quota, cost);
        }
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

    /// Decides under the limit of this name and counts it for HTTP; also gives the limit's quota.
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
        limit.http.count(&decision, cost);
        Ok((decision, limit.limiter.quota()))
    }

    /// The limit whose name is nearest to one that no limit has, if one is near.
    pub fn nearest_limit(&self, name: &str) -> Option<&str> {
        nearest(name, self.named.keys().map(String::as_str))
    }

    /// The number of keys in debt, of all limits, as of the last second or so: see [`KeyCount`].
    pub fn keys(&self) -> u64 {
        self.keys.get()
    }

    /// The time since the start of the clock by which limits decide.
    pub fn now(&self) -> Duration {
        self.inline.clock().now().since(Timestamp::ORIGIN)
    }

    pub fn gossip(&self) -> &Gossip {
        &self.gossip
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

/// Why there is no decision. Nothing is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// The key is empty or longer than [`MAX_KEY_BYTES`].
    Key,
    /// No limit has this name.
    UnknownLimit,
    Quota(QuotaError),
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
