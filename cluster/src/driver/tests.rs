//! What the driver requires of QUIC and TLS.

mod dual_stack;
mod failing;
mod left_out;
mod trust;
mod versions;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};
use tidegate_engine::{KeyHash, Limiter, Quota};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::certificate::Identity;
use super::keys::Keys;
use super::limiters::Limiters;
use super::link::{self, Link, LinkEvent, Reports, Streams};
use super::shared::{Shared, View};
use super::tls::{Configs, SERVER_NAME, subject_of, transport};
use crate::limits::DebtLimiter;
use crate::member::{Member, MemberState};
use crate::protocol::{
    Change, Channel, Delta, Host, JoinKind, Level, LinkId, MAX_PACKET_BYTES, Stats, Subject, nanos,
};
use crate::secret::Secret;
use crate::{Cluster, ClusterName, Config, LimitId};

fn secret(text: &str) -> Secret {
    Secret::from_bytes(text.as_bytes()).unwrap()
}

/// The address in the certificates here.
fn addr() -> SocketAddr {
    "10.0.0.1:7381".parse().unwrap()
}

fn identity(cluster: &str, secret: &Secret) -> Identity {
    Identity::new(&cluster.parse().unwrap(), addr(), &secret.clone().into()).unwrap()
}

fn both(cluster: &str, identity: &Identity) -> (ServerConfig, ClientConfig) {
    let configs = Configs::new(&cluster.parse().unwrap(), identity).unwrap();
    (configs.server, configs.client)
}

fn by_secret(secret: &Secret) -> (ServerConfig, ClientConfig) {
    both("test", &identity("test", secret))
}

fn endpoint(server: ServerConfig) -> (Endpoint, SocketAddr) {
    let endpoint = Endpoint::server(server, "127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = endpoint.local_addr().unwrap();
    (endpoint, addr)
}

/// Both ends of a connection, where the handshake succeeds.
async fn connect(
    server: ServerConfig,
    client: ClientConfig,
) -> (Option<Connection>, Option<Connection>) {
    let (accepting, addr) = endpoint(server);
    let dialling = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let dialled = dialling.connect_with(client, addr, SERVER_NAME).unwrap();
    let accepted = async { accepting.accept().await?.await.ok() };
    let (dialled, accepted) = tokio::join!(dialled, accepted);
    (dialled.ok(), accepted)
}

#[tokio::test]
async fn the_burst_tolerance_of_a_quota_that_comes_with_a_check_is_known() {
    let shared = Shared::new(addr(), Keys::new([0; 16]), Instant::now());
    let limiter = Limiter::builder(Quota::per_second(1)).build().unwrap();
    let limiter: Arc<dyn DebtLimiter> = Arc::new(limiter);
    shared.limits.insert(LimitId::INLINE, Arc::downgrade(&limiter), || 0).unwrap();
    let mut host = Limiters::new(Arc::new(shared));
    let id = |quota: Quota| LimitId::inline(quota.debt_of(1), quota.burst_size()).to_bits();
    let fast = id(Quota::per_second(10_000).burst(1_024));
    let slow = id(Quota::per_minute(100));
    let tolerance = |limit| host.tolerance(limit).map(Duration::from_nanos);
    assert_eq!(tolerance(LimitId::INLINE.to_bits()), Some(Duration::from_secs(1)));
    for (limit, millis) in [(fast, 102.4), (slow, 60_000.0)] {
        let found = tolerance(limit).unwrap().as_secs_f64() * 1e3;
        assert!((0.968 * millis..=millis).contains(&found), "{found} of {millis} ms");
    }
    // One key has one word.
    let change = Change { debt: 5_000_000_000, date: 0 };
    assert!(host.apply(0, Delta { limit: slow, key: 1, change }));
    assert!(host.debt(0, fast, 1) > 0);
}

/// The driver of a node that reaches no other publishes seldom. Then it reaches one, which a view
/// does not say at once: what was shown is not shown smaller.
#[tokio::test(start_paused = true)]
async fn the_time_alone_goes_on_between_two_views() {
    let shared = Shared::new(addr(), Keys::new([0; 16]), Instant::now());
    let second = Duration::from_secs(1);
    for (is_alone, alone_for, expected) in
        [(false, 7, [7, 7]), (true, 7, [7, 10]), (false, 9, [10, 10]), (false, 11, [11, 11])]
    {
        let stats = Stats { is_alone, alone_for: alone_for * second, ..Stats::default() };
        shared.publish(View { at: shared.now(), stats, ..View::default() });
        let at_once = shared.stats().alone_for;
        tokio::time::advance(3 * second).await;
        assert_eq!([at_once, shared.stats().alone_for], expected.map(|n| n * second));
    }
}

/// It joins anew: a caller that waits goes on once it has joined the other cluster.
#[tokio::test]
async fn a_node_that_starts_over_has_not_joined() {
    let shared = Shared::new(addr(), Keys::new([0; 16]), Instant::now());
    shared.enter(JoinKind::FoundedAlone);
    assert_eq!((shared.has_joined(), shared.joined().await), (true, Some(JoinKind::FoundedAlone)));
    shared.await_state();
    assert!(!shared.has_joined());
    let enters = async {
        // It starts over once more before those that wait have their turn.
        tokio::task::yield_now().await;
        shared.enter(JoinKind::Joined);
        shared.await_state();
        tokio::task::yield_now().await;
        shared.enter(JoinKind::Joined);
    };
    assert_eq!(tokio::join!(shared.joined(), enters).0, Some(JoinKind::Joined));
}

#[tokio::test]
async fn a_leave_may_take_for_ever() {
    let start = async |join| {
        let mut config = Config::new("127.0.0.1:0".parse().unwrap(), secret("0123456789abcdef"));
        config.join = join;
        Cluster::start(config).await.unwrap()
    };
    let stays = start(Vec::new()).await;
    let leaves = start(vec![stays.local_addr()]).await;
    assert!(leaves.joined().await.is_some());
    leaves.leave(Duration::MAX).await;
    let has_left = async {
        let has_left = |member: &Member| member.state == MemberState::Left;
        while !stays.members().iter().any(has_left) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_mins(1), has_left).await;
    assert!(seen.is_ok(), "{:?}", stays.members());
}

#[tokio::test]
async fn debts_are_as_of_the_step_that_reads_them() {
    let second = 1_000_000_000;
    let shared = Shared::new(addr(), Keys::new([0; 16]), Instant::now() - Duration::from_secs(10));
    let limiter = Limiter::builder(Quota::per_minute(1).burst(10)).build().unwrap();
    let limiter: Arc<dyn DebtLimiter> = Arc::new(limiter);
    shared.limits.insert(LimitId::named("api"), Arc::downgrade(&limiter), || 0).unwrap();
    let (limit, key) = (LimitId::named("api").to_bits(), KeyHash::from_bits(1));
    let mut host = Limiters::new(Arc::new(shared));
    limiter.charge(key, Duration::from_secs(300), Duration::ZERO);
    // The step began a second ago.
    let (began, owed) = (9 * second, host.debt(9 * second, limit, 1));
    let present = |limiter: &dyn DebtLimiter| nanos(limiter.debt_at(key, limiter.now()));
    assert!(owed >= present(&*limiter) + second, "{owed}");
    assert!(owed <= 302 * second, "{owed}");
    // One that begins half a second later.
    let later = host.debt(began + second / 2, limit, 1);
    assert!((owed - second / 2 - second / 4..owed).contains(&later), "{owed}, then {later}");
    assert!(host.raise(began, Level { limit, key: 1, debt: 400 * second }));
    let owed = present(&*limiter);
    assert!((300 * second..=399 * second).contains(&owed), "{owed}");
    assert_eq!(host.debt(began, limit, 2), 0);
}

#[tokio::test]
async fn the_limiter_that_was_looked_up_last_is_that_of_its_limit() {
    let shared = Arc::new(Shared::new(addr(), Keys::new([0; 16]), Instant::now()));
    let mut host = Limiters::new(Arc::clone(&shared));
    let (key, day) = (KeyHash::from_bits(1), 86_400_000_000_000);
    let insert = |name, days| {
        let limiter = Limiter::builder(Quota::per_day(1).burst(10)).build().unwrap();
        let limiter: Arc<dyn DebtLimiter> = Arc::new(limiter);
        limiter.charge(key, Duration::from_nanos(day) * days, Duration::ZERO);
        shared.limits.insert(LimitId::named(name), Arc::downgrade(&limiter), || 0).unwrap();
        limiter
    };
    let mut days =
        |name| host.debt(0, LimitId::named(name).to_bits(), 1).saturating_add(day / 2) / day;
    let (one, _other) = (insert("one", 1), insert("other", 2));
    assert_eq!((days("one"), days("other"), days("one")), (1, 2, 1));
    drop(one);
    assert_eq!(days("one"), 0);
    let _again = insert("one", 3);
    assert_eq!((days("one"), days("other")), (3, 2));
}

#[tokio::test]
async fn a_fresh_path_takes_the_largest_membership_packet() {
    let (mut server, mut client) = by_secret(&secret("0123456789abcdef"));
    // Without MTU discovery the path stays as it is at its start.
    let mut transport = transport();
    transport.mtu_discovery_config(None);
    let transport = Arc::new(transport);
    server.transport_config(Arc::clone(&transport));
    client.transport_config(transport);
    let (dialled, accepted) = connect(server, client).await;
    for connection in [dialled.unwrap(), accepted.unwrap()] {
        let room = connection.max_datagram_size().unwrap();
        assert!(room >= MAX_PACKET_BYTES, "{room} bytes");
    }
}

/// Both ends of a link between two nodes of a cluster.
async fn link(id: LinkId) -> (Streams, Streams) {
    let name: ClusterName = "test".parse().unwrap();
    let (server, client) = by_secret(&secret("0123456789abcdef"));
    let (accepting, addr) = endpoint(server);
    let mut dialling = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    dialling.set_default_client_config(client);
    let (events, mut dialled) = mpsc::channel(1);
    let accepted = async { link::accept(accepting.accept().await.unwrap(), &name).await };
    let dial = link::dial(dialling, name.clone(), id, addr, events);
    let (accepted, ()) = tokio::join!(accepted, dial);
    match dialled.recv().await {
        Some(LinkEvent::Dialled { streams: Some(streams), .. }) => {
            (streams, accepted.ok().unwrap())
        }
        _ => panic!("not dialled"),
    }
}

/// A node that has more to do than it can is a member all the same.
#[tokio::test]
async fn datagrams_do_not_wait_behind_messages() {
    let id = left_out::driver().core.accepted(0, Subject::node(addr())).unwrap();
    let (one, other) = link(id).await;
    let (events, mut waiting) = mpsc::channel(1);
    let (datagrams, mut received) = mpsc::channel(1);
    let tasks = tokio::runtime::Handle::current();
    let reports = Reports { events: events.clone(), datagrams };
    let _receiving = Link::new(id, one, &reports, &tasks);
    let reports = Reports { events: mpsc::channel(1).0, datagrams: mpsc::channel(1).0 };
    let sending = Link::new(id, other, &reports, &tasks);
    for _ in 0..3 {
        sending.send(Channel::Main, Bytes::from_static(b"message"));
    }
    while events.capacity() > 0 {
        tokio::task::yield_now().await;
    }
    sending.send_datagram(Bytes::from_static(b"datagram"));
    assert_eq!(received.recv().await, Some((id, Bytes::from_static(b"datagram"))));
    assert!(matches!(waiting.recv().await, Some(LinkEvent::Message { .. })));
}

#[tokio::test]
async fn each_side_refuses_the_other_secret() {
    let (ours, theirs) = (secret("0123456789abcdef"), secret("fedcba9876543210"));
    // The dialler detects that the node has another secret.
    let (server, _) = by_secret(&theirs);
    let (_, client) = by_secret(&ours);
    assert!(connect(server, client).await.0.is_none());
    // The node detects it, though the dialler would go on.
    let (server, _) = by_secret(&ours);
    let (_, accepted) = connect(server, impostor(&ours, "test", identity("test", &theirs))).await;
    assert!(accepted.is_none());
}

/// A dialler that trusts the nodes of `cluster` with this secret, and holds another certificate.
fn impostor(trusted: &Secret, cluster: &str, held: Identity) -> ClientConfig {
    let roots = identity(cluster, trusted).roots;
    both(cluster, &Identity { roots, ..held }).1
}

#[tokio::test]
async fn each_side_refuses_another_cluster_of_the_same_authority() {
    let secret = secret("0123456789abcdef");
    let (server, _) = both("theirs", &identity("theirs", &secret));
    let (_, client) = both("ours", &identity("ours", &secret));
    assert!(connect(server, client).await.0.is_none());
    let (server, _) = both("ours", &identity("ours", &secret));
    // It accepts the node, but its own certificate is that of another cluster.
    let client = impostor(&secret, "ours", identity("theirs", &secret));
    assert!(connect(server, client).await.1.is_none());
}

#[tokio::test]
async fn both_sides_read_the_identity_of_the_other_from_its_certificate() {
    let (server, client) = by_secret(&secret("0123456789abcdef"));
    let (dialled, accepted) = connect(server, client).await;
    let cluster: ClusterName = "test".parse().unwrap();
    for connection in [dialled.unwrap(), accepted.unwrap()] {
        assert_eq!(subject_of(&connection, &cluster), Some(Subject::node(addr())));
    }
}

/// The first packets of connections that are never continued, as a stranger without the secret can
/// send them.
async fn initial_packets(count: usize) -> Vec<Vec<u8>> {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_nonblocking(true).unwrap();
    let sink = tokio::net::UdpSocket::from_std(sink).unwrap();
    let (_, client) = by_secret(&secret("another secret.."));
    let dialling = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let (mut packets, mut dialled) = (Vec::new(), Vec::new());
    let mut buffer = [0; 2_048];
    while packets.len() < count {
        let addr = sink.local_addr().unwrap();
        // Kept, so that none of them is closed by a packet.
        dialled.push(dialling.connect_with(client.clone(), addr, SERVER_NAME).unwrap());
        let length = sink.recv(&mut buffer).await.unwrap();
        packets.push(buffer[..length].to_vec());
    }
    packets
}

#[tokio::test]
async fn half_open_handshakes_keep_no_member_out() {
    // More than there are places; each would keep its place for five seconds.
    let packets = initial_packets(300).await;
    let start = |join: Vec<SocketAddr>| async move {
        let mut config = Config::new("127.0.0.1:0".parse().unwrap(), secret("0123456789abcdef"));
        config.join = join;
        Cluster::start(config).await.unwrap()
    };
    let node = start(Vec::new()).await;
    let addr = node.local_addr();
    let stranger = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let flood = tokio::spawn(async move {
        loop {
            for packet in &packets {
                let _ = stranger.send_to(packet, addr).await;
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }
    });
    while node.stats().handshakes_retried + node.stats().links_refused == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let joining = start(vec![addr]).await;
    let joined = async {
        while !joining.has_joined() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let joined = tokio::time::timeout(Duration::from_mins(1), joined).await;
    flood.abort();
    joined.expect("the node joins during the flood");
    assert_eq!(node.stats().links_refused, 0);
}
