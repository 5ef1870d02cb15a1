//! Real nodes on loopback.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::protocol::MIN_BYTE_CAP;
use tidegate_cluster::{
    Cluster, Config, GossipLimiter, JoinKind, LinkState, MemberState, Secret, StartError,
};
use tidegate_engine::{Limiter, Quota};

use crate::waiting::{PAUSE, TIMEOUT, eventually};

const SECRET: &[u8] = b"a secret of the loopback tests";

struct Node {
    cluster: Cluster,
    limit: Arc<GossipLimiter>,
}

impl Node {
    /// A node with one limit of 100 a day: nothing refills while a test runs.
    async fn start(secret: &[u8], join: &[&Node]) -> Self {
        Self::start_at("127.0.0.1:0", secret, join).await
    }

    async fn start_at(bind: &str, secret: &[u8], join: &[&Node]) -> Self {
        let join = join.iter().map(|node| node.cluster.local_addr()).collect();
        Self::start_joining(bind, secret, join).await
    }

    async fn start_joining(bind: &str, secret: &[u8], join: Vec<SocketAddr>) -> Self {
        let secret = Secret::from_bytes(secret).unwrap();
        let mut config = Config::new(bind.parse().unwrap(), secret);
        config.join = join;
        let cluster = Cluster::start(config).await.unwrap();
        let builder = Limiter::builder(Quota::per_day(100)).capacity(100_000);
        let limit = cluster.limit_with("test", builder).unwrap();
        Self { cluster, limit }
    }

    fn remaining(&self, key: &str) -> u64 {
        self.limit.peek(key).remaining()
    }

    fn state_of(&self, other: SocketAddr) -> Option<MemberState> {
        let members = self.cluster.members();
        members.iter().find(|member| member.addr == other).map(|member| member.state)
    }

    fn sees(&self, other: &Node, state: MemberState) -> bool {
        self.state_of(other.cluster.local_addr()) == Some(state)
    }
}

#[tokio::test]
async fn a_seed_that_does_not_answer_is_counted() {
    // Bound, so that no other socket answers there, and never read.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut config =
        Config::new("127.0.0.1:0".parse().unwrap(), Secret::from_bytes(SECRET).unwrap());
    config.join = vec![silent.local_addr().unwrap()];
    config.found_after = Duration::from_hours(1);
    let cluster = Cluster::start(config).await.unwrap();
    eventually("the dial has failed", || cluster.stats().dials_failed > 0).await;
    assert!(!cluster.has_joined());
    assert_eq!(cluster.stats().handshakes_rejected, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_others_learn_what_one_node_admits() {
    let a = Node::start(SECRET, &[]).await;
    assert_eq!(a.cluster.joined().await, Some(JoinKind::Founded));
    let b = Node::start(SECRET, &[&a]).await;
    let c = Node::start(SECRET, &[&a]).await;
    eventually("all see all", || {
        let nodes = [&a, &b, &c];
        nodes.iter().all(|one| nodes.iter().all(|other| one.sees(other, MemberState::Alive)))
    })
    .await;
    for node in [&b, &c] {
        assert_eq!(node.cluster.joined().await, Some(JoinKind::Joined));
        assert_eq!(node.cluster.hash("key"), a.cluster.hash("key"), "nodes hash alike");
    }

    assert_eq!(a.limit.check_n("key", 30).remaining(), 70);
    eventually("b and c know", || b.remaining("key") == 70 && c.remaining("key") == 70).await;
    assert_eq!(b.limit.check_n("key", 20).remaining(), 50);
    eventually("a and c know", || a.remaining("key") == 50 && c.remaining("key") == 50).await;
    assert_eq!(c.limit.check_n("key", 50).remaining(), 0);
    eventually("a and b know", || a.remaining("key") == 0 && b.remaining("key") == 0).await;
    assert!(!a.limit.check("key").is_allowed());

    eventually("a counts what it did", || {
        let stats = a.cluster.stats();
        stats.frames_sent >= 2 && stats.deltas_applied >= 2 && stats.pending_keys == 0
    })
    .await;
    let stats = a.cluster.stats();
    assert_eq!((stats.violations, stats.handshakes_rejected, stats.links_refused), (0, 0, 0));

    let d = Node::start(SECRET, &[&b]).await;
    assert_eq!(d.cluster.joined().await, Some(JoinKind::Joined));
    assert_eq!(d.remaining("key"), 0, "{:?}", d.cluster.stats());
    assert_eq!(d.cluster.stats().gaps, 0);
    eventually("a sees d", || a.sees(&d, MemberState::Alive)).await;
    assert!(d.limit.check_n("other", 10).is_allowed());
    eventually("a knows what d admitted", || a.remaining("other") == 90).await;
    assert!(a.limit.check_n("other", 10).is_allowed());
    eventually("d knows what a admitted", || d.remaining("other") == 80).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_joiner_takes_over_many_keys() {
    const KEYS: u64 = 30_000;
    let a = Node::start(SECRET, &[]).await;
    for key in 0..KEYS {
        assert!(a.limit.check_n(key, 1 + key % 50).is_allowed());
    }
    let b = Node::start(SECRET, &[&a]).await;
    eventually("b joined", || b.cluster.has_joined()).await;
    let known = (0..KEYS).filter(|key| b.limit.peek(*key).remaining() == 99 - key % 50).count();
    assert_eq!(known as u64, KEYS - a.limit.evicted() - b.limit.evicted());
    // A founder whose state is taken over announces no gap.
    assert_eq!(b.cluster.stats().gaps + a.cluster.stats().gaps, 0);
}

#[tokio::test]
async fn ages_are_those_of_the_look_though_a_node_alone_has_nothing_to_do() {
    let node = Node::start(SECRET, &[]).await;
    // Its first second has events of its own.
    let age = || node.cluster.members().first().map(|own| own.state_for).unwrap_or_default();
    eventually("a second has passed", || age() > Duration::from_secs(1)).await;
    let before = age();
    eventually("it is older", || age() > before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_secret_is_refused() {
    let a = Node::start(SECRET, &[]).await;
    let b = Node::start(b"some other secret entirely", &[&a]).await;
    assert!(!b.cluster.has_joined());
    assert_eq!(b.cluster.joined().await, Some(JoinKind::FoundedAlone));
    assert!(b.cluster.has_joined());
    eventually("both say why", || {
        let (a, b) = (a.cluster.stats(), b.cluster.stats());
        a.handshakes_rejected > 0 && a.dials_failed == 0 && b.dials_failed > 0
    })
    .await;
    for (node, other) in [(&a, &b), (&b, &a)] {
        assert_eq!(node.cluster.members().len(), 1);
        assert_eq!(node.state_of(other.cluster.local_addr()), None);
        let stats = node.cluster.stats();
        assert_eq!((stats.links_in, stats.links_out), (0, 0));
    }
}

/// The older one's state takes a second or two to arrive, and the younger one's words are empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_cluster_meets_an_older_one_joins_anew() {
    let place = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = place.local_addr().unwrap();
    let mut config =
        Config::new("127.0.0.1:0".parse().unwrap(), Secret::from_bytes(SECRET).unwrap());
    (config.join, config.found_after) = (vec![addr], PAUSE);
    config.byte_cap = Some(MIN_BYTE_CAP);
    let older = Cluster::start(config).await.unwrap();
    let limit = older.limit("test", Quota::per_day(100)).unwrap();
    assert_eq!(older.joined().await, Some(JoinKind::FoundedAlone));
    for key in 0..5_000_u64 {
        assert!(limit.check(key).is_allowed());
    }
    drop(place);
    let younger = Node::start_at(&addr.to_string(), SECRET, &[]).await;
    assert!(younger.cluster.has_joined() && younger.cluster.is_current());
    eventually("it starts over", || !younger.cluster.has_joined()).await;
    assert!(!younger.cluster.is_current());
    assert_eq!(younger.cluster.joined().await, Some(JoinKind::Joined));
    assert!(younger.cluster.is_current());
    assert_eq!(younger.limit.peek(17_u64).remaining(), 99);
}

#[tokio::test]
async fn a_caller_that_waits_for_a_node_to_join_learns_that_it_has_left() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let node = Node::start_joining("127.0.0.1:0", SECRET, vec![silent.local_addr().unwrap()]).await;
    let cluster = node.cluster.clone();
    let waiting = tokio::spawn(async move { cluster.joined().await });
    // A caller that stops waiting keeps no other from it.
    assert!(tokio::time::timeout(PAUSE, node.cluster.joined()).await.is_err());
    node.cluster.leave(PAUSE).await;
    assert_eq!(waiting.await.unwrap(), None);
    assert_eq!(node.cluster.joined().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_falls_silent_is_down_and_one_that_leaves_has_left() {
    let a = Node::start(SECRET, &[]).await;
    let b = Node::start(SECRET, &[&a]).await;
    let c = Node::start(SECRET, &[&a]).await;
    eventually("all see all", || {
        let nodes = [&a, &b, &c];
        nodes.iter().all(|one| nodes.iter().all(|other| one.sees(other, MemberState::Alive)))
    })
    .await;

    assert!(b.limit.check_n("last words", 40).is_allowed());
    b.cluster.leave(TIMEOUT).await;
    let (stats, mut peers) = (b.cluster.stats(), b.cluster.peers().into_iter());
    assert_eq!((stats.links_in, stats.links_out, stats.is_alone), (0, 0, false));
    assert!(peers.all(|peer| peer.link == LinkState::Waiting));
    eventually("b has left", || a.sees(&b, MemberState::Left) && c.sees(&b, MemberState::Left))
        .await;
    assert_eq!((a.remaining("last words"), c.remaining("last words")), (60, 60));

    let addr = c.cluster.local_addr();
    drop(c);
    eventually("c is down", || a.state_of(addr) == Some(MemberState::Down)).await;
    assert!(a.limit.check_n("meanwhile", 25).is_allowed());

    // A new generation at the same address replaces the old one, and learns what it missed. A node
    // that is dropped is not waited for.
    eventually("its port is free", || UdpSocket::bind(addr).is_ok()).await;
    let again = Node::start_at(&addr.to_string(), SECRET, &[&a]).await;
    eventually("c is back", || a.state_of(addr) == Some(MemberState::Alive)).await;
    eventually("c has joined", || again.cluster.has_joined()).await;
    assert_eq!((again.remaining("last words"), again.remaining("meanwhile")), (60, 75));
    assert!(again.limit.check_n("meanwhile", 25).is_allowed());
    eventually("a learns from the new generation", || a.remaining("meanwhile") == 50).await;
}

/// Also where the call that returns first is not the one that made the node leave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_of_a_node_that_has_left_is_free() {
    let other = Node::start(SECRET, &[]).await;
    for _ in 0..10 {
        let Node { cluster, .. } = Node::start(SECRET, &[&other]).await;
        let addr = cluster.local_addr();
        assert!(!cluster.has_ended());
        tokio::select! {
            () = cluster.leave(PAUSE) => {}
            () = cluster.leave(PAUSE) => {}
        }
        assert!(cluster.has_ended());
        if let Err(error) = UdpSocket::bind(addr) {
            panic!("{addr}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leave_is_announced_in_time_though_a_peer_never_acknowledges() {
    // Its first dial takes longer than the leave.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let a = Node::start(SECRET, &[]).await;
    let b = Node::start_joining(
        "127.0.0.1:0",
        SECRET,
        vec![a.cluster.local_addr(), silent.local_addr().unwrap()],
    )
    .await;
    eventually("a and b see each other", || {
        a.sees(&b, MemberState::Alive) && b.sees(&a, MemberState::Alive) && b.cluster.has_joined()
    })
    .await;
    assert!(b.limit.check_n("last", 40).is_allowed());
    b.cluster.leave(Duration::from_secs(1)).await;
    eventually("b has left", || a.sees(&b, MemberState::Left)).await;
    assert_eq!(a.remaining("last"), 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_bind_every_address_meet_at_those_they_advertise() {
    let start = async |join: Vec<SocketAddr>| {
        let any = "0.0.0.0:0".parse().unwrap();
        let mut config = Config::new(any, Secret::from_bytes(SECRET).unwrap());
        config.advertise = Some("127.0.0.1:0".parse().unwrap());
        config.join = join;
        Cluster::start(config).await.unwrap()
    };
    let a = start(Vec::new()).await;
    assert!(a.local_addr().ip().is_loopback() && a.local_addr().port() != 0);
    let b = start(vec![a.local_addr()]).await;
    assert_eq!(b.joined().await, Some(JoinKind::Joined));
    let sees = |one: &Cluster, other: &Cluster| {
        let members = one.members();
        members.iter().any(|m| m.addr == other.local_addr() && m.state == MemberState::Alive)
    };
    eventually("they know each other", || sees(&a, &b) && sees(&b, &a)).await;
    assert_eq!((a.stats().violations, b.stats().violations), (0, 0));
}

#[tokio::test]
async fn what_cannot_work_is_an_error_at_the_start() {
    let a = Node::start(SECRET, &[]).await;
    let taken = a.cluster.local_addr();
    let config = Config::new(taken, Secret::from_bytes(SECRET).unwrap());
    let error = Cluster::start(config).await.unwrap_err();
    assert!(matches!(error, StartError::Bind { addr, .. } if addr == taken));
    let text = error.to_string();
    assert!(text.starts_with("cannot bind: ") && !text.contains(&taken.to_string()), "{text}");
    // A report of the chain repeats nothing.
    let sources = std::iter::successors(std::error::Error::source(&error), |error| error.source());
    assert!(sources.map(ToString::to_string).all(|source| !text.contains(&source)), "{text}");

    let config = Config::new("0.0.0.0:0".parse().unwrap(), Secret::from_bytes(SECRET).unwrap());
    let error = Cluster::start(config).await.unwrap_err();
    assert!(matches!(error, StartError::Undialable { .. }));

    let addr = "0.0.0.0:7381".parse().unwrap();
    let mut config =
        Config::new("127.0.0.1:0".parse().unwrap(), Secret::from_bytes(SECRET).unwrap());
    config.advertise = Some(addr);
    let error = Cluster::start(config).await.unwrap_err();
    assert!(matches!(error, StartError::Undialable { addr: found, .. } if found == addr));
}
