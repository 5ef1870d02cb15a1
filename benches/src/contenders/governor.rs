//! governor's keyed limiter.

use core::hint::black_box;
use core::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::Contender;
use crate::failure::Failure;
use crate::workloads::Plan;

/// `RateLimiter::keyed` as it comes, keyed by `String`: its default store (`DashMap`, std's hasher)
/// and its default clock (the time-stamp counter).
#[derive(Debug)]
pub struct GovernorString(DefaultKeyedRateLimiter<String>);

impl Contender for GovernorString {
    const NAME: &'static str = "governor-string";

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let quota = Quota::with_period(plan.interval)
            .ok_or_else(|| Failure::SetUp(format!("{}: the interval is 0", Self::NAME)))?
            .allow_burst(plan.burst);
        Ok(Self(RateLimiter::keyed(quota)))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        black_box(self.0.check_key(key)).is_ok()
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        matches!(self.0.check_key_n(key, units), Ok(Ok(())))
    }

    fn live_keys(&self) -> usize {
        self.0.len()
    }
}
