//! Clients that send without pause, or much at once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::Signal;
use tidegate_tests::{Node, Raw, get, wait_until};

/// A drain that waits for clients which never pause would take an hour.
const ENDLESS_DRAIN: [&str; 2] = ["--drain-timeout", "1h"];

/// A client that sends the same without pause, and reads what comes, until the node hangs up.
struct Hog(Arc<AtomicUsize>);

impl Hog {
    fn start(address: SocketAddr, sent: Vec<u8>) -> Self {
        let mut sending = TcpStream::connect(address).unwrap();
        let mut reading = sending.try_clone().unwrap();
        thread::spawn(move || while sending.write_all(&sent).is_ok() {});
        let read = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&read);
        thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = reading.read(&mut bytes) {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        });
        Self(read)
    }

    /// Waits until the node has answered it again.
    fn wait(&self) {
        let before = self.0.load(Ordering::Relaxed);
        wait_until("a hog is served", || self.0.load(Ordering::Relaxed) > before);
    }
}

fn pings() -> Vec<u8> {
    b"PING\r\n".repeat(10_000)
}

/// Checks of many keys, which are decided together, among some that are not.
fn checks() -> Vec<u8> {
    let check = |key| match key % 100 {
        0 => format!("THROTTLE hog{key} 20 100 60\r\n"),
        _ => format!("CL.THROTTLE hog{key} 19 100 60\r\n"),
    };
    (0..5_000).map(check).collect::<String>().into_bytes()
}

/// Requests of HTTP, none of which waits for an answer.
fn requests() -> Vec<u8> {
    let check = |key| {
        let body = format!(r#"{{"key":"hog{key}","limit":"default"}}"#);
        let head = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length";
        format!("{head}: {}\r\n\r\n{body}", body.len())
    };
    (0..1_000).map(check).collect::<String>().into_bytes()
}

/// Starts more of each than the node has threads.
fn hogs_leave_others_their_turn(of_redis: &[fn() -> Vec<u8>], of_http: &[fn() -> Vec<u8>]) {
    let mut node = Node::start(&ENDLESS_DRAIN);
    let of_redis = of_redis.iter().map(|sent| (node.resp, sent()));
    let of_http = of_http.iter().map(|sent| (node.http, sent()));
    let each = 2 * thread::available_parallelism().unwrap().get() + 1;
    let hogs: Vec<_> = of_redis
        .chain(of_http)
        .flat_map(|(address, sent)| (0..each).map(move |_| Hog::start(address, sent.clone())))
        .collect();
    for _ in 0..5 {
        hogs.iter().for_each(Hog::wait);
        assert_eq!(get(&node, "/healthz").status, 200);
        Raw::connect(node.resp).expect_alive();
    }
    hogs.iter().for_each(Hog::wait);
    node.signal(Signal::TERM);
    assert_eq!(node.wait().code(), Some(0));
}

#[test]
fn clients_that_never_pause_leave_others_their_turn() {
    hogs_leave_others_their_turn(&[pings], &[]);
}

#[test]
fn checks_without_pause_leave_others_their_turn() {
    hogs_leave_others_their_turn(&[checks], &[]);
}

#[test]
fn requests_without_pause_leave_others_their_turn() {
    hogs_leave_others_their_turn(&[], &[requests]);
}

#[test]
fn all_of_them_leave_others_their_turn() {
    hogs_leave_others_their_turn(&[pings, checks], &[requests]);
}

/// What keeps a node busy that sends no reply.
fn checks_without_replies() -> Vec<u8> {
    [b"CLIENT REPLY OFF\r\n".to_vec(), checks().repeat(4)].concat()
}

/// The checks that were denied over the Redis protocol.
fn denied(node: &Node) -> u64 {
    let labels = "limit=\"inline\",frontend=\"resp\",outcome=\"denied\"";
    node.metric(&format!("tidegate_decisions_total{{{labels}}}"))
}

/// They have nothing to read, so that nothing but their turn ends what the node does for them.
#[test]
fn checks_without_replies_leave_others_their_turn() {
    let mut node = Node::start(&ENDLESS_DRAIN);
    let sent = checks_without_replies();
    let hogs = 2 * thread::available_parallelism().unwrap().get() + 1;
    let _hogs: Vec<_> = (0..hogs).map(|_| Hog::start(node.resp, sent.clone())).collect();
    let mut before = 0;
    for _ in 0..5 {
        wait_until("hogs are served", || {
            let denied = denied(&node);
            std::mem::replace(&mut before, denied) < denied
        });
        assert_eq!(get(&node, "/healthz").status, 200);
        Raw::connect(node.resp).expect_alive();
    }
    node.signal(Signal::TERM);
    assert_eq!(node.wait().code(), Some(0));
}

/// One that waits for each answer does not wait for a turn of each that never pauses.
#[test]
fn few_of_many_that_never_pause_come_before_one_that_waits() {
    const HOGS: u64 = 128;
    const ANSWERS: u64 = 200;
    /// Of one turn, at most.
    const CHECKS: u64 = 1_023;
    let node = Node::start(&ENDLESS_DRAIN);
    let sent = checks_without_replies();
    let _hogs: Vec<_> = (0..HOGS).map(|_| Hog::start(node.resp, sent.clone())).collect();
    let mut calm = Raw::connect(node.resp);
    wait_until("hogs are served", || denied(&node) > HOGS * CHECKS);
    let before = denied(&node);
    (0..ANSWERS).for_each(|_| calm.expect_alive());
    // Of each other answer a turn of each would be too much already.
    let turns = (denied(&node) - before) / CHECKS;
    println!("{turns} turns before {ANSWERS} answers");
    assert!(turns < ANSWERS * HOGS / 8, "{turns} turns came before {ANSWERS} answers");
}

/// However much each takes: many limits have many metrics.
#[test]
fn few_of_many_scrapes_without_pause_come_before_a_health_check() {
    const HEALTH_CHECKS: usize = 20;
    /// The length of an answer without its body, at least.
    const ANSWER_BYTES: usize = 100;
    let limit = |number| format!("[[limit]]\nname = \"limit{number}\"\nrate = \"100/s\"\n");
    let mut limits = tempfile::NamedTempFile::new().unwrap();
    limits.write_all((0..256).map(limit).collect::<String>().as_bytes()).unwrap();
    let node = Node::start(&["--config", limits.path().to_str().unwrap()]);
    let sent = b"HEAD /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1_000);
    let threads = thread::available_parallelism().unwrap().get();
    let hogs: Vec<_> = (0..=threads).map(|_| Hog::start(node.http, sent.clone())).collect();
    hogs.iter().for_each(Hog::wait);
    let read = || hogs.iter().map(|hog| hog.0.load(Ordering::Relaxed)).sum::<usize>();
    let before = read();
    (0..HEALTH_CHECKS).for_each(|_| assert_eq!(get(&node, "/healthz").status, 200));
    let answers = (read() - before) / ANSWER_BYTES;
    println!("{answers} answers before {HEALTH_CHECKS} health checks");
    // A thread looks for new connections after 61 tasks, each of which answers 16.
    let most = HEALTH_CHECKS * 61 * 16 / 4 * threads;
    assert!(answers < most, "{answers} answers came before {HEALTH_CHECKS} health checks");
}

/// Commands that echo numbers, and their replies.
fn echoes(count: usize) -> (String, String) {
    let numbers = (0..count).map(|number| number % 90 + 10);
    let (commands, replies): (Vec<_>, Vec<_>) =
        numbers.map(|number| (format!("ECHO {number}\r\n"), format!("$2\r\n{number}\r\n"))).unzip();
    (commands.concat(), replies.concat())
}

/// Each client's socket holds more than is read at once.
#[test]
fn long_pipelines_are_answered_before_the_node_stops() {
    let mut node = Node::start(&ENDLESS_DRAIN);
    let mut clients: Vec<_> = (0..20).map(|_| Raw::connect(node.resp)).collect();
    clients.iter_mut().for_each(Raw::expect_alive);
    // 27 KB: less than a socket holds.
    let (commands, replies) = echoes(3_000);
    // The node finds the commands of all clients and the signal at once.
    node.signal(Signal::STOP);
    for client in &mut clients {
        client.send(commands.as_bytes());
    }
    node.signal(Signal::TERM);
    node.signal(Signal::CONT);
    for client in &mut clients {
        client.expect(&replies);
        client.expect_end();
    }
    assert_eq!(node.wait().code(), Some(0));
}
