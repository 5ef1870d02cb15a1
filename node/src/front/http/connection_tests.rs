use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::KeyHasher;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use rustix::net::SendFlags;

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

fn service() -> Arc<Service> {
    let limiters =
        Limiters::build(&[LimitConfig::built_in()], &Gossip::alone(), &KeyHasher::siphash([7; 16]));
    Arc::new(Service::new(limiters.unwrap(), Gossip::alone()))
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

/// What comes of these bytes, after which the client closes its side.
async fn answered(request: &str, readiness: Readiness) -> String {
    let service = service();
    let metrics = service.metrics().connections(FrontEndName::Http).clone();
    let (gate, bounds) = (Gate::default(), HttpBounds::default());
    let front_end = HttpFrontEnd::new(service, Arc::new(readiness), gate, bounds);
    let (mut client, accepted) = unsent::tests::pair().await;
    let unsent = Unsent::new(Arc::new(Budget::new(MAX_UNSENT_BYTES)), WRITE_TIMEOUT, metrics);
    client.write_all(request.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let serving = tokio::spawn(front_end.serve(accepted, unsent, CancellationToken::new()));
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    drop(client);
    serving.await.unwrap();
    answers
}

/// A connection of a node that drains, with what its client has sent before, of which the node has
/// not been notified.
async fn draining(sent: &str) -> (TcpStream, tokio::task::JoinHandle<()>) {
    let drain = CancellationToken::new();
    drain.cancel();
    let (client, accepted) = unsent::tests::pair().await;
    let flags = SendFlags::DONTWAIT;
    let written = rustix::net::send(&client, sent.as_bytes(), flags).unwrap();
    assert_eq!(written, sent.len());
    (client, serving(accepted, drain, joined()))
}

fn serving(
    accepted: TcpStream,
    drain: CancellationToken,
    readiness: Readiness,
) -> tokio::task::JoinHandle<()> {
    let service = service();
    let metrics = service.metrics().connections(FrontEndName::Http).clone();
    let (gate, bounds) = (Gate::default(), HttpBounds::default());
    let front_end = HttpFrontEnd::new(service, Arc::new(readiness), gate, bounds);
    let unsent = Unsent::new(Arc::new(Budget::new(MAX_UNSENT_BYTES)), WRITE_TIMEOUT, metrics);
    tokio::spawn(front_end.serve(accepted, unsent, drain))
}

#[tokio::test]
async fn what_has_arrived_is_answered_before_a_drain_ends_a_connection() {
    let health = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    for count in [0, 1, 3, 1_000] {
        let (mut client, serving) = draining(&health.repeat(count)).await;
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        assert_eq!(answers.matches("HTTP/1.1 200").count(), count);
        serving.await.unwrap();
    }
}

/// The rest of a head may come later; of a client that goes on sending one more request is
/// answered.
#[tokio::test(start_paused = true)]
async fn a_request_that_has_begun_is_answered_before_a_drain_ends_its_connection() {
    let (head, rest) = ("GET /healthz HTTP/1.1\r\nho", "st: x\r\n\r\n");
    for (pause, is_last) in [(Duration::ZERO, false), (Duration::from_secs(3), true)] {
        let (mut client, serving) = draining(head).await;
        tokio::time::sleep(pause).await;
        client.write_all(rest.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(answer.contains("connection: close"), is_last, "{answer}");
        serving.await.unwrap();
    }
}

/// Such a body is no head that has begun.
#[tokio::test(start_paused = true)]
async fn a_body_that_came_after_its_head_delays_no_drain() {
    let (mut client, accepted) = unsent::tests::pair().await;
    let drain = CancellationToken::new();
    let serving = serving(accepted, drain.clone(), joined());
    let head = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    client.write_all(b"{}").await.unwrap();
    let mut status = [0; 12];
    client.read_exact(&mut status).await.unwrap();
    drain.cancel();
    let begun = tokio::time::Instant::now();
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    serving.await.unwrap();
    assert_eq!(begun.elapsed().as_millis() / 10, HttpBounds::default().under_way.as_millis() / 10);
}

/// A client that is answered learns that no further request will be.
#[tokio::test(start_paused = true)]
async fn a_request_under_way_when_a_drain_begins_is_the_last() {
    let health = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let (mut client, serving) = draining(health).await;
    let mut first = [0; 12];
    client.read_exact(&mut first).await.unwrap();
    assert_eq!(first, *b"HTTP/1.1 200");
    client.write_all(health.as_bytes()).await.unwrap();
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    let (first, second) = answers.split_once("HTTP/1.1 200").unwrap();
    assert!(!first.contains("connection: close") && second.contains("connection: close"));
    serving.await.unwrap();
}

/// Before it drains: the answer to the last request that has arrived says so, and no other.
#[tokio::test(start_paused = true)]
async fn a_node_that_stops_ends_a_connection_once_what_has_arrived_is_answered() {
    let check = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    for request in [
        "GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /metrics HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        check,
    ] {
        for count in [1, 2, 500] {
            let (mut client, accepted) = unsent::tests::pair().await;
            client.write_all(request.repeat(count).as_bytes()).await.unwrap();
            let readiness = joined();
            readiness.stop();
            let serving = serving(accepted, CancellationToken::new(), readiness);
            let mut answers = String::new();
            client.read_to_string(&mut answers).await.unwrap();
            assert_eq!(answers.matches("HTTP/1.").count(), count, "{request}");
            let (before, last) = answers.rsplit_once("HTTP/1.").unwrap();
            assert!(!before.contains("connection: close"), "{before}");
            assert!(last.contains("connection: close"), "{last}");
            drop(client);
            serving.await.unwrap();
        }
    }
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

#[tokio::test]
async fn a_client_that_closes_its_side_is_answered() {
    let request = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    for count in [1, 2, 1_000] {
        let answers = answered(&request.repeat(count), joined()).await;
        assert_eq!(answers.matches("HTTP/1.1 400").count(), count);
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
    let health = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    // It ends early.
    let request = "POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabcde";
    assert!(answered(request, joined()).await.contains("connection: close"));
    for (length, fields, is_last) in
        [(9, "", false), (70_000, "", true), (9, "expect: y\r\n", true)]
    {
        let head = "POST /nowhere HTTP/1.1\r\nhost: x\r\n";
        let body = "x".repeat(length);
        let request = format!("{head}{fields}content-length: {length}\r\n\r\n{body}{health}");
        let answers = answered(&request, joined()).await;
        assert!(answers.starts_with("HTTP/1.1 404"), "{answers}");
        assert_eq!(answers.contains("connection: close"), is_last, "{answers}");
        assert_eq!(answers.contains("HTTP/1.1 200"), !is_last, "{answers}");
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
