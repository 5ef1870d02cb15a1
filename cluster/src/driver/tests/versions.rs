//! Real nodes of this version, of the oldest that it speaks, and of a build one version ahead.

use std::time::Duration;

use tidegate_engine::Quota;

use super::secret;
use crate::protocol::{NEXT_VERSION, OLDEST_VERSION};
use crate::{Cluster, Config};

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), waiting).await;
    assert!(waited.is_ok(), "never: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_all_versions_share_a_limit() {
    let start = async |join, newest: Option<u16>| {
        let mut config = Config::new("127.0.0.1:0".parse().unwrap(), secret("0123456789abcdef"));
        config.join = join;
        config.newest_version = newest.unwrap_or(config.newest_version);
        Cluster::start(config).await.unwrap()
    };
    let first = start(Vec::new(), None).await;
    let seeds = vec![first.local_addr()];
    let second = start(seeds.clone(), Some(NEXT_VERSION)).await;
    let third = start(seeds.clone(), Some(NEXT_VERSION)).await;
    let oldest = start(seeds, Some(OLDEST_VERSION)).await;
    let nodes = [&first, &second, &third, &oldest];
    eventually("all joined", || nodes.iter().all(|node| node.has_joined())).await;
    let limits = nodes.map(|node| node.limit("test", Quota::per_day(100)).unwrap());
    for (number, limit) in limits.iter().enumerate() {
        assert!(limit.check_n("key", 10).is_allowed());
        let left = 90 - 10 * number as u64;
        let known = || limits.iter().all(|limit| limit.peek("key").remaining() == left);
        eventually("all know", known).await;
    }
    for node in nodes {
        assert_eq!(node.stats().violations, 0);
    }
}
