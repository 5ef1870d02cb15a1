use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_engine::KeyHasher;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::bounds::{HttpBounds, MAX_UNSENT_BYTES};
use crate::config::file::LimitConfig;
use crate::front::budget::Budget;
use crate::front::http::{Gate, HttpFrontEnd};
use crate::front::net::FrontEnd;
use crate::front::unsent::Unsent;
use crate::front::unsent::tests::{WRITE_TIMEOUT, pair};
use crate::limits::gossip::Gossip;
use crate::limits::limiters::Limiters;
use crate::service::Service;
use crate::service::readiness::Readiness;
use crate::telemetry::meter::FrontEndName;

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
const METRICS: &str = "HEAD /metrics HTTP/1.1\r\nhost: x\r\n\r\n";
/// Far more than an answer takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Enough to notice what comes, mostly.
const PAUSE: Duration = Duration::from_millis(10);

fn check(limit: &str, key: &str) -> String {
    let body = format!(r#"{{"limit":"{limit}","key":"{key}"}}"#);
    let head = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length";
    format!("{head}: {}\r\n\r\n{body}", body.len())
}

fn front_end() -> HttpFrontEnd {
    let gossip = Gossip::alone();
    let hasher = KeyHasher::siphash([7; 16]);
    let limiters = Limiters::build(&[LimitConfig::built_in()], &gossip, &hasher).unwrap();
    let readiness = Readiness::new();
    readiness.join();
    let service = Arc::new(Service::new(limiters, gossip));
    HttpFrontEnd::new(service, Arc::new(readiness), Gate::default(), HttpBounds::default())
}

struct Client {
    stream: TcpStream,
    read: String,
}

impl Client {
    async fn connect(front_end: &HttpFrontEnd) -> Self {
        Self::connect_with(front_end, WRITE_TIMEOUT).await
    }

    /// The node waits so long for it to read.
    async fn connect_with(front_end: &HttpFrontEnd, timeout: Duration) -> Self {
        let (stream, accepted) = pair().await;
        let metrics = front_end.node.service.metrics().connections(FrontEndName::Http).clone();
        let unsent = Unsent::new(Arc::new(Budget::new(MAX_UNSENT_BYTES)), timeout, metrics);
        tokio::spawn(front_end.serve(accepted, unsent, CancellationToken::new()));
        Self { stream, read: String::new() }
    }

    async fn send(&mut self, requests: &str) {
        self.stream.write_all(requests.as_bytes()).await.unwrap();
    }

    /// There are as many answers in all, and no more.
    async fn expect(&mut self, count: usize) {
        let mut bytes = vec![0; 64 * 1024];
        let mut wait = PATIENCE;
        while let Ok(Ok(length @ 1..)) = timeout(wait, self.stream.read(&mut bytes)).await {
            self.read += std::str::from_utf8(&bytes[..length]).unwrap();
            wait = if self.count() < count { PATIENCE } else { PAUSE };
        }
        assert_eq!(self.count(), count);
    }

    /// There is nothing to read.
    async fn expect_none(&mut self) {
        let read = timeout(PAUSE, self.stream.read(&mut [0])).await;
        assert!(read.is_err(), "{read:?}");
    }

    fn count(&self) -> usize {
        self.read.matches("\r\ndate: ").count()
    }
}

/// The line does not move.
#[tokio::test]
async fn only_a_client_that_waits_for_each_answer_does_not_stand_in_line() {
    let front_end = front_end();
    let stopped = front_end.node.turns.stop().await;
    let mut calm = Client::connect(&front_end).await;
    for asked in (1..=40).step_by(2) {
        calm.send(HEALTH).await;
        calm.expect(asked).await;
        calm.send(&check("default", "k")).await;
        calm.expect(asked + 1).await;
    }
    let mut hasty = Client::connect(&front_end).await;
    hasty.send(&HEALTH.repeat(40)).await;
    hasty.expect(16).await;
    drop(stopped);
    hasty.expect(40).await;
}

#[tokio::test]
async fn large_requests_have_a_turn_of_their_own() {
    let front_end = front_end();
    let large = check("default", &"k".repeat(9_000));
    for request in [METRICS, &large, "GET /v1/cluster HTTP/1.0\r\n\r\n"] {
        let mut client = Client::connect(&front_end).await;
        let stopped = front_end.node.turns.stop().await;
        client.send(request).await;
        client.expect_none().await;
        drop(stopped);
        client.expect(1).await;
    }
}

/// However long it waits in between.
#[tokio::test]
async fn a_client_that_names_no_limit_waits_for_its_next_turn() {
    let front_end = front_end();
    let mut client = Client::connect(&front_end).await;
    let stopped = front_end.node.turns.stop().await;
    client.send(&check("defalt", "k")).await;
    client.expect(1).await;
    client.send(HEALTH).await;
    client.expect_none().await;
    drop(stopped);
    client.expect(2).await;
}

/// How many turns begin with this many requests.
fn turns(turn: &mut Turn, requests: u64, work: u64) -> usize {
    (0..requests).filter(|_| turn.add_request(work)).count()
}

/// Time is paused. Its node would have dropped it after a second.
#[tokio::test(start_paused = true)]
async fn a_client_that_closes_its_side_in_line_is_answered() {
    let front_end = front_end();
    let mut client = Client::connect(&front_end).await;
    let stopped = front_end.node.turns.stop().await;
    client.send(METRICS).await;
    client.stream.shutdown().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    drop(stopped);
    let mut answer = String::new();
    client.stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

/// A request whose answer the systems of both ends do not hold.
fn large_batch() -> String {
    let checks = vec![r#"{"key":"k","limit":"default"}"#; 1_000].join(",");
    let body = format!(r#"{{"checks":[{checks}]}}"#);
    let head = "POST /v1/check-batch HTTP/1.1\r\nhost: x\r\ncontent-length";
    format!("{head}: {}\r\n\r\n{body}", body.len())
}

/// Time is paused. The client begins to read so late that the time for a head would be over.
#[tokio::test(start_paused = true)]
async fn a_head_is_waited_for_from_when_the_last_answer_was_sent() {
    let front_end = front_end();
    let time = front_end.node.bounds.head_timeout;
    let mut client = Client::connect_with(&front_end, 10 * time).await;
    client.send(&large_batch()).await;
    tokio::time::sleep(time * 1_999 / 1_000).await;
    client.expect(1).await;
    tokio::time::sleep(time / 2).await;
    client.send(HEALTH).await;
    client.expect(2).await;
}

/// Its answer is too large to be coalesced, and goes to the socket as it is.
#[tokio::test]
async fn a_client_that_does_not_read_a_large_answer_takes_no_turns() {
    let front_end = front_end();
    let (mut client, accepted) = pair().await;
    let metrics = front_end.node.service.metrics().connections(FrontEndName::Http).clone();
    let unsent = Unsent::new(Arc::new(Budget::new(MAX_UNSENT_BYTES)), WRITE_TIMEOUT, metrics);
    let mut serving = Box::pin(front_end.serve(accepted, unsent, CancellationToken::new()));
    let polls = Arc::new(Mutex::new(0_u64));
    let counted = Arc::clone(&polls);
    tokio::spawn(std::future::poll_fn(move |context| {
        *counted.lock().unwrap() += 1;
        serving.as_mut().poll(context)
    }));
    client.write_all(large_batch().repeat(2).as_bytes()).await.unwrap();
    let polls = || *polls.lock().unwrap();
    for _ in 0..1_000 {
        let before = polls();
        tokio::time::sleep(PAUSE).await;
        if polls() == before {
            return;
        }
    }
    panic!("polled without a pause: {} times", polls());
}

#[test]
fn small_requests_share_a_turn_and_a_large_one_has_its_own() {
    let mut turn = Turn::default();
    assert_eq!(turns(&mut turn, 16, 1), 0);
    assert_eq!(turns(&mut turn, 32, 1), 2);
    assert_eq!(turns(&mut turn, 3, TURN), 3);
    // None is left for another one.
    assert_eq!(turns(&mut turn, 1, 1), 1);
}

#[test]
fn a_pause_ends_a_turn_that_is_not_used_up() {
    let mut turn = Turn::default();
    for _ in 0..100 {
        assert_eq!(turns(&mut turn, 15, 1), 0);
        turn.pause();
    }
    assert_eq!(turns(&mut turn, 15, 1), 0);
    turn.add(1);
    turn.pause();
    assert_eq!(turns(&mut turn, 1, 1), 1);
    turn.add(u64::MAX);
    assert_eq!(turns(&mut turn, 1, 1), 1);
}
