//! A limit of a cluster of one node: what recording for other nodes adds to a check.

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::sync::Arc;

use tidegate_cluster::{Cluster, Config, GossipLimiter, Secret};
use tidegate_engine::{Limiter, Quota};
use tokio::runtime::{self, Runtime};

use super::Contender;
use crate::{Failure, Plan};

/// A limit of a node that has founded a cluster.
#[derive(Debug)]
pub struct Clustered {
    limit: Arc<GossipLimiter>,
    cluster: Cluster,
    /// Of the node's tasks.
    _runtime: Runtime,
}

impl Clustered {
    fn start(plan: &Plan) -> Result<Self, Box<dyn Error>> {
        let secret = Secret::from_bytes(b"of this measurement alone")?;
        let quota = Quota::new(1, plan.interval).burst(plan.burst.get().into());
        let config = Config::new("127.0.0.1:0".parse()?, secret);
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let cluster = runtime.block_on(Cluster::start(config))?;
        let builder = Limiter::builder(quota).capacity(plan.keys);
        let limit = cluster.limit_with("clustered", builder)?;
        Ok(Self { limit, cluster, _runtime: runtime })
    }
}

impl Contender for Clustered {
    const NAME: &'static str = "clustered";
    const AGAINST: &'static str = "precise-sip";
    type Key = String;

    fn build(plan: &Plan) -> Result<Self, Failure> {
        Self::start(plan).map_err(|error| Failure::SetUp(format!("a cluster: {error}")))
    }

    #[inline]
    fn check(&self, key: &String) -> bool {
        black_box(self.limit.check(key)).is_allowed()
    }

    fn admit(&self, key: &String, units: NonZeroU32) -> bool {
        self.limit.check_n(key, units.get().into()).is_allowed()
    }

    fn live_keys(&self) -> Option<usize> {
        Some(self.limit.live().count())
    }
}

impl Drop for Clustered {
    fn drop(&mut self) {
        let stats = self.cluster.stats();
        let (shared, dropped) = (stats.records_shared, stats.records_dropped);
        let _ = writeln!(io::stderr(), "{shared} records in shared maps, {dropped} dropped");
    }
}
