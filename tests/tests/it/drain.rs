//! Stopping in good order.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tidegate_tests::{Node, Raw, wait_until};

#[test]
fn idle_connections_close_and_the_node_ends_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut node = Node::start(&[]);
        let (mut resp, mut http) = (Raw::connect(node.resp), Raw::connect(node.http));
        resp.expect_alive();
        expect_healthy(&mut http);
        node.signal(signal);
        resp.expect_end();
        http.expect_end();
        assert_eq!(node.wait().code(), Some(0));
    }
}

/// What 3,000 clients have sent before the signal is answered, each command of it. The node is
/// stopped meanwhile, so it finds the signal and all commands at the same time.
#[test]
fn every_command_that_was_sent_is_answered() {
    const CLIENTS: usize = 3_000;
    const COMMANDS: usize = 50;
    raise_file_limit(2 * CLIENTS as u64);
    let mut node = Node::start(&["--drain-timeout", "1h"]);
    let mut clients: Vec<Raw> = (0..CLIENTS).map(|_| Raw::connect(node.resp)).collect();
    clients.iter_mut().for_each(Raw::expect_alive);
    node.signal(Signal::STOP);
    for (number, client) in clients.iter_mut().enumerate() {
        let check = format!("CL.THROTTLE of:{number} {} 1 1000\r\n", COMMANDS - 1);
        client.send(check.repeat(COMMANDS).as_bytes());
    }
    node.signal(Signal::TERM);
    node.signal(Signal::CONT);
    for client in &mut clients {
        for done in 1..=COMMANDS {
            let (left, reset) = (COMMANDS - done, done * 1_000);
            client.expect(&format!("*5\r\n:0\r\n:{COMMANDS}\r\n:{left}\r\n:-1\r\n:{reset}\r\n"));
        }
        client.expect_end();
    }
    assert_eq!(node.wait().code(), Some(0));
}

/// The same of HTTP: of each client some requests, or the first half of a head, of which the rest
/// comes later; of a few, more than one read takes. Not of many: what takes longer is cut.
#[test]
fn every_request_that_was_sent_is_answered() {
    const CLIENTS: usize = 100;
    const MANY: usize = 300;
    let mut node = Node::start(&["--drain-timeout", "1h"]);
    let mut clients: Vec<Raw> = (0..CLIENTS).map(|_| Raw::connect(node.http)).collect();
    clients.iter_mut().for_each(expect_healthy);
    node.signal(Signal::STOP);
    let requests = |number: usize| if number < 3 { MANY } else { [0, 1, 3][number % 3] };
    let (head, rest) = ("GET /healthz HTTP/1.1\r\nho", "st: x\r\n\r\n");
    for (number, client) in clients.iter_mut().enumerate() {
        let sent = format!("{head}{rest}").repeat(requests(number));
        client.send(if sent.is_empty() { head.as_bytes() } else { sent.as_bytes() });
    }
    node.signal(Signal::TERM);
    node.signal(Signal::CONT);
    for (number, client) in clients.iter_mut().enumerate() {
        if requests(number) == 0 {
            client.send(rest.as_bytes());
        }
        for _ in 0..requests(number).max(1) {
            expect_health(client);
        }
        client.expect_end();
    }
    assert_eq!(node.wait().code(), Some(0));
}

/// The system has accepted their connections, and the node has not.
#[test]
fn clients_that_wait_to_be_let_in_are_answered() {
    const CLIENTS: usize = 100;
    let mut node = Node::start(&["--drain-timeout", "1h"]);
    node.signal(Signal::STOP);
    let mut redis: Vec<Raw> = (0..CLIENTS).map(|_| Raw::connect(node.resp)).collect();
    let mut http: Vec<Raw> = (0..CLIENTS).map(|_| Raw::connect(node.http)).collect();
    for (redis, http) in redis.iter_mut().zip(&mut http) {
        redis.send(b"PING\r\n");
        http.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    }
    node.signal(Signal::TERM);
    node.signal(Signal::CONT);
    for client in &mut redis {
        client.expect("+PONG\r\n");
        client.expect_end();
    }
    for client in &mut http {
        expect_health(client);
        client.expect_end();
    }
    assert_eq!(node.wait().code(), Some(0));
}

/// How long a client may take to read what a node that drains has answered.
const LINGER: Duration = Duration::from_secs(1);

/// What its system does not hold, that of the node does. It sends once more before it reads.
#[test]
fn a_client_may_read_late_what_was_answered() {
    wait_until("a Redis client sends in time", || {
        let node = Node::start(&["--drain-timeout", "1h"]);
        let mut late = Raw::connect_narrow(node.resp);
        late.send(&b"PING\r\n".repeat(3_000));
        wait_for_other_connection(&node);
        let others = (0..10).map(|_| Raw::connect(node.resp)).collect();
        let is_in_time = sends_while_it_drains(&mut late, "PING\r\n", &node, others);
        if is_in_time {
            (0..3_000).for_each(|_| late.expect("+PONG\r\n"));
        }
        is_in_time
    });
}

#[test]
fn a_client_of_http_may_read_late_what_was_answered() {
    let health = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    wait_until("a client sends in time", || {
        let node = Node::start(&["--drain-timeout", "1h"]);
        let mut late = Raw::connect_narrow(node.http);
        late.send(health.repeat(150).as_bytes());
        let mut others: Vec<Raw> = (0..10).map(|_| Raw::connect(node.http)).collect();
        // In turn with the late one.
        (0..3).for_each(|_| others.iter_mut().for_each(expect_healthy));
        let is_in_time = sends_while_it_drains(&mut late, health, &node, others);
        if is_in_time {
            (0..150).for_each(|_| expect_health(&mut late));
        }
        is_in_time
    });
}

/// Stops the node; sends once its other clients, which are idle, are gone. False if that was later
/// than the node waits for a client, as on a machine that is busy.
fn sends_while_it_drains(late: &mut Raw, sent: &str, node: &Node, others: Vec<Raw>) -> bool {
    let begun = Instant::now();
    node.signal(Signal::TERM);
    for mut other in others {
        other.expect_end();
    }
    late.send(sent.as_bytes());
    begun.elapsed() < LINGER
}

/// Lets this process open this many files, if it may.
fn raise_file_limit(files: u64) {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.map(|current| current.max(files));
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("this many files");
}

#[test]
fn a_command_under_way_is_answered_first() {
    let mut node = Node::start(&["--drain-timeout", "1h"]);
    // Clients are accepted in turn, so those that say nothing are there when later ones are served.
    let mut silent = [node.resp, node.http].map(Raw::connect);
    let mut idle_http = Raw::connect(node.http);
    let (mut idle, mut busy) = (Raw::connect(node.resp), Raw::connect(node.resp));
    idle.expect_alive();
    expect_healthy(&mut idle_http);
    busy.expect_alive();
    busy.send(b"*2\r\n$4\r\nECHO\r\n$5\r\nhe");
    // The node has read that part before it learns of the signal.
    wait_for_other_connection(&node);
    node.signal(Signal::TERM);
    // The idle ones do not wait for the busy one.
    idle.expect_end();
    idle_http.expect_end();
    silent.iter_mut().for_each(Raw::expect_end);
    assert!(TcpStream::connect(node.resp).is_err(), "the node still accepts");
    busy.send(b"llo\r\n");
    busy.expect("$5\r\nhello\r\n");
    busy.expect_end();
    assert_eq!(node.wait().code(), Some(0));
}

#[test]
fn a_client_that_never_finishes_is_cut_off() {
    let mut node = Node::start(&[]);
    let mut stuck = Raw::connect(node.resp);
    stuck.expect_alive();
    stuck.send(b"*2\r\n$4\r\nECHO\r\n");
    let mut slow = Raw::connect(node.http);
    slow.send(b"POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{");
    wait_for_other_connection(&node);
    node.signal(Signal::TERM);
    assert_eq!(node.wait().code(), Some(0));
    stuck.expect_end();
    slow.expect_end();
}

/// Of a node that may have learnt of the signal.
fn expect_health(http: &mut Raw) {
    let (status, _) = http.http_answer();
    assert!(["HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable"].contains(&&*status));
}

fn expect_healthy(http: &mut Raw) {
    http.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(http.line(), "HTTP/1.1 200 OK");
    while !http.line().is_empty() {}
    http.expect(r#"{"status":"ok"}"#);
}

/// Connections are served in turn, so once a later one is answered a few times the earlier bytes
/// of others have been read.
fn wait_for_other_connection(node: &Node) {
    let mut turns = 0;
    wait_until("others are served", || {
        let mut other = Raw::connect(node.resp);
        other.expect_alive();
        turns += 1;
        turns == 10
    });
}
