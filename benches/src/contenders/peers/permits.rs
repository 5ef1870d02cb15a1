//! Permits of peers.

use core::hint::black_box;
use core::num::NonZeroU32;

use tokio::sync::Semaphore;

use crate::contenders::{Contender, without_keys};
use crate::failure::Failure;
use crate::workloads::{Plan, Workload};

/// tokio's semaphore, called by `try_acquire`; a check returns its permit at once.
#[derive(Debug)]
pub struct TokioSemaphore(Semaphore);

impl Contender for TokioSemaphore {
    const NAME: &'static str = "tokio-semaphore";
    const AGAINST: &'static str = "concurrency";
    type Key = u64;

    fn absence(workload: Workload) -> Option<&'static str> {
        without_keys(workload)
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self(Semaphore::new(plan.burst.get() as usize)))
    }

    #[inline]
    fn check(&self, _: &u64) -> bool {
        black_box(self.0.try_acquire().is_ok())
    }

    fn admit(&self, _: &u64, units: NonZeroU32) -> bool {
        self.0.try_acquire_many(units.get()).map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    fn live_keys(&self) -> Option<usize> {
        None
    }
}
