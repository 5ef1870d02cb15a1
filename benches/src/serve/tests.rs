//! The load against the ceiling: numbers of requests, not times.

use core::time::Duration;
use std::net::TcpListener;
use std::{io, thread};

use super::closed_loop::{ClosedLoop, Question, ask_once};
use super::framing::Protocol;
use super::open_loop::{self, Schedule};
use super::requests::Keys;
use super::rows::{Dialect, Row};
use super::{ceiling, closed_loop};

/// Runs `load` with a ceiling, and holds that this ends when its leash is let go.
fn with_a_ceiling(load: impl FnOnce(&dyn Fn(Row) -> Question)) {
    let listen = || TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (resp, http) = (listen(), listen());
    let address = |listener: &TcpListener| listener.local_addr().expect("an address");
    let addresses = (address(&resp), address(&http));
    let (leash, hand) = io::pipe().expect("a pipe");
    let server = thread::spawn(move || ceiling::run(&resp, &http, leash));
    load(&|row| Question {
        address: match row.protocol() {
            Protocol::Resp => addresses.0,
            Protocol::Http => addresses.1,
        },
        protocol: row.protocol(),
        request: Dialect::Tidegate.request(row).expect("a request"),
        pipelining: row.pipelining(),
        keys: Keys::Drawn { seed: 1 },
    });
    drop(hand);
    server.join().expect("no panic").expect("the ceiling ends without an error");
}

#[test]
fn the_ceiling_answers_each_request() {
    const REPLIES: u64 = 20_000;
    with_a_ceiling(|question| {
        for row in Row::ALL {
            let replies = REPLIES / row.checks() as u64;
            let mut load = ClosedLoop::start(&question(row), 7).expect("connections");
            load.run_until(|tally| tally.replies >= replies).expect("replies");
            assert_eq!(load.tally().errors, 0, "{row:?}: {:?}", load.tally());
            let reply = ask_once(&question(row)).expect("a reply").expect("an answer");
            row.verify(&reply).expect("a whole answer");
        }
    });
}

#[test]
fn a_schedule_is_kept_to_its_end() {
    with_a_ceiling(|question| {
        let schedule =
            Schedule { interval: Duration::from_micros(50), warm_up: 100, requests: 2_000 };
        let mut begun = 0;
        let outcome = open_loop::run(&question(Row::Latency), 5, &schedule, || {
            begun += 1;
            Ok(())
        });
        let outcome = outcome.expect("replies");
        assert_eq!((outcome.tally.replies, outcome.tally.errors), (2_100, 0));
        assert_eq!((outcome.latencies.len(), begun), (2_000, 1));
        assert!(outcome.latencies.is_sorted());
        assert!(outcome.quantile(0.5) <= outcome.quantile(0.99));
        assert_eq!(outcome.quantile(1.0), outcome.latencies[1_999]);
    });
}

#[test]
fn errors_are_counted_and_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let server = thread::spawn(move || {
        use io::{Read as _, Write as _};
        let (mut client, _) = listener.accept().expect("a client");
        client.read_exact(&mut [0; 10]).expect("a request");
        client.write_all(b"-ERR no such command\r\n*5\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1\r\n").is_ok()
    });
    let (protocol, request) = (Protocol::Resp, "*0\r\n ".to_owned());
    let keys = Keys::Drawn { seed: 1 };
    let question = closed_loop::Question { address, protocol, request, pipelining: 2, keys };
    let mut load = ClosedLoop::start(&question, 1).expect("a connection");
    load.run_until(|tally| tally.replies == 2).expect("two replies");
    assert_eq!(load.tally().errors, 1);
    assert_eq!(load.tally().first_error.as_deref(), Some("-ERR no such command"));
    assert!(server.join().expect("no panic"));
}
