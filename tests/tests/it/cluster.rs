//! Nodes that keep one limit together.

use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::NamedTempFile;
use tidegate_tests::{Node, Raw, Starting, get, mistake, redis, wait_until};

/// One unit of the limit that the tests use is granted in this time: 100 a minute.
const INTERVAL: Duration = Duration::from_millis(600);

/// A secret of its own for each cluster: a node may get the port of one of another test that has
/// ended, whose peers go on looking for it.
pub(super) fn secret() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    let text = format!("a secret that is long enough: {}\n", file.path().display());
    file.write_all(text.as_bytes()).unwrap();
    file
}

pub(super) fn start(secret: &NamedTempFile, join: &[&Node]) -> Node {
    let join: Vec<String> = join.iter().map(|node| node.cluster.unwrap().to_string()).collect();
    let mut args = vec!["--cluster", "127.0.0.1:0", "--cluster-secret-file"];
    args.push(secret.path().to_str().unwrap());
    for address in &join {
        args.extend(["--join", address]);
    }
    Node::start(&args)
}

/// The state of each member in the eyes of `node`, by address.
fn states(node: &Node) -> Vec<(String, String)> {
    let view = get(node, "/v1/cluster").json();
    let members = view["members"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let found: Vec<_> =
        members.iter().map(|member| (text(&member["addr"]), text(&member["state"]))).collect();
    // This node is among its members.
    let own = members.iter().find(|member| member["id"] == view["self"]).expect("itself");
    assert_eq!(text(&own["addr"]), node.cluster.unwrap().to_string());
    found
}

pub(super) fn is_in_state(node: &Node, other: &Node, state: &str) -> bool {
    let address = other.cluster.unwrap().to_string();
    states(node).contains(&(address, state.to_owned()))
}

pub(super) fn wait_until_together(nodes: &[&Node]) {
    wait_until("all nodes know each other", || {
        nodes.iter().all(|node| {
            nodes.iter().all(|other| is_in_state(node, other, "alive"))
                && states(node).iter().filter(|(_, state)| state == "alive").count() == nodes.len()
                && get(node, "/healthz").status == 200
        })
    });
}

/// Whether this line is among a node's metrics.
pub(super) fn shows(node: &Node, line: &str) -> bool {
    get(node, "/metrics").body.lines().any(|found| found == line)
}

fn has_joined(node: &Node) -> bool {
    shows(node, "tidegate_cluster_joining 0")
}

/// Asks `times` times for one unit of 100 a minute, burst 100; how many were admitted.
pub(super) fn ask(node: &Node, key: &str, times: usize) -> usize {
    let mut connection = redis(node, 2);
    let mut pipe = ::redis::pipe();
    for _ in 0..times {
        pipe.cmd("CL.THROTTLE").arg(key).arg(99).arg(100).arg(60);
    }
    let replies: Vec<Vec<i64>> = pipe.query(&mut connection).unwrap();
    replies.iter().filter(|reply| reply[0] == 0).count()
}

/// What is left of the same limit.
fn remaining(node: &Node, key: &str) -> usize {
    let mut peek = ::redis::cmd("CL.THROTTLE");
    peek.arg(key).arg(99).arg(100).arg(60).arg(0);
    let reply: Vec<i64> = peek.query(&mut redis(node, 2)).unwrap();
    usize::try_from(reply[2]).unwrap()
}

/// What may have been granted anew since `start`, and one for a unit that was on its way.
pub(super) fn granted(start: Instant) -> usize {
    1 + (start.elapsed().as_millis() / INTERVAL.as_millis()) as usize
}

#[test]
fn three_nodes_keep_one_limit_and_a_late_one_learns_of_it() {
    let secret = secret();
    let first = start(&secret, &[]);
    let second = start(&secret, &[&first]);
    let third = start(&secret, &[&first, &second]);
    wait_until_together(&[&first, &second, &third]);

    let begin = Instant::now();
    let mut admitted = ask(&first, "k", 100);
    for node in [&second, &third] {
        wait_until("the debt has arrived", || remaining(node, "k") <= granted(begin));
        admitted += ask(node, "k", 100);
    }
    let most = 100 + granted(begin);
    assert!((100..=most).contains(&admitted), "{admitted} admitted, expected 100 to {most}");

    let late = start(&secret, &[&first]);
    wait_until_together(&[&first, &second, &third, &late]);
    wait_until("the late node has joined", || has_joined(&late));
    let left = remaining(&late, "k");
    let most = granted(begin);
    assert!(left <= most, "{left} are left, expected at most {most}");
    // What was not used is as good as new, also on the late node.
    assert_eq!(remaining(&late, "other"), 100);
}

/// A node says that it listens, and serves clients, only once it knows what was consumed.
#[test]
fn a_node_that_joins_gives_nothing_away() {
    let secret = secret();
    let first = start(&secret, &[]);
    for round in 0..5 {
        let (resp_key, http_key) = (format!("resp {round}"), format!("http {round}"));
        let begin = Instant::now();
        assert_eq!(ask(&first, &resp_key, 100), 100);
        assert_eq!(ask(&first, &http_key, 100), 100);
        let late = start(&secret, &[&first]);
        let admitted = ask(&late, &resp_key, 100);
        let body = format!(r#"{{"key":"{http_key}","rate":"100/m","burst":100,"cost":0}}"#);
        let left = tidegate_tests::post(&late, "/v1/check", &body).json();
        let left = usize::try_from(left["remaining"].as_u64().unwrap()).unwrap();
        let most = granted(begin);
        assert!(admitted <= most && left <= most, "{admitted}, {left}: more than {most}");
    }
}

/// Nodes are started with the same command, and the one that founded the cluster is killed.
#[test]
fn a_founder_that_is_killed_and_started_again_gives_nothing_away() {
    let secret = secret();
    let addresses = free_addresses(3);
    let list = addresses.join(",");
    let start = |address: &str| {
        let mut args = joining_args(&secret, &list).to_vec();
        args[1] = address;
        // It has to found, or join, for another reason than that time passes.
        Node::start(&[&args[..], &["--found-after", "1h"]].concat())
    };
    let mut nodes: Vec<Node> = std::thread::scope(|scope| {
        let starting: Vec<_> =
            addresses.iter().map(|address| scope.spawn(|| start(address))).collect();
        starting.into_iter().map(|node| node.join().unwrap()).collect()
    });
    wait_until_together(&nodes.iter().collect::<Vec<_>>());
    let has_founded = |node: &Node| shows(node, "tidegate_cluster_founded 1");
    let founders: Vec<usize> = (0..3).filter(|place| has_founded(&nodes[*place])).collect();
    let [founder] = founders[..] else { panic!("{founders:?} founded") };

    let begin = Instant::now();
    assert_eq!(ask(&nodes[founder], "k", 100), 100);
    for node in &nodes {
        wait_until("the debt has arrived", || remaining(node, "k") <= granted(begin));
    }
    nodes[founder].signal(Signal::KILL);
    nodes[founder].wait();
    nodes[founder] = start(&addresses[founder]);
    let (admitted, most) = (ask(&nodes[founder], "k", 100), granted(begin));
    assert!(admitted <= most, "{admitted} admitted, expected at most {most}");
    assert!(shows(&nodes[founder], "tidegate_cluster_founded 0"));
    wait_until_together(&nodes.iter().collect::<Vec<_>>());
}

#[test]
fn nodes_that_bind_every_address_meet_at_those_they_advertise() {
    let secret = secret();
    let start = |join: &[&str]| {
        let file = secret.path().to_str().unwrap();
        let args = ["--cluster", "0.0.0.0:0", "--advertise", "127.0.0.1:0"];
        Node::start(&[&args[..], &["--cluster-secret-file", file], join].concat())
    };
    let first = start(&[]);
    let second = start(&["--join", &first.cluster.unwrap().to_string()]);
    wait_until_together(&[&first, &second]);
}

/// Addresses that were free a moment ago, for TCP and UDP alike. Linux gives out none of these
/// ports by itself, so no client of another test takes one, and each is returned once.
pub(super) fn free_addresses(count: usize) -> Vec<String> {
    const FIRST: u32 = 12_000;
    const PORTS: u32 = 20_000;
    static TAKEN: Mutex<u32> = Mutex::new(0);
    let mut taken = TAKEN.lock().unwrap();
    let next = || {
        *taken += 1;
        // Tests of another process begin elsewhere.
        let at = std::process::id().wrapping_mul(61).wrapping_add(*taken) % PORTS;
        format!("127.0.0.1:{}", FIRST + at)
    };
    let is_free = |address: &String| {
        std::net::TcpListener::bind(address).is_ok() && std::net::UdpSocket::bind(address).is_ok()
    };
    std::iter::repeat_with(next).take(PORTS as usize).filter(is_free).take(count).collect()
}

/// An address at which no node answers.
fn silent_address() -> (std::net::UdpSocket, String) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

pub(super) fn joining_args<'a>(secret: &'a NamedTempFile, join: &'a str) -> [&'a str; 6] {
    let secret = secret.path().to_str().unwrap();
    ["--cluster", "127.0.0.1:0", "--cluster-secret-file", secret, "--join", join]
}

#[test]
fn a_node_that_no_peer_lets_in_says_so_and_serves() {
    let secret = secret();
    let (_socket, address) = silent_address();
    let node = Node::start(&joining_args(&secret, &address));
    assert_eq!(ask(&node, "k", 1), 1);
    assert_eq!(get(&node, "/healthz").status, 200);
    assert!(shows(&node, "tidegate_cluster_founded 1"));

    // In the format of the log, as all lines.
    let mut args = joining_args(&secret, &address).to_vec();
    args.extend(["--log-format", "json"]);
    let mut other = Starting::start(&args);
    other.wait_for_output();
    let output = other.stop();
    assert_eq!(output.code, Some(0));
    let lines = output.stderr.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<serde_json::Value> = lines.collect();
    let expected = format!(
        "--join {address}: no node of a cluster answered for 5s; founded one, still looking"
    );
    assert!(lines.iter().any(|line| line["message"] == expected), "{}", output.stderr);
}

#[test]
fn a_node_with_another_secret_stays_outside_and_is_counted() {
    let (ours, theirs) = (secret(), secret());
    let first = start(&ours, &[]);
    let stranger = start(&theirs, &[&first]);
    let counted = |node: &Node, name: &str| {
        let metrics = get(node, "/metrics").body;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        value.trim().parse::<u64>().unwrap() > 0
    };
    wait_until("the failure is counted on both sides", || {
        counted(&first, "tidegate_cluster_handshakes_rejected_total ")
            && counted(&stranger, "tidegate_cluster_dials_failed_total ")
    });
    assert_eq!(states(&first).len(), 1);
    assert!(counted(&stranger, "tidegate_cluster_founded "));
}

#[test]
fn what_is_known_of_a_peer_is_shown() {
    let secret = secret();
    let first = start(&secret, &[]);
    let second = start(&secret, &[&first]);
    wait_until_together(&[&first, &second]);
    let address = second.cluster.unwrap().to_string();
    wait_until("frames flow and one was received", || {
        let view = get(&first, "/v1/cluster").json();
        let members = view["members"].as_array().unwrap();
        let other = members.iter().find(|member| member["addr"] == address.as_str()).unwrap();
        let own = members.iter().find(|member| member["id"] == view["self"]).unwrap();
        assert!(own["peer"].is_null() && other["state_seconds"].as_f64().is_some());
        let peer = &other["peer"];
        let staleness = peer["staleness_seconds"].as_f64();
        peer["link"] == "flowing" && peer["unacked_batches"] == 0 && staleness.is_some()
    });
    let metrics = get(&first, "/metrics").body;
    let link = format!("tidegate_cluster_peer_link{{peer=\"{address}\"}} 3");
    assert!(metrics.lines().any(|line| line.starts_with(&link)), "{metrics}");
}

#[test]
fn what_happens_is_logged_on_standard_error() {
    let secret = secret();
    let file = secret.path().to_str().unwrap();
    let args = ["--cluster", "127.0.0.1:0", "--cluster-secret-file", file];
    let mut node = Starting::start(&args);
    node.wait_for_output();
    let output = node.stop();
    assert_eq!(output.code, Some(0));
    let line = output.stderr.lines().find(|line| line.contains("founded a cluster"));
    assert!(line.is_some_and(|line| line.contains("INFO tidegate_cluster")), "{}", output.stderr);
}

#[test]
fn a_node_can_be_stopped_while_it_joins() {
    let secret = secret();
    let (socket, address) = silent_address();
    let node = Starting::start(&joining_args(&secret, &address));
    // It handles signals by the time it knocks.
    let _ = socket.recv_from(&mut [0; 2_000]).unwrap();
    let output = node.stop();
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""));
}

#[test]
fn a_client_that_never_finishes_does_not_keep_a_node_from_leaving() {
    let secret = secret();
    let first = start(&secret, &[]);
    let mut second = start(&secret, &[&first]);
    wait_until_together(&[&first, &second]);
    let mut stuck = Raw::connect(second.resp);
    stuck.expect_alive();
    stuck.send(b"*2\r\n$4\r\nECHO\r\n");
    assert_eq!(ask(&second, "k", 100), 100);
    second.signal(Signal::TERM);
    assert_eq!(second.wait().code(), Some(0));
    wait_until("its leave is known", || is_in_state(&first, &second, "left"));
}

#[test]
fn limits_with_names_are_shared_as_well() {
    let secret = secret();
    let first = start(&secret, &[]);
    let second = start(&secret, &[&first]);
    wait_until_together(&[&first, &second]);
    let body = r#"{"key":"k","limit":"default","cost":200}"#;
    assert_eq!(tidegate_tests::post(&first, "/v1/check", body).status, 200);
    // 200 units take 2 s to be granted anew; the other node receives them long before.
    let look = r#"{"key":"k","limit":"default","cost":0}"#;
    let mut least = 200;
    wait_until("the debt has been received", || {
        let seen = tidegate_tests::post(&second, "/v1/check", look).json();
        least = least.min(seen["remaining"].as_u64().unwrap());
        if least == 200 {
            // It may have drained before it was observed: use it up again.
            let _ = tidegate_tests::post(&first, "/v1/check", body);
        }
        least < 200
    });
}

#[test]
fn a_killed_node_is_down_and_the_others_go_on() {
    let secret = secret();
    let first = start(&secret, &[]);
    let second = start(&secret, &[&first]);
    let third = start(&secret, &[&first]);
    wait_until_together(&[&first, &second, &third]);
    third.signal(Signal::KILL);
    let mut number = 0;
    wait_until("the killed node is down", || {
        number += 1;
        for node in [&first, &second] {
            assert_eq!(ask(node, &format!("key {number} {}", node.resp), 10), 10);
        }
        is_in_state(&first, &third, "down") && is_in_state(&second, &third, "down")
    });
    let metrics = get(&first, "/metrics").body;
    for line in [
        r#"tidegate_cluster_members{state="alive"} 2"#,
        r#"tidegate_cluster_members{state="down"} 1"#,
        "tidegate_cluster_joining 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
    }
    assert!(is_in_state(&first, &second, "alive"));
    assert!(is_in_state(&second, &first, "alive"));
}

#[test]
fn a_node_that_is_stopped_leaves() {
    let secret = secret();
    let first = start(&secret, &[]);
    let mut second = start(&secret, &[&first]);
    wait_until_together(&[&first, &second]);
    assert_eq!(ask(&second, "k", 100), 100);
    second.signal(Signal::TERM);
    assert_eq!(second.wait().code(), Some(0));
    // Nothing it admitted is lost.
    assert!(remaining(&first, "k") < 50);
    wait_until("its leave is known", || is_in_state(&first, &second, "left"));
}

#[test]
fn a_cluster_needs_a_secret() {
    // Default ports may be in use.
    let address = ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--cluster", "127.0.0.1:0"];
    assert!(mistake(&address).contains("--cluster-secret-file"));
    let with = |path: &str| mistake(&[&address[..], &["--cluster-secret-file", path]].concat());
    assert!(with("no/such/file").contains("--cluster-secret-file no/such/file: "));
    let mut short = NamedTempFile::new().unwrap();
    short.write_all(b"short\n").unwrap();
    assert!(with(short.path().to_str().unwrap()).contains("--cluster-secret-file "));
}

#[test]
fn a_cluster_address_in_use_or_of_no_use_is_named() {
    let secret = secret();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for address in [taken.as_str(), "0.0.0.0:0"] {
        let line = mistake(&[
            "--resp",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--cluster",
            address,
            "--cluster-secret-file",
            secret.path().to_str().unwrap(),
        ]);
        assert!(line.contains(&format!("--cluster {address}: ")), "{line}");
    }
}
