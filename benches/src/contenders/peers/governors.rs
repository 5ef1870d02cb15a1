//! Other configurations of governor.

use core::hint::black_box;
use core::num::NonZeroU32;
use std::sync::OnceLock;

use governor::clock::{DefaultClock, QuantaUpkeepClock};
use governor::state::keyed::{DashMapStateStore, DefaultKeyedStateStore};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, RateLimiter};

use crate::contenders::governor::quota;
use crate::contenders::without_keys;
use crate::contenders::{Contender, Recent};
use crate::failure::Failure;
use crate::workloads::{Plan, Workload};

/// Keyed by `String`, on `QuantaUpkeepClock` at the interval of our own upkeep.
pub struct GovernorUpkeep(RateLimiter<String, DefaultKeyedStateStore<String>, QuantaUpkeepClock>);

/// quanta has one upkeep thread per process.
fn upkeep_clock() -> Result<QuantaUpkeepClock, Failure> {
    static CLOCK: OnceLock<Result<QuantaUpkeepClock, String>> = OnceLock::new();
    let start = || {
        QuantaUpkeepClock::from_interval(Recent::UPKEEP_INTERVAL).map_err(|error| error.to_string())
    };
    CLOCK.get_or_init(start).clone().map_err(Failure::SetUp)
}

impl Contender for GovernorUpkeep {
    const NAME: &'static str = "governor-upkeep";
    const AGAINST: &'static str = "recent";
    type Key = String;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let quota = quota(plan, Self::NAME)?;
        Ok(Self(RateLimiter::dashmap_with_clock(quota, upkeep_clock()?)))
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

/// Keyed by `String`, with room for all keys in its map from the start. Without new keys this is
/// `RateLimiter::keyed`.
#[derive(Debug)]
pub struct GovernorPresized(DefaultKeyedRateLimiter<String>);

impl Contender for GovernorPresized {
    const NAME: &'static str = "governor-presized";
    type Key = String;

    fn absence(workload: Workload) -> Option<&'static str> {
        let has_new_keys = matches!(workload, Workload::NewKey | Workload::Memory);
        (!has_new_keys).then_some("it is governor-string once that has grown")
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let state = DashMapStateStore::with_capacity(plan.keys);
        let clock = DefaultClock::default();
        Ok(Self(RateLimiter::new(quota(plan, Self::NAME)?, state, clock)))
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

/// `RateLimiter::keyed` with its defaults, keyed by integers.
#[derive(Debug)]
pub struct GovernorU64(DefaultKeyedRateLimiter<u64>);

impl Contender for GovernorU64 {
    const NAME: &'static str = "governor-u64";
    const AGAINST: &'static str = "precise-u64";
    type Key = u64;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self(RateLimiter::keyed(quota(plan, Self::NAME)?)))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        black_box(self.0.check_key(key)).is_ok()
    }

    fn admit(&self, key: &u64, units: NonZeroU32) -> bool {
        matches!(self.0.check_key_n(key, units), Ok(Ok(())))
    }

    fn live_keys(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// `RateLimiter::direct` with its defaults.
#[derive(Debug)]
pub struct GovernorDirect(DefaultDirectRateLimiter);

impl Contender for GovernorDirect {
    const NAME: &'static str = "governor-direct";
    type Key = u64;

    fn absence(workload: Workload) -> Option<&'static str> {
        without_keys(workload)
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self(RateLimiter::direct(quota(plan, Self::NAME)?)))
    }

    #[inline]
    fn check(&self, _: &u64) -> bool {
        black_box(self.0.check()).is_ok()
    }

    fn admit(&self, _: &u64, units: NonZeroU32) -> bool {
        matches!(self.0.check_n(units), Ok(Ok(())))
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}
