//! A client of a node: asks at a rate, pipelined, and notes when it was answered.
//!
//! The load is open: what is due is asked for whether or not earlier requests are answered, up to
//! [`MAX_OUTSTANDING`]; what is due beyond is not asked for, and counted. A client whose connection
//! ends opens another.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ledger::Event;
use crate::place::Place;
use crate::quota::Quota;
use crate::reply::{Protocol, Replies, Reply};

/// Requests sent and not answered, at most, of one client.
const MAX_OUTSTANDING: u64 = 4_096;
/// The least time between two looks at what is due.
const TICK: Duration = Duration::from_millis(1);
/// The longest.
const MAX_WAIT: Duration = Duration::from_millis(20);
/// Between two attempts to connect, and for one.
const RECONNECT: Duration = Duration::from_millis(20);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;
/// Events kept of one client, at most: hours of load.
const MAX_EVENTS: usize = 20_000_000;

/// The name of the limit in the configuration of nodes.
pub const NAMED: &str = "named";

/// What a client asks for.
#[derive(Clone, Debug)]
pub enum Keys {
    One(String),
    /// A new key with each request, which begin with this.
    Spray(String),
}

#[derive(Debug, Default)]
struct Shared {
    /// Requests in a thousand seconds.
    rate: AtomicU64,
    stop: AtomicBool,
    skipped: AtomicU64,
    lost: AtomicU64,
    errors: AtomicU64,
    events: Mutex<Vec<Event>>,
}

/// A handle on the thread of a client, which stops when it is dropped.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Starts a client at a place; it asks for nothing yet. `clock` is the zero of all events. By
    /// HTTP it asks under [`NAMED`], otherwise under the quota.
    pub fn start(
        place: &Place,
        (protocol, node): (Protocol, SocketAddr),
        keys: Keys,
        quota: Quota,
        clock: Instant,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let asking = Asking {
            shared: Arc::clone(&shared),
            protocol,
            node,
            keys,
            quota,
            clock,
            number: 0,
            owed: 0.0,
            sent: VecDeque::new(),
            outstanding: 0,
            output: Vec::new(),
        };
        // A thread stays in the network of the one that starts it.
        let thread = place.run(move || thread::spawn(move || asking.run()));
        Self { shared, thread: Some(thread) }
    }

    /// Asks this many times a second from now on.
    pub fn set_rate(&self, rate: f64) {
        // Relaxed, as all of these: numbers that guard nothing.
        self.shared.rate.store((rate * 1_000.0) as u64, Ordering::Relaxed);
    }

    /// What it was answered so far.
    pub fn events(&self) -> Vec<Event> {
        self.shared.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests that were due while too many were outstanding.
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }

    /// Requests whose answers were lost with their connections: what became of them is not known.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Answers that were errors.
    pub fn errors(&self) -> u64 {
        self.shared.errors.load(Ordering::Relaxed)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The client's thread.
struct Asking {
    shared: Arc<Shared>,
    protocol: Protocol,
    node: SocketAddr,
    keys: Keys,
    quota: Quota,
    clock: Instant,
    /// Requests made so far.
    number: u64,
    /// Requests due, in parts.
    owed: f64,
    /// When how many requests that are outstanding were sent.
    sent: VecDeque<(u64, u64)>,
    outstanding: u64,
    /// What is still to be written.
    output: Vec<u8>,
}

impl Asking {
    fn run(mut self) {
        while !self.is_stopped() {
            match TcpStream::connect_timeout(&self.node, CONNECT_TIMEOUT) {
                // However it ended, another connection follows.
                Ok(stream) => drop(self.ask(stream)),
                Err(_) => thread::sleep(RECONNECT),
            }
            self.shared.lost.fetch_add(self.outstanding, Ordering::Relaxed);
            self.outstanding = 0;
            self.sent.clear();
            self.output.clear();
        }
    }

    fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    fn ask(&mut self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (mut replies, mut input) = (Replies::new(self.protocol), vec![0; READ_BYTES]);
        let mut last = Instant::now();
        while !self.is_stopped() {
            let now = Instant::now();
            let rate = self.shared.rate.load(Ordering::Relaxed) as f64 / 1_000.0;
            self.owed += rate * (now - last).as_secs_f64();
            last = now;
            self.make_requests(now);
            self.write(&mut stream)?;
            let until_due = Duration::try_from_secs_f64((1.0 - self.owed) / rate);
            let wait = until_due.unwrap_or(MAX_WAIT).clamp(TICK, MAX_WAIT);
            if Self::wait(&stream, wait, !self.output.is_empty()) {
                self.read(&mut stream, &mut replies, &mut input)?;
            }
        }
        Ok(())
    }

    fn make_requests(&mut self, now: Instant) {
        let due = self.owed as u64;
        self.owed -= due as f64;
        let count = due.min(MAX_OUTSTANDING - self.outstanding);
        self.shared.skipped.fetch_add(due - count, Ordering::Relaxed);
        for _ in 0..count {
            self.number += 1;
            self.request();
        }
        if count > 0 {
            self.outstanding += count;
            self.sent.push_back((self.since_start(now), count));
        }
    }

    fn request(&mut self) {
        let spray;
        let key = match &self.keys {
            Keys::One(key) => key,
            Keys::Spray(prefix) => {
                spray = format!("{prefix}{}", self.number);
                &spray
            }
        };
        let Quota { rate, burst } = self.quota;
        // Writing to a vector does not fail.
        let _ = match self.protocol {
            Protocol::Redis => {
                write!(self.output, "CL.THROTTLE {key} {} {rate} 1\r\n", burst - 1)
            }
            Protocol::Http => {
                let body = format!(r#"{{"key":"{key}","limit":"{NAMED}"}}"#);
                let head = "POST /v1/check HTTP/1.1\r\nhost: node\r\ncontent-length";
                write!(self.output, "{head}: {}\r\n\r\n{body}", body.len())
            }
        };
    }

    fn write(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let mut written = 0;
        while written < self.output.len() {
            match stream.write(&self.output[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.output.drain(..written);
        Ok(())
    }

    /// Waits; whether there is something to read.
    fn wait(stream: &TcpStream, wait: Duration, is_writing: bool) -> bool {
        let flags = if is_writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut polled = [PollFd::new(stream, flags)];
        let wait = Timespec::try_from(wait).unwrap_or_default();
        // An interrupted wait ends early.
        let _ = poll(&mut polled, Some(&wait));
        !(polled[0].revents() - PollFlags::OUT).is_empty()
    }

    fn read(
        &mut self,
        stream: &mut TcpStream,
        replies: &mut Replies,
        input: &mut [u8],
    ) -> io::Result<()> {
        let count = match stream.read(input) {
            Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof)),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let seen = self.since_start(Instant::now());
        let (shared, sent) = (&self.shared, &mut self.sent);
        let mut outstanding = self.outstanding;
        let mut events = shared.events.lock().unwrap_or_else(PoisonError::into_inner);
        let first = events.len();
        replies.feed(&input[..count], |reply| {
            outstanding = outstanding.saturating_sub(1);
            let at = take_one(sent).unwrap_or(seen);
            let is_new = events.len() == first || events.last().is_none_or(|last| last.sent != at);
            if is_new && events.len() < MAX_EVENTS {
                events.push(Event { sent: at, seen, allowed: 0, denied: 0 });
            }
            let Some(event) = events.last_mut() else { return };
            match reply {
                Reply::Allowed => event.allowed += 1,
                Reply::Denied => event.denied += 1,
                Reply::Error => drop(shared.errors.fetch_add(1, Ordering::Relaxed)),
            }
        });
        drop(events);
        self.outstanding = outstanding;
        Ok(())
    }

    fn since_start(&self, now: Instant) -> u64 {
        now.duration_since(self.clock).as_nanos() as u64
    }
}

/// Takes the oldest request; when it was sent.
fn take_one(sent: &mut VecDeque<(u64, u64)>) -> Option<u64> {
    let (at, count) = sent.front_mut()?;
    let at = *at;
    *count -= 1;
    if *count == 0 {
        sent.pop_front();
    }
    Some(at)
}
