//! Bounds that flags set on what clients may take.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tidegate_tests::{Node, PATIENCE, Raw, get, mistake, wait_until};

const REFUSAL: &str = "-ERR max number of clients reached\r\n";

/// How many connections of a front-end were refused by a bound. Asked from an address that no other
/// connection of the test has.
fn refused(node: &Node, frontend: &str, bound: &str) -> u64 {
    static LAST: AtomicU8 = AtomicU8::new(10);
    let from = Ipv4Addr::new(127, 0, 0, 1 + LAST.fetch_add(1, Ordering::Relaxed));
    let mut raw = Raw::connect_from(from, node.http);
    raw.send(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n");
    let (_, metrics) = raw.http_answer();
    let name = "tidegate_connections_refused_total";
    let name = format!("{name}{{frontend=\"{frontend}\",reason=\"{bound}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    value.expect("a metric").parse().unwrap()
}

fn info(client: &mut Raw, section: &str) -> String {
    client.send(format!("INFO {section}\r\n").as_bytes());
    let length = client.line()[1..].parse::<usize>().expect("a length") + 2;
    String::from_utf8(client.bytes(length)).unwrap()
}

#[test]
fn an_address_has_no_more_connections_than_it_may() {
    let node = Node::start(&["--max-connections-per-address", "2"]);
    let mut held = [Raw::connect(node.resp), Raw::connect(node.resp)];
    held.iter_mut().for_each(Raw::expect_alive);
    let mut third = Raw::connect(node.resp);
    third.expect(REFUSAL);
    third.expect_end();
    Raw::connect_from(Ipv4Addr::new(127, 0, 0, 2), node.resp).expect_alive();
    assert!(info(&mut held[0], "stats").contains("\r\nrejected_connections:1\r\n"));
    let bound = "max_connections_per_address";
    assert_eq!((refused(&node, "resp", bound), refused(&node, "resp", "max_connections")), (1, 0));
    // A place that is left can be had again.
    let [mut held, left] = held;
    drop(left);
    wait_until("there is room", || {
        let mut next = Raw::connect(node.resp);
        next.send(b"PING\r\n");
        next.line() == "+PONG"
    });
    held.expect_alive();
}

#[test]
fn http_has_the_same_bound_of_its_own() {
    let node = Node::start(&["--max-connections-per-address", "1"]);
    let mut redis = Raw::connect(node.resp);
    redis.expect_alive();
    let mut http = Raw::connect(node.http);
    http.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(http.http_answer().0, "HTTP/1.1 200 OK");
    let check = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    for request in [check, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut refused_too = Raw::connect(node.http);
        refused_too.send(request.as_bytes());
        let (status, body) = refused_too.http_answer();
        assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
        assert_eq!(body, r#"{"error":"too many connections","code":"too_many_connections"}"#);
        refused_too.expect_end();
    }
    // What restarts nodes that do not live is answered, once.
    for probe in ["/healthz", "/readyz"] {
        let mut probing = Raw::connect(node.http);
        probing.send(format!("GET {probe} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
        assert_eq!(probing.http_answer().0, "HTTP/1.1 200 OK");
        probing.expect_end();
    }
    Raw::connect(node.http).expect_end();
    drop(http);
    wait_until("there is room", || get(&node, "/metrics").status == 200);
    assert!(refused(&node, "http", "max_connections_per_address") > 0);
    assert_eq!(refused(&node, "resp", "max_connections_per_address"), 0);
}

#[test]
fn connections_in_all_are_as_many_as_was_said() {
    let node = Node::start(&["--max-connections", "2"]);
    let mut held = [Raw::connect(node.resp), Raw::connect(node.resp)];
    held.iter_mut().for_each(Raw::expect_alive);
    let mut third = Raw::connect_from(Ipv4Addr::new(127, 0, 0, 2), node.resp);
    third.expect(REFUSAL);
    third.expect_end();
    assert_eq!(refused(&node, "resp", "max_connections"), 1);
    assert!(info(&mut held[0], "clients").contains("\r\nmaxclients:2\r\n"));
    held[1].send(b"CONFIG GET maxclients\r\n");
    held[1].expect("*2\r\n$10\r\nmaxclients\r\n$1\r\n2\r\n");
}

/// Each would be waited for for a second, in one of four places.
#[test]
fn clients_that_are_refused_and_send_nothing_keep_no_probe_out() {
    let node = Node::start_with_files(256, &["--max-connections", "1"]);
    let healthy = |client: &mut Raw| {
        client.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(client.http_answer().0, "HTTP/1.1 200 OK");
    };
    let mut held = Raw::connect(node.http);
    healthy(&mut held);
    let mut silent: Vec<Raw> = (0..20).map(|_| Raw::connect(node.http)).collect();
    for _ in 0..5 {
        healthy(&mut Raw::connect(node.http));
    }
    healthy(&mut held);
    silent.iter_mut().for_each(Raw::expect_end);
}

/// Less than is asked for, where the node may open fewer files.
#[test]
fn clients_learn_the_number_of_places() {
    let node = Node::start_with_files(256, &["--max-connections", "5000"]);
    let mut client = Raw::connect(node.resp);
    // Of 256 files less 64 three quarters, a tenth of which is for refusals.
    assert!(info(&mut client, "clients").contains("\r\nmaxclients:130\r\n"));
}

#[test]
fn silent_clients_are_closed_and_others_stay() {
    let node = Node::start(&["--idle-timeout", "4s"]);
    let mut http = Raw::connect(node.http);
    let healthy = |http: &mut Raw| {
        http.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(http.http_answer().0, "HTTP/1.1 200 OK");
    };
    healthy(&mut http);
    let mut silent = [Raw::connect(node.resp), Raw::connect(node.resp), Raw::connect(node.resp)];
    silent.iter_mut().for_each(Raw::expect_alive);
    silent[1].send(b"MULTI\r\n");
    silent[1].expect("+OK\r\n");
    silent[2].send(b"*2\r\n$4\r\nECHO\r\n");
    let mut active = Raw::connect(node.resp);
    let labels = "frontend=\"resp\",reason=\"idle_timeout\"";
    let closed = || node.metric(&format!("tidegate_connections_closed_total{{{labels}}}"));
    wait_until("the silent ones are closed", || {
        active.expect_alive();
        closed() == 3
    });
    silent.iter_mut().for_each(Raw::expect_end);
    active.send(b"CONFIG GET timeout\r\n");
    active.expect("*2\r\n$7\r\ntimeout\r\n$1\r\n4\r\n");
    healthy(&mut http);
}

#[test]
fn a_client_that_takes_no_replies_is_cut_off_at_the_write_timeout() {
    let node = Node::start(&["--write-timeout", "1s"]);
    let mut deaf = Raw::connect(node.resp);
    // More replies than both systems hold.
    deaf.flood(b"COMMAND\r\n", 64 * 1024, Duration::from_millis(100));
    let labels = "frontend=\"resp\",reason=\"write_timeout\"";
    let closed = format!("tidegate_connections_closed_total{{{labels}}}");
    wait_until("it is cut off", || node.metric(&closed) == 1);
    Raw::connect(node.resp).expect_alive();
}

/// Together they hold more than 8 MiB, each less than a closing connection discards.
#[test]
fn incomplete_commands_take_no_more_than_they_may() {
    const CLIENTS: usize = 16;
    let node = Node::start(&["--max-unread-bytes", "8MiB"]);
    let argument = [b"$60000\r\n".as_slice(), &b"x".repeat(60_000), b"\r\n"].concat();
    let half = [b"*64\r\n".as_slice(), &argument.repeat(10)].concat();
    let (refused, answers) = mpsc::sync_channel(CLIENTS);
    for _ in 0..CLIENTS {
        let (mut client, refused) = (Raw::connect(node.resp), refused.clone());
        client.send(&half);
        // It has nothing to read unless it is refused.
        thread::spawn(move || refused.send(client.line()));
    }
    let answer = answers.recv_timeout(PATIENCE).expect("an answer");
    assert_eq!(answer, "-ERR too many commands have not arrived in full");
    Raw::connect(node.resp).expect_alive();
}

#[test]
fn figures_that_bound_nothing_are_mistakes() {
    for (flag, value) in [
        ("--max-connections", "0"),
        ("--max-connections-per-address", "few"),
        ("--idle-timeout", "10ms"),
        ("--write-timeout", "0s"),
        ("--max-unread-bytes", "1KiB"),
        ("--max-unsent-bytes", "64"),
        ("--command-timeout", "0s"),
        ("--max-transaction-commands", "0"),
        ("--max-transaction-commands", "100001"),
        ("--max-transaction-bytes", "0"),
        ("--max-head-bytes", "1GiB"),
        ("--max-head-fields", "0"),
        ("--max-head-fields", "1001"),
        ("--head-timeout", "25h"),
        ("--max-body-bytes", "0"),
        ("--max-batch-bytes", "17MiB"),
        ("--body-timeout", "999ms"),
        ("--max-held-body-bytes", "1MiB"),
    ] {
        let line = mistake(&[flag, value]);
        assert!(line.contains(flag) && line.contains("expected"), "{line}");
    }
}

#[test]
fn figures_that_contradict_each_other_are_a_mistake() {
    let line = mistake(&["--max-held-body-bytes", "8MiB", "--max-batch-bytes", "16MiB"]);
    let problem = "--max-batch-bytes 16MiB: more than --max-held-body-bytes 8MiB";
    assert_eq!(line, format!("tidegate: {problem}\n"));
}
