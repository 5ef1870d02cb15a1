//! A limit across the cluster, in one call.

use std::sync::Arc;

use tidegate_engine::{Decision, Key, Limiter};

use crate::cluster::Cluster;
use crate::driver::signed;
use crate::limits::LimitId;

/// A limiter that records in the cluster what it admits. Cheap to clone.
///
/// The limiter must be among the [`Limits`](crate::Limits) the cluster was started with, under the
/// same id; otherwise what other nodes admit does not count here.
#[derive(Clone, Debug)]
pub struct GossipLimit {
    id: LimitId,
    limiter: Arc<Limiter>,
    cluster: Cluster,
    /// Of a cost of 1, in nanoseconds.
    unit_debt: i64,
}

impl GossipLimit {
    /// Binds a limiter to its id in the cluster; see the type for the condition.
    #[must_use]
    pub fn new(id: LimitId, limiter: Arc<Limiter>, cluster: Cluster) -> Self {
        let unit_debt = signed(limiter.quota().debt_of(1));
        Self { id, limiter, cluster, unit_debt }
    }

    /// Checks one unit and records it when it is admitted.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    pub fn check(&self, key: impl Key) -> Decision {
        self.check_n(key, 1)
    }

    /// Checks `cost` units and records them when they are admitted. No I/O; a denial records
    /// nothing.
    #[expect(
        clippy::inline_always,
        reason = "a call hands the decision over in memory, and stalls"
    )]
    #[inline(always)]
    pub fn check_n(&self, key: impl Key, cost: u64) -> Decision {
        let key = self.cluster.hash(key);
        self.cluster.prefetch(self.id, key);
        let decision = self.limiter.check_n(key, cost);
        if decision.is_allowed() && cost > 0 {
            let debt = match cost {
                1 => self.unit_debt,
                _ => signed(self.limiter.quota().debt_of(cost)),
            };
            self.cluster.record_nanos(self.id, key, debt);
        }
        decision
    }

    /// The limiter itself.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }
}
