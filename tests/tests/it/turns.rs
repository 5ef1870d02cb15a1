//! Clients that send without pause, or much at once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::Signal;
use tidegate_tests::{Node, Raw, get, wait_until};

/// A client that sends PING without pause, and reads what comes, until the node hangs up.
struct Hog(Arc<AtomicUsize>);

impl Hog {
    fn start(node: &Node) -> Self {
        let mut sending = TcpStream::connect(node.resp).unwrap();
        let mut reading = sending.try_clone().unwrap();
        let pings = b"PING\r\n".repeat(10_000);
        thread::spawn(move || while sending.write_all(&pings).is_ok() {});
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

#[test]
fn clients_that_never_pause_leave_others_their_turn() {
    let mut node = Node::start(&[]);
    // More than the node has threads.
    let hogs = 2 * thread::available_parallelism().unwrap().get() + 1;
    let hogs: Vec<_> = (0..hogs).map(|_| Hog::start(&node)).collect();
    for _ in 0..5 {
        hogs.iter().for_each(Hog::wait);
        assert_eq!(get(&node, "/healthz").status, 200);
        Raw::connect(node.resp).expect_alive();
    }
    hogs.iter().for_each(Hog::wait);
    node.signal(Signal::TERM);
    assert_eq!(node.wait().code(), Some(0));
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
    let mut node = Node::start(&[]);
    let mut clients: Vec<_> = (0..20).map(|_| Raw::connect(node.resp)).collect();
    clients.iter_mut().for_each(Raw::expect_alive);
    let (commands, replies) = echoes(20_000);
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
