//! The service, which decides. Front-ends translate between it and their protocols.

mod nearest;
pub mod readiness;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock, Decision, KeyHash, Quota, QuotaError};

use crate::config::file::INLINE;
use crate::limits::gossip::{Gossip, Limiter};
use crate::limits::key_count::KeyCount;
use crate::limits::limiters::Limiters;
use crate::service::nearest::nearest;
use crate::telemetry::meter::{FrontEndName, Meter, Tally};
use crate::telemetry::metrics::Metrics;

/// The longest key, in bytes; the shortest is one byte.
pub const MAX_KEY_BYTES: usize = 1024;

/// Maps names to limiters, and is the only caller of their checks.
#[derive(Debug)]
pub struct Service {
    /// The limiters of configured limits, then the one of quotas that come with their checks.
    limiters: Vec<(String, Arc<Limiter>)>,
    /// Indexes of `limiters`.
    by_name: HashMap<String, usize>,
    gossip: Gossip,
    keys: KeyCount,
    metrics: Metrics,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub limit: LimitSelector<'a>,
    /// 1 to [`MAX_KEY_BYTES`] bytes.
    pub key: &'a [u8],
    /// In units; 0 is a peek.
    pub cost: u64,
}

/// By what it is decided.
#[derive(Clone, Copy, Debug)]
pub enum LimitSelector<'a> {
    /// The limit of this name.
    Named(&'a str),
    /// A quota that comes with the check. The keys of all such quotas are one namespace.
    Inline(&'a Quota),
}

/// A decision, and the quota by which it was made.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    pub decision: Decision,
    pub quota: Quota,
}

impl Service {
    pub fn new(limiters: Limiters, gossip: Gossip) -> Self {
        let named = limiters.named.iter().enumerate();
        let by_name = named.map(|(index, (name, _))| (name.clone(), index)).collect();
        let mut all = limiters.named;
        all.push((INLINE.to_owned(), limiters.inline));
        Self {
            by_name,
            keys: KeyCount::new(all.iter().map(|(_, limiter)| Arc::clone(limiter)).collect()),
            metrics: Metrics::new(all.clone(), gossip.clone()),
            limiters: all,
            gossip,
        }
    }

    /// Decides a check and counts it.
    ///
    /// # Errors
    /// When the key or the quota is out of range, or there is no such limit; nothing is charged.
    #[inline]
    pub fn check(&self, request: &Request<'_>, meter: &Meter) -> Result<Verdict, CheckError> {
        let Request { limit, cost, .. } = *request;
        let key = self.key(request.key)?;
        let (index, verdict) = match limit {
            LimitSelector::Named(name) => {
                let index = self.named(name)?;
                let limiter = &self.limiters[index].1;
                let decision = limiter.check_n(key, cost);
                (index, Verdict { decision, quota: limiter.quota() })
            }
            LimitSelector::Inline(quota) => {
                let decision = self.inline().check_with(key, cost, quota);
                let decision = decision.map_err(CheckError::Quota)?;
                self.gossip.record_inline(quota, decision.is_allowed().then_some((key, cost)));
                (self.by_name.len(), Verdict { decision, quota: *quota })
            }
        };
        meter.count(index, &Tally::of(&verdict.decision, cost));
        Ok(verdict)
    }

    /// Decides the checks of several keys by one limit, and counts them; `decisions` becomes
    /// theirs, in the same order. They are those of the same checks one after another.
    ///
    /// # Errors
    /// When the quota is out of range, or there is no such limit; nothing is charged.
    pub fn check_many(
        &self,
        limit: LimitSelector<'_>,
        checks: &[(KeyHash, u64)],
        meter: &Meter,
        decisions: &mut Vec<Decision>,
    ) -> Result<Quota, CheckError> {
        let (index, quota) = match limit {
            LimitSelector::Named(name) => {
                let index = self.named(name)?;
                let limiter = &self.limiters[index].1;
                limiter.check_many_n(checks, decisions);
                (index, limiter.quota())
            }
            LimitSelector::Inline(quota) => {
                let limiter = self.inline().with_quota(quota).map_err(CheckError::Quota)?;
                limiter.check_many_n(checks, decisions);
                let admitted = checks.iter().zip(decisions.iter());
                let admitted = admitted.filter(|(_, decision)| decision.is_allowed());
                self.gossip.record_inline(quota, admitted.map(|(check, _)| *check));
                (self.by_name.len(), *quota)
            }
        };
        let mut tally = Tally::default();
        for ((_, cost), decision) in checks.iter().zip(decisions.iter()) {
            tally.count(decision, *cost);
        }
        meter.count(index, &tally);
        Ok(quota)
    }

    /// The hash of a key, by which all limits know it.
    ///
    /// # Errors
    /// When the key is out of range.
    #[inline]
    pub fn key(&self, key: &[u8]) -> Result<KeyHash, CheckError> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(CheckError::Key);
        }
        Ok(self.inline().hash(key))
    }

    /// Counts the decisions of a front-end.
    pub fn meter(&self, front_end: FrontEndName) -> Meter {
        let names = self.limiters.iter().map(|(name, _)| name.as_str());
        self.metrics.meter(front_end, names)
    }

    /// The index of the limit of this name.
    fn named(&self, name: &str) -> Result<usize, CheckError> {
        self.by_name.get(name).copied().ok_or(CheckError::UnknownLimit)
    }

    /// The limiter of quotas that come with their checks.
    #[inline]
    fn inline(&self) -> &Limiter {
        &self.limiters[self.by_name.len()].1
    }

    /// The limit whose name is nearest to one that no limit has, if one is near.
    pub fn nearest_limit(&self, name: &str) -> Option<&str> {
        nearest(name, self.by_name.keys().map(String::as_str))
    }

    /// The number of keys in debt, of all limits, as of the last second or so: see [`KeyCount`].
    pub fn keys(&self) -> u64 {
        self.keys.get()
    }

    /// The time since the start of the clock by which limits decide.
    pub fn now(&self) -> Duration {
        self.inline().clock().now().since(Timestamp::ORIGIN)
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

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
