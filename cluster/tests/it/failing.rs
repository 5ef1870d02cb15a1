//! A node whose gossip fails.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use tidegate_cluster::{Cluster, Config, JoinKind, LinkState, Secret};
use tidegate_engine::clock::Timestamp;
use tidegate_engine::{Clock, Limiter, Quota};

use crate::waiting::{TIMEOUT, eventually};

/// A clock that panics on the threads of a node, once it is broken.
#[derive(Clone)]
struct FragileClock {
    started: Instant,
    is_broken: Arc<AtomicBool>,
}

impl Clock for FragileClock {
    fn now(&self) -> Timestamp {
        let is_of_node = thread::current().name() == Some("tidegate-gossip");
        assert!(!is_of_node || !self.is_broken.load(Ordering::Relaxed), "the clock is broken");
        Timestamp::ORIGIN.saturating_add(self.started.elapsed())
    }
}

async fn start(join: Vec<SocketAddr>) -> Cluster {
    let secret = Secret::from_bytes(b"a secret of the failing tests").unwrap();
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), secret);
    config.join = join;
    Cluster::start(config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_gossip_panics_has_ended_and_decides_alone() {
    let first = start(Vec::new()).await;
    let second = start(vec![first.local_addr()]).await;
    let is_broken = Arc::<AtomicBool>::default();
    let clock = FragileClock { started: Instant::now(), is_broken: Arc::clone(&is_broken) };
    let quota = Quota::per_day(100);
    let limit = first.limit("test", quota).unwrap();
    let builder = Limiter::builder(quota).capacity(1_000).clock(clock);
    let fragile = second.limit_with("test", builder).unwrap();
    assert_eq!(second.joined().await, Some(JoinKind::Joined));
    eventually("they are linked", || {
        let (stats, peers) = (second.stats(), second.peers());
        stats.links_in == 1 && peers.iter().any(|peer| peer.link == LinkState::Flowing)
    })
    .await;
    assert!(!second.has_ended() && !second.stats().is_alone);

    is_broken.store(true, Ordering::Relaxed);
    assert!(limit.check_n("key", 60).is_allowed());
    let ended = tokio::time::timeout(TIMEOUT, second.ended()).await;
    assert!(ended.is_ok() && second.has_ended());
    let stats = second.stats();
    assert!(stats.is_alone, "{stats:?}");
    assert_eq!((stats.links_in, stats.links_out), (0, 0));
    assert!(second.peers().iter().all(|peer| peer.link == LinkState::Waiting));
    // Limiters go on.
    assert!(second.has_joined() && second.is_current());
    assert!(fragile.check_n("key", 100).is_allowed());
    eventually("the time alone goes on", || second.stats().alone_for > stats.alone_for).await;
    // Its socket is closed.
    let addr = second.local_addr();
    assert!(std::net::UdpSocket::bind(addr).is_ok(), "{addr}");
    second.leave(TIMEOUT).await;
    assert!(!first.has_ended());
    first.leave(TIMEOUT).await;
    assert!(first.has_ended() && !first.stats().is_alone);
}
