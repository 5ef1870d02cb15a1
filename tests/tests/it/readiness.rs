//! What probes are answered from the start to the end, and what clients get meanwhile.

use std::net::SocketAddr;

use rustix::process::Signal;
use tempfile::NamedTempFile;
use tidegate_tests::{Node, Raw, Starting, get, post, wait_until};

use crate::cluster::{free_addresses, secret};

const CHECK: &str = r#"{"key":"k","rate":"3/d"}"#;

/// A node that joins while no node answers, and then founds or joins the cluster of `list`.
struct Joining {
    process: Starting,
    http: SocketAddr,
}

impl Joining {
    fn start(secret: &NamedTempFile, own: &str, list: &str) -> Self {
        let mut process = Starting::start(&args(secret, own, list));
        let line = process.wait_for_error(" joining: probes are answered");
        let http = line.split("http=").nth(1).expect("an address").parse().unwrap();
        Self { process, http }
    }

    fn get(&self, path: &str) -> (String, String) {
        let mut raw = Raw::connect(self.http);
        raw.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
        raw.http_answer()
    }

    fn shows(&self, line: &str) -> bool {
        self.get("/metrics").1.lines().any(|found| found == line)
    }

    /// A check that the node has begun to answer: it has asked for the body, which is sent.
    fn check(&self) -> Raw {
        let mut raw = Raw::connect(self.http);
        let length = CHECK.len();
        let fields = format!("host: x\r\nexpect: 100-continue\r\ncontent-length: {length}");
        raw.send(format!("POST /v1/check HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes());
        raw.expect("HTTP/1.1 100 Continue\r\n\r\n");
        raw.send(CHECK.as_bytes());
        raw
    }
}

fn args<'a>(secret: &'a NamedTempFile, own: &'a str, list: &'a str) -> [&'a str; 8] {
    let file = secret.path().to_str().unwrap();
    ["--cluster", own, "--cluster-secret-file", file, "--join", list, "--found-after", "1h"]
}

/// The answer of this status, with the one word that a probe is answered.
fn answer(status: &str, word: &str) -> (String, String) {
    (status.to_owned(), format!(r#"{{"status":"{word}"}}"#))
}

#[test]
fn while_a_node_joins_probes_are_answered_and_checks_wait() {
    const ALLOWED: &str =
        r#"tidegate_decisions_total{limit="inline",frontend="http",outcome="allowed"}"#;
    let secret = secret();
    let addresses = free_addresses(2);
    let list = addresses.join(",");
    let node = Joining::start(&secret, &addresses[0], &list);
    let mut waiting = node.check();
    let gone = node.check();
    let open = |count: u32| {
        // The one that asks is another.
        node.shows(&format!(r#"tidegate_connections{{frontend="http"}} {}"#, count + 1))
    };
    wait_until("both wait", || open(2));
    drop(gone);
    wait_until("the one that hung up is gone", || open(1));
    assert_eq!(node.get("/healthz"), answer("HTTP/1.1 200 OK", "ok"));
    assert_eq!(node.get("/readyz"), answer("HTTP/1.1 503 Service Unavailable", "joining"));
    assert_eq!(node.get("/v1/cluster").0, "HTTP/1.1 200 OK");
    assert!(node.shows(&format!("{ALLOWED} 0")) && node.shows("tidegate_cluster_joining 1"));

    // Once all have answered and none has a state, one founds and the others join.
    let _other = Node::start(&args(&secret, &addresses[1], &list));
    let (status, body) = waiting.http_answer();
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(body.starts_with(r#"{"allowed":true,"limit":3,"remaining":2,"#), "{body}");
    assert_eq!(node.get("/readyz"), answer("HTTP/1.1 200 OK", "ready"));
    assert!(node.shows(&format!("{ALLOWED} 1")));
    assert_eq!(node.process.stop().code, Some(0));
}

#[test]
fn a_node_that_stops_before_it_has_joined_answers_those_that_wait() {
    let secret = secret();
    let addresses = free_addresses(2);
    let node = Joining::start(&secret, &addresses[0], &addresses.join(","));
    let mut waiting = node.check();
    let stopped = std::thread::spawn(|| node.process.stop());
    let (status, body) = waiting.http_answer();
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(body.ends_with(r#","code":"stopping"}"#), "{body}");
    waiting.expect_end();
    let output = stopped.join().unwrap();
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""));
}

#[test]
fn a_node_that_decides_alone_is_ready_and_says_so() {
    let secret = secret();
    let addresses = free_addresses(2);
    let list = addresses.join(",");
    let mut args = args(&secret, &addresses[0], &list);
    args[7] = "0s";
    let node = Node::start(&args);
    let is_ready_with = |body: &str| {
        let reply = get(&node, "/readyz");
        assert_eq!(reply.status, 200);
        reply.body == body
    };
    wait_until("it says so", || is_ready_with(r#"{"status":"ready","alone":true}"#));
    args[1] = &addresses[1];
    args[7] = "1h";
    let _other = Node::start(&args);
    wait_until("they are together", || is_ready_with(r#"{"status":"ready"}"#));
}

/// The node would go on for an hour.
#[test]
fn a_lame_duck_serves_until_its_time_is_over() {
    let mut node = Node::start(&["--lame-duck", "1h"]);
    assert_eq!(get(&node, "/readyz").body, r#"{"status":"ready"}"#);
    let mut early = Raw::connect(node.resp);
    early.expect_alive();
    let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut kept = Raw::connect(node.http);
    kept.send(request);
    assert_eq!(kept.http_answer().0, "HTTP/1.1 200 OK");
    node.signal(Signal::TERM);
    wait_until("probes see it", || get(&node, "/readyz").status == 503);
    for path in ["/readyz", "/healthz"] {
        let reply = get(&node, path);
        assert_eq!((reply.status, reply.body.as_str()), (503, r#"{"status":"draining"}"#));
        assert_eq!(reply.header("connection"), Some("close"));
    }
    let reply = post(&node, "/v1/check", CHECK);
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    kept.send(request);
    assert_eq!(kept.http_answer().0, "HTTP/1.1 503 Service Unavailable");
    kept.expect_end();
    Raw::connect(node.resp).expect_alive();
    early.expect_alive();
    node.signal(Signal::TERM);
    early.expect_end();
    assert_eq!(node.wait().code(), Some(0));
}
