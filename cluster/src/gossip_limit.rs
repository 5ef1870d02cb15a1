//! A limit across the cluster, in one call.

use std::sync::Arc;

use tidegate_engine::{Decision, Key, Limiter};

use crate::cluster::Cluster;
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
}

impl GossipLimit {
    /// Binds a limiter to its id in the cluster; see the type for the condition.
    #[must_use]
    pub fn new(id: LimitId, limiter: Arc<Limiter>, cluster: Cluster) -> Self {
        Self { id, limiter, cluster }
    }

    /// Checks one unit and records it when it is admitted.
    pub fn check(&self, key: impl Key) -> Decision {
        self.check_n(key, 1)
    }

    /// Checks `cost` units and records them when they are admitted. No I/O; a denial records
    /// nothing.
    pub fn check_n(&self, key: impl Key, cost: u64) -> Decision {
        let key = self.limiter.hash(key);
        let decision = self.limiter.check_n(key, cost);
        if decision.is_allowed() && cost > 0 {
            self.cluster.record(self.id, key, self.limiter.quota().debt_of(cost));
        }
        decision
    }

    /// The limiter itself.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }
}
