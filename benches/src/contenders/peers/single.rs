//! Token buckets without keys.

use core::fmt;
use core::hint::black_box;
use core::num::NonZeroU32;
use core::pin::pin;
use core::task::{Context, Waker};

use leaky_bucket::RateLimiter;
use ratelimit::Ratelimiter;

use crate::contenders::{Contender, without_keys};
use crate::failure::Failure;
use crate::workloads::{Plan, Workload};

/// leaky-bucket, called by `try_acquire`; fair, which is its default. It reads its clock only when
/// the bucket is empty.
///
/// Unfair it has a faster path without its lock, but two threads on it can lose all of the bucket
/// for good: a thread that gives up stores what it read (1.1.2, `State::drop` in `try_fast_path`),
/// and everything is refused from then on.
pub struct LeakyBucket(RateLimiter);

impl fmt::Debug for LeakyBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeakyBucket").finish_non_exhaustive()
    }
}

impl Contender for LeakyBucket {
    const NAME: &'static str = "leaky-bucket";
    type Key = u64;

    fn absence(workload: Workload) -> Option<&'static str> {
        without_keys(workload)
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self(bucket(plan)))
    }

    #[inline]
    fn check(&self, _: &u64) -> bool {
        black_box(self.0.try_acquire(1))
    }

    fn admit(&self, _: &u64, units: NonZeroU32) -> bool {
        self.0.try_acquire(units.get() as usize)
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}

fn bucket(plan: &Plan) -> RateLimiter {
    let burst = plan.burst.get() as usize;
    RateLimiter::builder().max(burst).initial(burst).refill(1).interval(plan.interval).build()
}

/// leaky-bucket, called to wait, with enough units that no call does.
pub struct LeakyBucketQueue(RateLimiter);

impl fmt::Debug for LeakyBucketQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeakyBucketQueue").finish_non_exhaustive()
    }
}

impl LeakyBucketQueue {
    /// Longer than any running thread holds the lock.
    const RETRIES: u32 = 1_000_000;

    #[inline]
    fn wait(&self, units: usize) -> bool {
        let turn = pin!(self.0.acquire(units));
        turn.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}

impl Contender for LeakyBucketQueue {
    const NAME: &'static str = "leaky-bucket-queue";
    const AGAINST: &'static str = "queue";
    type Key = u64;

    fn absence(workload: Workload) -> Option<&'static str> {
        let waits = (workload == Workload::HotDenied).then_some("a call that does not fit waits");
        without_keys(workload).or(waits)
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self(bucket(plan)))
    }

    #[inline]
    fn check(&self, _: &u64) -> bool {
        // It says "wait" while another thread holds its lock.
        (0..=Self::RETRIES).any(|_| black_box(self.wait(1)))
    }

    fn admit(&self, _: &u64, units: NonZeroU32) -> bool {
        self.wait(units.get() as usize)
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}

/// ratelimit, called by `try_wait`.
#[derive(Debug)]
pub struct Ratelimit(Ratelimiter);

impl Contender for Ratelimit {
    const NAME: &'static str = "ratelimit";
    type Key = u64;

    fn absence(workload: Workload) -> Option<&'static str> {
        without_keys(workload)
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let burst = plan.burst.get().into();
        Ratelimiter::builder(1)
            .period(plan.interval)
            .max_tokens(burst)
            .initial_available(burst)
            .build()
            .map(Self)
            .map_err(|error| Failure::SetUp(format!("{}: {error}", Self::NAME)))
    }

    #[inline]
    fn check(&self, _: &u64) -> bool {
        black_box(self.0.try_wait()).is_ok()
    }

    fn admit(&self, _: &u64, units: NonZeroU32) -> bool {
        self.0.try_wait_n(units.get().into()).is_ok()
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}
