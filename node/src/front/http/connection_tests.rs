use std::io::ErrorKind;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_cluster::{Config, Secret};
use tidegate_engine::KeyHasher;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use rustix::net::{RecvFlags, SendFlags};

use super::{FrontEnd, Gate, HttpFrontEnd};
use crate::config::bounds::{HttpBounds, MAX_UNSENT_BYTES};
use crate::config::file::LimitConfig;
use crate::front::budget::{Budget, Share};
use crate::front::unsent::tests::WRITE_TIMEOUT;
use crate::front::unsent::{self, Unsent};
use crate::limits::gossip::Gossip;
use crate::limits::limiters::Limiters;
use crate::service::Service;
use crate::service::readiness::Readiness;
use crate::telemetry::meter::FrontEndName;
use crate::telemetry::metrics::ConnectionMetrics;

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
/// Heads of checks whose bodies are `{}`.
const HEAD: &str = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n";
const CHUNKED: &str = "POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";

/// What a client may take for a request more, once the node drains.
const UNDER_WAY: Duration = Duration::from_millis(250);
/// Time in which all tasks have their turn, where it is paused.
const TURN: Duration = Duration::from_millis(1);

fn service() -> Arc<Service> {
    service_in(Gossip::alone())
}

fn service_in(gossip: Gossip) -> Arc<Service> {
    let limiters =
        Limiters::build(&[LimitConfig::built_in()], &gossip, &KeyHasher::siphash([7; 16]));
    Arc::new(Service::new(limiters.unwrap(), gossip))
}

/// The node joins its cluster, and has room for one of two bodies.
#[tokio::test]
async fn checks_wait_as_far_as_there_is_room() {
    let request = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 11\r\n\r\n{\"key\":\"k\"}";
    let (service, readiness) = (service(), Arc::new(Readiness::new()));
    let bounds = HttpBounds { held_body_bytes: 21, ..HttpBounds::default() };
    let front_end =
        HttpFrontEnd::new(Arc::clone(&service), Arc::clone(&readiness), Gate::default(), bounds);
    let (drain, budget) = (CancellationToken::new(), Arc::new(Budget::new(MAX_UNSENT_BYTES)));
    let ask = async || {
        let (mut client, accepted) = unsent::tests::pair().await;
        let metrics = service.metrics().connections(FrontEndName::Http).clone();
        let unsent = Unsent::new(Arc::clone(&budget), WRITE_TIMEOUT, metrics);
        tokio::spawn(front_end.serve(accepted, unsent, drain.clone()));
        client.write_all(request.as_bytes()).await.unwrap();
        client
    };
    let mut clients = [ask().await, ask().await];
    let status = async |client: &mut TcpStream| {
        let mut status = [0; 12];
        client.read_exact(&mut status).await.unwrap();
        String::from_utf8(status.to_vec()).unwrap()
    };
    let [first, second] = &mut clients;
    let (refused, waits) = tokio::select! {
        refused = status(first) => (refused, second),
        refused = status(second) => (refused, first),
    };
    assert_eq!(refused, "HTTP/1.1 503");
    assert_eq!(service.metrics().http_refused().no_room.get(), 1);
    readiness.join();
    // It names no limit.
    assert_eq!(status(waits).await, "HTTP/1.1 400");
    assert_eq!(service.metrics().http_refused().no_room.get(), 1);
}

/// As one that had joined, and starts over because its cluster meets an older one.
#[tokio::test]
async fn a_node_that_is_not_in_its_cluster_is_not_ready() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let secret = Secret::from_bytes(b"a secret of the tests").unwrap();
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), secret);
    config.join = vec![silent.local_addr().unwrap()];
    config.found_after = Duration::from_hours(1);
    let joining = Gossip::start(config.clone()).await.unwrap();
    let ended = Gossip::start(config).await.unwrap();
    ended.leave(Duration::ZERO).await;
    for (gossip, status) in [(joining, "joining"), (ended, "draining"), (Gossip::alone(), "ready")]
    {
        let service = service_in(gossip);
        let metrics = service.metrics().connections(FrontEndName::Http).clone();
        let bounds = HttpBounds::default();
        let front_end = HttpFrontEnd::new(service, Arc::new(joined()), Gate::default(), bounds);
        let (mut client, accepted) = unsent::tests::pair().await;
        client.write_all(b"GET /readyz HTTP/1.0\r\nhost: x\r\n\r\n").await.unwrap();
        let unsent = Unsent::new(Arc::new(Budget::new(MAX_UNSENT_BYTES)), WRITE_TIMEOUT, metrics);
        tokio::spawn(front_end.serve(accepted, unsent, CancellationToken::new()));
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with(&format!(r#"{{"status":"{status}"}}"#)), "{answer}");
    }
}

/// What comes of these bytes, after which the client closes its side.
async fn answered(request: &str, readiness: Readiness) -> String {
    let (mut client, accepted) = unsent::tests::pair().await;
    client.write_all(request.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let serving = spawn(accepted, CancellationToken::new(), readiness);
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    drop(client);
    serving.await.unwrap();
    answers
}

/// A connection of a node that drains, with what its client has sent before, of which the node has
/// not been notified.
async fn draining(sent: &str, under_way: Duration) -> (TcpStream, JoinHandle<()>) {
    let drain = CancellationToken::new();
    drain.cancel();
    let (client, accepted) = unsent::tests::pair().await;
    send(&client, sent);
    let bounds = HttpBounds { under_way, ..HttpBounds::default() };
    (client, tokio::spawn(serving(accepted, drain, Arc::new(stopping()), bounds)))
}

/// Sends without a turn for other tasks, so the node is not notified of it.
fn send(client: &TcpStream, sent: &str) {
    let written = rustix::net::send(client, sent.as_bytes(), SendFlags::DONTWAIT).unwrap();
    assert_eq!(written, sent.len());
}

async fn serving(
    accepted: TcpStream,
    drain: CancellationToken,
    readiness: Arc<Readiness>,
    bounds: HttpBounds,
) {
    let service = service();
    let metrics = service.metrics().connections(FrontEndName::Http).clone();
    let front_end = HttpFrontEnd::new(service, readiness, Gate::default(), bounds);
    let unsent = Unsent::new(Arc::new(Budget::new(MAX_UNSENT_BYTES)), WRITE_TIMEOUT, metrics);
    front_end.serve(accepted, unsent, drain).await;
}

fn spawn(
    accepted: TcpStream,
    drain: CancellationToken,
    readiness: impl Into<Arc<Readiness>>,
) -> JoinHandle<()> {
    tokio::spawn(serving(accepted, drain, readiness.into(), HttpBounds::default()))
}

/// How many answers these are, without those that are provisional.
fn count_in(answers: &str) -> usize {
    answers.matches("\r\ndate: ").count()
}

/// What a client reads until its connection ends, which it then closes. There are `count` answers,
/// of which the last one says that it is, and no other.
async fn read_to_last(mut client: TcpStream, count: usize) -> String {
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    assert_eq!(count_in(&answers), count, "{answers}");
    let (before, last) = answers.rsplit_once("HTTP/1.").unwrap();
    assert!(!before.contains("connection: close"), "{before}");
    assert!(last.contains("connection: close"), "{last}");
    answers
}

/// However short a drain is.
#[tokio::test]
async fn what_has_arrived_is_answered_before_a_drain_ends_a_connection() {
    for count in [0, 1, 3, 1_000] {
        let (mut client, serving) = draining(&HEALTH.repeat(count), Duration::ZERO).await;
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        assert_eq!(count_in(&answers), count, "{answers}");
        drop(client);
        serving.await.unwrap();
    }
}

/// The rest of a head may come later, and more with it; of a client that goes on sending one more
/// request is answered.
#[tokio::test(start_paused = true)]
async fn a_request_that_has_begun_is_answered_before_a_drain_ends_its_connection() {
    let (head, rest) = HEALTH.split_at(HEALTH.len() / 2);
    let (soon, late) = (Duration::from_millis(300), Duration::from_secs(3));
    for (is_idle, pause, count) in
        [(false, Duration::ZERO, 2), (false, late, 1), (true, soon, 2), (true, late, 1)]
    {
        let (mut client, serving) = draining(if is_idle { "" } else { head }, UNDER_WAY).await;
        if is_idle {
            sleep(TURN).await;
            client.write_all(head.as_bytes()).await.unwrap();
        }
        sleep(pause).await;
        client.write_all([rest, HEALTH].concat().as_bytes()).await.unwrap();
        read_to_last(client, count).await;
        serving.await.unwrap();
    }
}

/// Such a body is no head that has begun. Its client has read its answer, and need not close.
#[tokio::test(start_paused = true)]
async fn a_body_that_came_after_its_head_delays_no_drain() {
    let (mut client, accepted) = unsent::tests::pair().await;
    let (drain, readiness) = (CancellationToken::new(), Arc::new(joined()));
    let serving = spawn(accepted, drain.clone(), Arc::clone(&readiness));
    client.write_all(HEAD.as_bytes()).await.unwrap();
    sleep(TURN).await;
    client.write_all(b"{}").await.unwrap();
    let mut status = [0; 12];
    client.read_exact(&mut status).await.unwrap();
    readiness.stop();
    drain.cancel();
    let begun = tokio::time::Instant::now();
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    serving.await.unwrap();
    assert_eq!(begun.elapsed().as_millis() / 10, UNDER_WAY.as_millis() / 10);
}

/// A client that is answered learns that no further request will be: from the last answer, if it
/// sent several requests together.
#[tokio::test(start_paused = true)]
async fn a_request_under_way_when_a_drain_begins_is_the_last() {
    for count in [1, 2, 100] {
        let (mut client, serving) = draining("", UNDER_WAY).await;
        sleep(TURN).await;
        client.write_all(HEALTH.repeat(count).as_bytes()).await.unwrap();
        read_to_last(client, count).await;
        serving.await.unwrap();
    }
}

/// The node lets its client read it, whatever that sends meanwhile, and waits for its end.
#[tokio::test(start_paused = true)]
async fn the_last_answer_of_a_drain_is_not_cut() {
    let refused = "POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 70000\r\n\r\n";
    for (request, more) in [(refused, "x".repeat(70_000)), (HEALTH, HEALTH.to_owned())] {
        let (mut client, serving) = draining(request, UNDER_WAY).await;
        client.readable().await.unwrap();
        // In which a connection that does not linger ends.
        sleep(TURN).await;
        client.write_all(more.as_bytes()).await.unwrap();
        sleep(TURN).await;
        client.write_all(b"x").await.unwrap();
        let begun = tokio::time::Instant::now();
        read_to_last(client, 1).await;
        serving.await.unwrap();
        assert_eq!(begun.elapsed().as_millis(), 0);
    }
}

/// Before it drains: the answer to the last request that has arrived says so, and no other.
#[tokio::test(start_paused = true)]
async fn a_node_that_stops_ends_a_connection_once_what_has_arrived_is_answered() {
    for request in [
        "GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /metrics HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        &[HEAD, "{}"].concat(),
        &[CHUNKED, "1\r\n{\r\n", "1\r\n}\r\n0\r\n\r\n"].concat(),
    ] {
        for count in [1, 2, 500] {
            let (mut client, accepted) = unsent::tests::pair().await;
            client.write_all(request.repeat(count).as_bytes()).await.unwrap();
            let serving = spawn(accepted, CancellationToken::new(), stopping());
            read_to_last(client, count).await;
            serving.await.unwrap();
            let answers = answered(&request.repeat(count), stopping()).await;
            assert_eq!(answers.matches("connection: close").count(), 1, "{answers}");
            assert_eq!(count_in(&answers), count, "{answers}");
        }
    }
}

/// Of a request that is under way when the node is asked to stop, or comes in parts after that.
#[tokio::test(start_paused = true)]
async fn a_request_that_comes_in_parts_ends_a_connection_of_a_node_that_stops() {
    let expecting = "POST /v1/check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\
                     content-length: 2\r\n\r\n";
    let (begun, rest) = HEALTH.split_at(HEALTH.len() / 2);
    for (parts, count) in [
        (&[begun, rest][..], 1),
        (&[HEAD, "{", "}"], 1),
        (&[HEAD, "{", &["}", HEALTH].concat()], 2),
        (&[CHUNKED, "1\r\n{\r\n", "1\r\n}\r\n", "0\r\n\r\n"], 1),
        (&[expecting, "{}"], 1),
        (&[&[HEAD, "{"].concat(), &["}", begun].concat(), rest], 2),
    ] {
        for stops_first in [true, false] {
            let (mut client, accepted) = unsent::tests::pair().await;
            let readiness = Arc::new(joined());
            if stops_first {
                readiness.stop();
            }
            let serving = spawn(accepted, CancellationToken::new(), Arc::clone(&readiness));
            for part in parts {
                client.write_all(part.as_bytes()).await.unwrap();
                sleep(TURN).await;
                readiness.stop();
            }
            read_to_last(client, count).await;
            serving.await.unwrap();
        }
    }
}

/// The system has it, and the node has not been notified of it.
#[tokio::test(start_paused = true)]
async fn a_node_that_stops_answers_what_has_just_arrived() {
    let (mut client, accepted) = unsent::tests::pair().await;
    let readiness = Arc::new(Readiness::new());
    let serving = spawn(accepted, CancellationToken::new(), Arc::clone(&readiness));
    client.write_all([HEAD, "{}"].concat().as_bytes()).await.unwrap();
    // It waits until the node has joined.
    sleep(TURN).await;
    send(&client, HEALTH);
    readiness.join();
    readiness.stop();
    read_to_last(client, 2).await;
    serving.await.unwrap();
}

/// One turn of the connection answers them all.
#[tokio::test]
async fn a_node_that_stops_sends_answers_together() {
    let (mut client, accepted) = unsent::tests::pair().await;
    client.write_all(HEALTH.repeat(10).as_bytes()).await.unwrap();
    accepted.readable().await.unwrap();
    let drain = CancellationToken::new();
    let serving = serving(accepted, drain, Arc::new(stopping()), HttpBounds::default());
    let mut serving = std::pin::pin!(serving);
    std::future::poll_fn(|context| {
        assert!(serving.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    let mut answers = [0; 8 * 1024];
    let (count, _) = rustix::net::recv(&client, &mut answers, RecvFlags::DONTWAIT).unwrap();
    let answers = std::str::from_utf8(&answers[..count]).unwrap();
    assert_eq!(count_in(answers), 10);
}

#[tokio::test]
async fn probes_are_answered_beyond_the_bound_on_connections() {
    let (service, readiness) = (service(), Arc::new(joined()));
    let front_end = HttpFrontEnd::new(service, readiness, Gate::default(), HttpBounds::default());
    for (request, status) in [
        ("GET /healthz", 200),
        ("HEAD /readyz", 200),
        ("POST /healthz", 503),
        ("GET /metrics", 503),
        ("POST /v1/check", 503),
    ] {
        let (mut client, accepted) = unsent::tests::pair().await;
        let refusing = tokio::spawn(front_end.refuse(accepted));
        client
            .write_all(format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        drop(client);
        refusing.await.unwrap();
    }
}

fn joined() -> Readiness {
    let readiness = Readiness::new();
    readiness.join();
    readiness
}

fn stopping() -> Readiness {
    let readiness = joined();
    readiness.stop();
    readiness
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_its_side_is_answered() {
    let check = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    for (request, status) in [(check, "400"), (HEALTH, "200")] {
        for count in [1, 2, 1_000] {
            let begun = tokio::time::Instant::now();
            let answers = answered(&request.repeat(count), joined()).await;
            assert_eq!(answers.matches(&format!("HTTP/1.1 {status}")).count(), count);
            assert!(begun.elapsed() < Duration::from_millis(500), "it is not waited for");
        }
    }
}

/// Also if the systems of both ends do not hold the rest of its last answer, and it reads late. Its
/// connection ends then: nothing more can come.
#[tokio::test(start_paused = true)]
async fn a_client_that_closes_its_side_is_sent_its_whole_answer() {
    let request = "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n";
    for count in 1..50 {
        let begun = tokio::time::Instant::now();
        let (mut client, accepted) = unsent::tests::pair().await;
        client.write_all(request.repeat(count).as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let serving = spawn(accepted, CancellationToken::new(), joined());
        sleep(Duration::from_secs(2)).await;
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        assert_eq!(count_in(&answers), count);
        assert!(answers.ends_with(" 0\n"), "{answers}");
        drop(client);
        serving.await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "{count}");
    }
}

/// It cannot be distinguished from one that hangs up, and takes a place.
#[tokio::test(start_paused = true)]
async fn a_client_that_closes_its_side_while_its_check_waits_is_dropped() {
    let request = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(answered(request, Readiness::new()).await, "");
}

/// Where the rest of a body is not read.
#[tokio::test]
async fn the_last_answer_of_a_connection_says_that_it_is() {
    // It ends early.
    let request = "POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabcde";
    assert!(answered(request, joined()).await.contains("connection: close"));
    for (length, fields, is_last) in
        [(9, "", false), (70_000, "", true), (9, "expect: y\r\n", true)]
    {
        let head = "POST /nowhere HTTP/1.1\r\nhost: x\r\n";
        let body = "x".repeat(length);
        let request = format!("{head}{fields}content-length: {length}\r\n\r\n{body}{HEALTH}");
        let answers = answered(&request, joined()).await;
        assert!(answers.starts_with("HTTP/1.1 404"), "{answers}");
        assert_eq!(answers.contains("connection: close"), is_last, "{answers}");
        assert_eq!(answers.contains("HTTP/1.1 200"), !is_last, "{answers}");
    }
    // And nothing else, to a client that keeps a connection only where that is said.
    for path in ["nowhere", "v1/check"] {
        let head = format!("POST /{path} HTTP/1.0\r\nconnection: keep-alive\r\n");
        let body = "x".repeat(70_000);
        let request = format!("{head}content-length: 70000\r\n\r\n{body}");
        let answer = answered(&request, joined()).await;
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        assert!(!answer.contains("keep-alive"), "{answer}");
    }
}

/// Asks for more than the systems of both ends hold of answers, and reads none of them, until the
/// task that serves it has ended.
async fn deaf(unsent: &Arc<Budget>) -> ConnectionMetrics {
    let service = service();
    let metrics = service.metrics().connections(FrontEndName::Http).clone();
    let readiness = Arc::new(Readiness::new());
    let front_end = HttpFrontEnd::new(service, readiness, Gate::default(), HttpBounds::default());
    let (mut client, accepted) = unsent::tests::pair().await;
    let unsent = Unsent::new(Arc::clone(unsent), WRITE_TIMEOUT, metrics.clone());
    let serving = front_end.serve(accepted, unsent, CancellationToken::new());
    // As long as it is open it takes this, and hyper's buffers.
    assert!(size_of_val(&serving) <= 2_048, "{} bytes", size_of_val(&serving));
    let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n";
    client.write_all(&request.repeat(500)).await.unwrap();
    tokio::time::timeout(Duration::from_hours(1), serving).await.expect("an end");
    let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    metrics
}

/// Time is paused: it advances as soon as all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_cut_off() {
    let unsent = Arc::new(Budget::new(MAX_UNSENT_BYTES));
    let metrics = deaf(&unsent).await;
    assert_eq!(metrics.closed_write_timeout.get(), 1);
    assert_eq!(metrics.closed_no_room.get(), 0);
    assert!(Share::new(unsent).resize(MAX_UNSENT_BYTES), "it still holds something");
}

#[tokio::test(start_paused = true)]
async fn unsent_answers_are_bounded() {
    let metrics = deaf(&Arc::new(Budget::new(100))).await;
    assert_eq!(metrics.closed_write_timeout.get(), 0);
    assert_eq!(metrics.closed_no_room.get(), 1);
}
