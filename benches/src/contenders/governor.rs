//! governor's keyed limiter, the reference of all ratios.

use core::hint::black_box;
use core::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, RateLimiter};

use super::Contender;
use crate::failure::Failure;
use crate::workloads::Plan;

/// `RateLimiter::keyed` with its defaults, keyed by `String`: its default store (`DashMap`, std's
/// hasher) and its default clock (the time-stamp counter).
#[derive(Debug)]
pub struct GovernorString(DefaultKeyedRateLimiter<String>);

/// The plan's quota in governor's terms.
pub(super) fn quota(plan: &Plan, name: &str) -> Result<governor::Quota, Failure> {
    governor::Quota::with_period(plan.interval)
        .map(|quota| quota.allow_burst(plan.burst))
        .ok_or_else(|| Failure::SetUp(format!("{name}: the interval is 0")))
}

impl Contender for GovernorString {
    const NAME: &'static str = "governor-string";
    type Key = String;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self(RateLimiter::keyed(quota(plan, Self::NAME)?)))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        black_box(self.0.check_key(key)).is_ok()
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        matches!(self.0.check_key_n(key, units), Ok(Ok(())))
    }

    fn live_keys(&self) -> Option<usize> {
        Some(self.0.len())
    }
}
