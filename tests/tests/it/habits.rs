//! What clients do that no specification asks of them.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tidegate_tests::{Node, Raw, post};

/// A check that is always allowed.
const CHECK: &str = r#"{"key":"k","rate":"unlimited"}"#;

fn request(path: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: x\r\n{fields}content-length: {length}\r\n\r\n{body}")
}

/// As `nc -N` does, and probes of HTTP/1.0.
#[test]
fn a_client_that_closes_its_side_is_answered() {
    let node = Node::start(&[]);
    for count in [1, 2, 50, 1_000].repeat(5) {
        let mut raw = Raw::connect(node.http);
        raw.send(request("/v1/check", "", CHECK).repeat(count).as_bytes());
        raw.finish();
        for _ in 0..count {
            assert_eq!(raw.http_answer().0, "HTTP/1.1 200 OK");
        }
        raw.expect_end();
        let mut raw = Raw::connect(node.http);
        raw.send(b"GET /healthz HTTP/1.0\r\n\r\n");
        raw.finish();
        assert_eq!(raw.http_answer().0, "HTTP/1.0 200 OK");
    }
}

/// A pool of connections would send its next request in vain.
#[test]
fn an_answer_before_its_body_says_that_the_connection_ends() {
    let node = Node::start(&[]);
    let large = "x".repeat(70_000);
    for (path, status) in [("/v1/check", 413), ("/nowhere", 404), ("/metrics", 405)] {
        let reply = post(&node, path, &large);
        assert_eq!((reply.status, reply.header("connection")), (status, Some("close")), "{path}");
    }
    // A client that waits for 100 Continue does not get it first.
    let mut raw = Raw::connect(node.http);
    raw.send(
        b"POST /nowhere HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n",
    );
    assert_eq!(raw.http_answer().0, "HTTP/1.1 404 Not Found");
    raw.expect_end();
}

#[test]
fn a_refusal_ends_no_connection_whose_body_is_small() {
    let node = Node::start(&[]);
    let mut raw = Raw::connect(node.http);
    let refused = [
        ("/nowhere", "", "HTTP/1.1 404 Not Found"),
        ("/metrics", "", "HTTP/1.1 405 Method Not Allowed"),
        ("/v1/check", "origin: http://a.example\r\n", "HTTP/1.1 403 Forbidden"),
        ("/v1/check", "host: y\r\n", "HTTP/1.1 400 Bad Request"),
    ];
    for (path, fields, status) in refused.repeat(10) {
        let request = request(path, fields, CHECK);
        let (head, body) = request.split_at(request.len() - CHECK.len());
        // In two segments, the second after the node has seen the first.
        raw.send(head.as_bytes());
        thread::yield_now();
        raw.send(body.as_bytes());
        assert_eq!(raw.http_answer().0, status);
    }
    raw.send(request("/v1/check", "", CHECK).as_bytes());
    assert_eq!(raw.http_answer().0, "HTTP/1.1 200 OK");
}

/// A process that is stopped, as its machine may be, notices first how late it is.
#[test]
fn what_came_while_a_node_was_stopped_is_in_time() {
    let node = Node::start(&[
        "--idle-timeout=4s",
        "--command-timeout=3s",
        "--body-timeout=3s",
        "--head-timeout=4s",
    ]);
    let [mut silent, mut halfway] = [node.resp, node.resp].map(Raw::connect);
    silent.expect_alive();
    halfway.expect_alive();
    halfway.send(b"*1\r\n$4\r\nPI");
    let [mut web, mut heads] = [node.http, node.http].map(Raw::connect);
    heads.send(b"GET /healthz HTTP/1.1\r\n");
    let request = request("/v1/check", "", CHECK);
    let (head, body) = request.split_at(request.len() - CHECK.len());
    web.send(head.as_bytes());
    // The node has seen the head once it answers another.
    assert_eq!(post(&node, "/v1/check", CHECK).status, 200);

    node.signal(Signal::STOP);
    silent.send(b"PING\r\n");
    halfway.send(b"NG\r\n");
    web.send(body.as_bytes());
    heads.send(b"host: x\r\n\r\n");
    thread::sleep(Duration::from_millis(4_100));
    node.signal(Signal::CONT);
    silent.expect("+PONG\r\n");
    halfway.expect("+PONG\r\n");
    assert_eq!(web.http_answer().0, "HTTP/1.1 200 OK");
    assert_eq!(heads.http_answer().0, "HTTP/1.1 200 OK");
}

#[test]
fn a_field_that_is_null_counts_as_left_out() {
    let node = Node::start(&[]);
    for body in [
        r#"{"key":"k","limit":"default","rate":null,"burst":null,"cost":null}"#,
        r#"{"key":"k","limit":null,"rate":"1/s","burst":null}"#,
    ] {
        assert_eq!(post(&node, "/v1/check", body).status, 200, "{body}");
    }
    assert_eq!(post(&node, "/v1/check", r#"{"key":null,"limit":"default"}"#).status, 400);
}
