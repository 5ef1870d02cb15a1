//! throttlecrab's library, which needs exclusive access.

use core::fmt;
use core::hint::black_box;
use core::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use throttlecrab::{PeriodicStore, RateLimiter};

use crate::contenders::Contender;
use crate::failure::Failure;
use crate::workloads::Plan;

/// The store of its introduction, with room for all keys, behind a mutex. The clock is that of the
/// times it takes.
pub struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    burst: i64,
    /// Seconds per unit.
    period: i64,
}

impl fmt::Debug for Throttlecrab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttlecrab").finish_non_exhaustive()
    }
}

impl Throttlecrab {
    #[inline]
    fn ask(&self, key: &str, units: u32) -> bool {
        #[expect(clippy::disallowed_methods, reason = "the library wants wall-clock time")]
        let now = SystemTime::now();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = limiter.rate_limit(key, self.burst, 1, self.period, units.into(), now);
        matches!(black_box(answer), Ok((true, _)))
    }
}

impl Contender for Throttlecrab {
    const NAME: &'static str = "throttlecrab";
    type Key = String;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let limiter = Mutex::new(RateLimiter::new(PeriodicStore::with_capacity(plan.keys)));
        // Periods are whole seconds; a longer one changes no decision, since nothing here waits
        // for a unit to be granted.
        let period = plan.interval.as_nanos().div_ceil(1_000_000_000) as i64;
        Ok(Self { limiter, burst: plan.burst.get().into(), period })
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        self.ask(key, 1)
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        self.ask(key, units.get())
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}
