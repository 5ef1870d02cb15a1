//! A node that may open few files.

use rustix::process::{Resource, Rlimit, prlimit};
use tidegate_tests::{Node, Raw, get, wait_until};

/// Files that the nodes may open.
const FILES: u32 = 256;

fn metric(node: &Node, name: &str) -> u64 {
    node.metric(&format!("tidegate_{name}{{frontend=\"resp\"}}"))
}

fn refused(node: &Node) -> u64 {
    let labels = "frontend=\"resp\",reason=\"max_connections\"";
    node.metric(&format!("tidegate_connections_refused_total{{{labels}}}"))
}

/// More clients than there are files fill the Redis port, and are refused in words.
#[test]
fn redis_clients_leave_files_to_health_checks() {
    let node = Node::start_with_files(FILES, &[]);
    let mut clients: Vec<Raw> = (0..FILES).map(|_| Raw::connect(node.resp)).collect();
    clients[0].expect_alive();
    assert_eq!(get(&node, "/healthz").status, 200);
    wait_until("all are accepted", || {
        metric(&node, "connections_accepted_total") + refused(&node) >= u64::from(FILES)
    });
    assert_eq!(metric(&node, "accept_errors_total"), 0);
    assert!(refused(&node) > 0);
    // A client that comes once others have gone is served.
    clients.truncate(1);
    wait_until("there is room", || metric(&node, "connections") == 1);
    Raw::connect(node.resp).expect_alive();
}

/// So few that HTTP has one place, which a client takes.
#[test]
fn few_files_leave_health_checks_an_answer() {
    let node = Node::start_with_files(70, &[]);
    let mut client = Raw::connect(node.http);
    client.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(client.http_answer().0, "HTTP/1.1 200 OK");
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(&node, path).status, 200);
    }
}

/// The limit falls below what is open, as where something else of the process leaks.
#[test]
fn failures_to_accept_are_counted_and_pass() {
    let node = Node::start(&[]);
    let mut before = Raw::connect(node.resp);
    before.expect_alive();
    let files = |most: u64| {
        let limit = prlimit(
            Some(node.pid()),
            Resource::Nofile,
            Rlimit { current: Some(most), maximum: Some(4_096) },
        );
        limit.unwrap()
    };
    let usual = files(4);
    let mut waiting = Raw::connect(node.resp);
    before.expect_alive();
    // No scrape is accepted meanwhile.
    std::thread::sleep(std::time::Duration::from_millis(200));
    files(usual.current.unwrap_or(4_096).min(4_096));
    waiting.expect_alive();
    assert!(metric(&node, "accept_errors_total") > 0);
}
