use std::sync::Arc;

use tidegate_engine::KeyHasher;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::super::connection::HttpFrontEnd;
use super::super::gate::Gate;
use super::*;
use crate::config::bounds::{HttpBounds, MAX_UNSENT_BYTES};
use crate::config::file::LimitConfig;
use crate::front::budget::Budget;
use crate::front::net::FrontEnd;
use crate::front::unsent::Unsent;
use crate::front::unsent::tests::{WRITE_TIMEOUT, pair};
use crate::limits::gossip::Gossip;
use crate::limits::limiters::Limiters;
use crate::service::readiness::Readiness;
use crate::telemetry::exposition::Format;
use crate::telemetry::meter::FrontEndName;
use crate::telemetry::testing::Captured;

fn service() -> Arc<Service> {
    let hasher = KeyHasher::siphash([7; 16]);
    let limiters = Limiters::build(&[LimitConfig::built_in()], &Gossip::alone(), &hasher).unwrap();
    Arc::new(Service::new(limiters, Gossip::alone()))
}

/// How many errors of this code were counted.
fn counted(service: &Service, code: &str) -> String {
    let text = service.metrics().render(Format::Classic);
    let name = format!("tidegate_errors_total{{frontend=\"http\",code=\"{code}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("{name} in\n{text}")).to_owned()
}

#[tokio::test]
async fn what_is_refused_is_counted_by_its_code() {
    let service = service();
    let readiness = Arc::new(Readiness::new());
    readiness.join();
    let (bounds, gate) = (HttpBounds::default(), Gate::default());
    let front_end = HttpFrontEnd::new(Arc::clone(&service), readiness, gate, bounds);
    let (mut client, accepted) = pair().await;
    let metrics = service.metrics().connections(FrontEndName::Http).clone();
    let unsent = Unsent::new(Arc::new(Budget::new(MAX_UNSENT_BYTES)), WRITE_TIMEOUT, metrics);
    tokio::spawn(front_end.serve(accepted, unsent, CancellationToken::new()));
    let codes = ["unknown_limit", "invalid_request", "unknown_path", "no_room"];
    let all = || codes.map(|code| counted(&service, code));
    assert_eq!(all(), ["0", "0", "0", "0"]);
    for (path, body) in [
        ("check", r#"{"key":"k","limit":"nope"}"#),
        ("check", r#"{"key":"k","limit":"default"}"#),
        ("check", r#"{"key":"k"}"#),
        ("nowhere", ""),
        (
            "check-batch",
            r#"{"checks":[{"key":"k","limit":"a"},{"key":"l","limit":"a"},
               {"key":"k","limit":"default"},{"key":"k","limit":"b"},{"key":"","limit":"a"}]}"#,
        ),
    ] {
        let (head, length) = (format!("POST /v1/{path} HTTP/1.1\r\nhost: x\r\n"), body.len());
        let request = format!("{head}content-length: {length}\r\n\r\n{body}");
        client.write_all(request.as_bytes()).await.unwrap();
    }
    client.shutdown().await.unwrap();
    client.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!(all(), ["4", "2", "1", "0"]);
}

/// By a connection that is served, and by one beyond the bound.
#[tokio::test]
async fn heads_that_are_refused_are_counted() {
    let (service, bounds) = (service(), HttpBounds::default());
    let long = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(bounds.head_bytes));
    let readiness = Arc::new(Readiness::new());
    let front_end = HttpFrontEnd::new(Arc::clone(&service), readiness, Gate::default(), bounds);
    let counts = || ["malformed_head", "head_too_large"].map(|code| counted(&service, code));
    assert_eq!(counts(), ["0", "0"]);
    let answered = async |head: &str, is_served: bool| {
        let (mut client, accepted) = pair().await;
        client.write_all(head.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let serving = if is_served {
            let metrics = service.metrics().connections(FrontEndName::Http).clone();
            let budget = Arc::new(Budget::new(MAX_UNSENT_BYTES));
            let unsent = Unsent::new(budget, WRITE_TIMEOUT, metrics);
            tokio::spawn(front_end.serve(accepted, unsent, CancellationToken::new()))
        } else {
            tokio::spawn(front_end.refuse(accepted))
        };
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        drop(client);
        serving.await.unwrap();
        answer.get(..12).unwrap_or_default().to_owned()
    };
    for (is_served, expected) in [(true, ["2", "1"]), (false, ["4", "2"])] {
        assert_eq!(answered("\x16\x03\x01 TLS\r\n\r\n", is_served).await, "HTTP/1.1 400");
        assert_eq!(answered(&long, is_served).await, "HTTP/1.1 431");
        assert_eq!(answered("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", is_served).await, "");
        assert_eq!(counts(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_limit_is_logged_once_a_second() {
    static THROTTLE: SharedLogThrottle = SharedLogThrottle::new("tests");
    let (service, log) = (service(), Captured::start());
    log_unknown(&THROTTLE, &service, "defualt");
    log_unknown(&THROTTLE, &service, "other");
    let text = log.text();
    let line = "a check is refused: no limit has this name frontend=\"http\" limit=\"defualt\" \
                nearest=\"default\" left_out=0\n";
    assert!(text.contains(" WARN ") && text.ends_with(line), "{text}");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    log_unknown(&THROTTLE, &service, &format!("\n\u{1b}{}", "x".repeat(1_000)));
    let text = log.text();
    let last = text.lines().last().unwrap();
    assert!(last.ends_with(" left_out=1") && !last.contains("nearest"), "{last}");
    assert!(last.len() < 300 && last.contains(r"\x1bxxx") && !last.contains('\u{1b}'), "{last}");
}
