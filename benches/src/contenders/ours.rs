//! Tidegate's engine.

use core::hint::black_box;
use core::num::NonZeroU32;
use core::time::Duration;

use tidegate_engine::{Clock as _, Limiter, Quota};

use super::{Audited, Contender};
use crate::failure::Failure;
use crate::workloads::Plan;

/// The engine as it comes: default hasher, and the time-stamp counter read in each check.
#[derive(Debug)]
pub struct Precise(Limiter);

/// How many keys we make room for, for each key that is to be live. At 1, four fifths of the table
/// are live and about one key in 10^4 finds no place and evicts another; at 2, fewer than one in
/// 10^9 does.
const ROOM: usize = 2;

impl Contender for Precise {
    const NAME: &'static str = "ours";

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let quota = Quota::new(1, plan.interval).burst(plan.burst.get().into());
        Limiter::builder(quota)
            .capacity(plan.keys * ROOM)
            .build()
            .map(Self)
            .map_err(|error| Failure::SetUp(format!("{}: {error}", Self::NAME)))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        black_box(self.0.check(key.as_str())).is_allowed()
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        self.0.check_n(key.as_str(), units.get().into()).is_allowed()
    }

    fn live_keys(&self) -> usize {
        self.0.live().count()
    }
}

impl Audited for Precise {
    const VARIANT: &'static str = "precise";

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.clock().now().as_nanos())
    }

    fn debt(&self, key: &str) -> Duration {
        self.0.peek(key).reset_after()
    }

    fn evicted(&self) -> u64 {
        self.0.evicted()
    }
}
