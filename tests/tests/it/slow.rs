//! Clients that send slowly, without end, or more than they may, where flags say how much that is.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tidegate_tests::{Node, PATIENCE, Raw, get, post, wait_until};

/// Between two bytes of a client that never ends: shorter than any time that flags allow.
const PAUSE: Duration = Duration::from_millis(50);

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// What the node says before it hangs up.
fn rest(mut client: &TcpStream) -> String {
    let mut rest = String::new();
    client.read_to_string(&mut rest).expect("the node hangs up");
    rest
}

/// Sends `head`, and then a byte at a time until the node hangs up, which it has to do while others
/// are served: what it said before.
fn drip(node: &Node, address: SocketAddr, head: &[u8], byte: u8) -> String {
    let client = connect(address);
    let mut sending = client.try_clone().unwrap();
    sending.write_all(head).unwrap();
    let dripping = thread::spawn(move || {
        while sending.write_all(&[byte]).is_ok() {
            thread::sleep(PAUSE);
        }
    });
    assert_eq!(get(node, "/healthz").status, 200);
    Raw::connect(node.resp).expect_alive();
    let said = rest(&client);
    // It would send on until the connection is closed as a whole; the node may have been first.
    let _ = client.shutdown(Shutdown::Both);
    dripping.join().unwrap();
    said
}

#[test]
fn a_head_that_never_ends_is_not_waited_for() {
    let node = Node::start(&["--head-timeout", "1s"]);
    let head = b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: ";
    assert_eq!(drip(&node, node.http, head, b'x'), "");
    // Neither is one that has not begun.
    let mut silent = Raw::connect(node.http);
    silent.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(silent.http_answer().0, "HTTP/1.1 200 OK");
    silent.expect_end();
}

#[test]
fn a_body_that_never_ends_is_not_waited_for() {
    let node = Node::start(&["--body-timeout", "1s"]);
    let head = "POST /v1/check HTTP/1.1\r\nhost: x\r\n";
    for (length, byte) in
        [("content-length: 60000\r\n\r\n", b' '), ("transfer-encoding: chunked\r\n\r\n", b'0')]
    {
        let head = [head, length].concat();
        let said = drip(&node, node.http, head.as_bytes(), byte);
        assert!(said.starts_with("HTTP/1.1 408 "), "{length}: {said}");
        assert!(said.contains(r#""code":"body_timeout""#), "{length}: {said}");
    }
    assert_eq!(node.metric("tidegate_http_refused_total{reason=\"body_timeout\"}"), 2);
}

#[test]
fn a_command_that_never_ends_is_not_waited_for() {
    let node = Node::start(&["--command-timeout", "1s"]);
    let said = drip(&node, node.resp, b"*2\r\n$4\r\nECHO\r\n$60000\r\n", b'x');
    assert_eq!(said, "-ERR the command took too long to arrive\r\n");
    let mut silent = Raw::connect(node.resp);
    silent.send(b"PING\r\n*2\r\n$4\r\nEC");
    silent.expect("+PONG\r\n-ERR the command took too long to arrive\r\n");
    silent.expect_end();
}

#[test]
fn bodies_are_as_large_as_was_said() {
    let node = Node::start(&["--max-body-bytes", "1KiB", "--max-batch-bytes", "2KiB"]);
    let check = r#"{"key":"k","limit":"default"}"#;
    let batch = format!(r#"{{"checks":[{check}]}}"#);
    for (path, text, most) in
        [("/v1/check", check, 1_024), ("/v1/check-batch", batch.as_str(), 2_048)]
    {
        assert_eq!(post(&node, path, &format!("{text:most$}")).status, 200, "{path}");
        let refused = post(&node, path, &format!("{text:width$}", width = most + 1));
        assert_eq!(refused.status, 413, "{path}");
        assert_eq!(refused.json()["error"], format!("the body is larger than {most} bytes"));
        // It may not be announced beforehand.
        let mut chunked = Raw::connect(node.http);
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
        chunked.send(head.as_bytes());
        (0..=most / 64).for_each(|_| chunked.send(format!("40\r\n{:64}\r\n", "").as_bytes()));
        assert_eq!(chunked.http_answer().0, "HTTP/1.1 413 Payload Too Large", "{path}");
    }
    assert_eq!(node.metric("tidegate_http_refused_total{reason=\"body_too_large\"}"), 4);
}

/// Each begins with more than half of the largest body: two of them are as much as is held.
#[test]
fn bodies_take_no_more_than_they_may() {
    const BODY: usize = 4 * 1024 * 1024;
    const FIRST: usize = BODY / 2 + 64 * 1024;
    let node = Node::start(&["--max-held-body-bytes", "8MiB", "--max-batch-bytes", "4MiB"]);
    let no_room = || node.metric("tidegate_http_refused_total{reason=\"no_room\"}");
    assert_eq!(no_room(), 0);
    let head = "POST /v1/check-batch HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    let head = format!("{head}content-length: {BODY}\r\n\r\n");
    let (said, answers) = mpsc::sync_channel(3);
    let clients = [(); 3].map(|()| {
        let mut client = connect(node.http);
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&vec![b' '; FIRST]).unwrap();
        // It has nothing to read unless it is refused, or has sent all.
        let (reading, said) = (client.try_clone().unwrap(), said.clone());
        thread::spawn(move || said.send(rest(&reading)));
        client
    });
    let next = || answers.recv_timeout(PATIENCE).expect("an answer");
    let refused = next();
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains(r#""code":"no_room""#), "{refused}");
    // One of them is refused and reads no more. Spaces are no checks.
    for mut client in clients {
        let _ = client.write_all(&vec![b' '; BODY - FIRST]);
    }
    for answer in [next(), next()] {
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert_eq!(no_room(), 1);
}

#[test]
fn heads_are_as_large_as_was_said() {
    let node = Node::start(&["--max-head-bytes", "1KiB", "--max-head-fields", "16"]);
    let status = |fields: &str| {
        let mut client = Raw::connect(node.http);
        let head = format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{fields}\r\n");
        client.send(head.as_bytes());
        (head.len(), client.http_answer().0)
    };
    let of_length = |length: usize| status(&format!("x: {:x>length$}\r\n", ""));
    let (length, least) = of_length(1);
    assert_eq!(least, "HTTP/1.1 200 OK");
    let most = 1 + 1_024 - length;
    let too_large = "HTTP/1.1 431 Request Header Fields Too Large";
    assert_eq!(of_length(most), (1_024, "HTTP/1.1 200 OK".to_owned()));
    assert_eq!(of_length(most + 1), (1_025, too_large.to_owned()));
    assert_eq!(status(&"x: y\r\n".repeat(15)).1, "HTTP/1.1 200 OK");
    assert_eq!(status(&"x: y\r\n".repeat(16)).1, too_large);
    let mut client = Raw::connect(node.http);
    client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS\r\n\r\n");
    assert_eq!(client.http_answer().0, "HTTP/1.1 400 Bad Request");
    // HTTP/2 gets no answer.
    let mut client = Raw::connect(node.http);
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.expect_end();
    let errors = |code: &str| {
        node.metric(&format!("tidegate_errors_total{{frontend=\"http\",code=\"{code}\"}}"))
    };
    // Counted once the connection has ended, which may be after its answer has come.
    wait_until("all are counted", || {
        (errors("head_too_large"), errors("malformed_head")) == (2, 2)
    });
    // Unless another number is given, hyper's own is the bound.
    let usual = Node::start(&[]);
    for (fields, expected) in [(99, "HTTP/1.1 200 OK"), (100, too_large)] {
        let mut client = Raw::connect(usual.http);
        let fields = "x: y\r\n".repeat(fields);
        client.send(format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{fields}\r\n").as_bytes());
        assert_eq!(client.http_answer().0, expected);
    }
}

#[test]
fn transactions_are_as_large_as_was_said() {
    let node = Node::start(&["--max-transaction-commands", "2", "--max-transaction-bytes", "1KiB"]);
    let mut client = Raw::connect(node.resp);
    client.send(b"MULTI\r\nPING\r\nPING\r\nEXEC\r\n");
    client.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n+PONG\r\n");
    let problem = "is not queued: a transaction takes at most 2 commands and 1024 bytes\r\n";
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    client.send(b"MULTI\r\nPING\r\nPING\r\nPING\r\nEXEC\r\n");
    client.expect(&format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n-ERR 'ping' {problem}{aborted}"));
    client.send(format!("MULTI\r\nECHO {:x>1024}\r\nEXEC\r\n", "").as_bytes());
    client.expect(&format!("+OK\r\n-ERR 'echo' {problem}{aborted}"));
    client.expect_alive();
}

/// They would be waited for for an hour. Each holds a quarter of the room, if it is left to them.
#[test]
fn clients_that_never_read_make_way_to_those_that_do() {
    const ECHOES: usize = 300;
    let node = Node::start(&["--max-unsent-bytes", "8MiB", "--write-timeout", "1h"]);
    let _deaf = [(); 4].map(|()| {
        let mut deaf = Raw::connect_narrow(node.resp);
        deaf.flood(b"COMMAND\r\n", 64 * 1024, PAUSE);
        deaf
    });
    // It reads nothing before it has sent all: more than is run ahead for it while room is scarce,
    // and less than its part.
    let text = "x".repeat(1_000);
    let mut ahead = Raw::connect_narrow(node.resp);
    ahead.send(format!("ECHO {text}\r\n").repeat(ECHOES).as_bytes());
    let mut steady = Raw::connect(node.resp);
    let labels = "frontend=\"resp\",reason=\"write_timeout\"";
    let closed = format!("tidegate_connections_closed_total{{{labels}}}");
    wait_until("one of them makes way", || {
        for _ in 0..10 {
            steady.send(&b"PING\r\n".repeat(100));
            steady.expect(&"+PONG\r\n".repeat(100));
        }
        node.metric(&closed) > 0
    });
    ahead.expect(&format!("$1000\r\n{text}\r\n").repeat(ECHOES));
    for mut client in [ahead, steady] {
        client.expect_alive();
    }
}
