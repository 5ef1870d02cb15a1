//! The crate `quota`: GCRA words in a sharded map of boxes with a cache of slots in front.

use core::fmt;
use core::hint::black_box;
use core::num::NonZeroU32;

use quota::{QuotaPolicy, QuotaPool, RefillRate};

use crate::contenders::Contender;
use crate::failure::Failure;
use crate::workloads::Plan;

/// `QuotaPool` keyed by `String`, built for the number of keys, called by `check`, its fastest
/// form.
pub struct Quota(QuotaPool<String>);

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quota").finish_non_exhaustive()
    }
}

impl Contender for Quota {
    const NAME: &'static str = "quota";
    type Key = String;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let rate = RefillRate::per_sec(plan.interval.as_secs_f64().recip());
        let burst = plan.burst.get();
        let policy = QuotaPolicy::new().set_capacity(burst.into()).set_refill_rate(rate);
        Ok(Self(QuotaPool::with_capacity(policy, burst.into(), plan.keys)))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        black_box(self.0.check(key.as_str(), 1))
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        self.0.check(key.as_str(), units.get().into())
    }

    fn live_keys(&self) -> Option<usize> {
        Some(self.0.len())
    }
}
