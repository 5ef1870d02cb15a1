//! Forwards IP packets between the devices of places: one thread, which holds each packet for as
//! long as it is delayed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::place;
use crate::weather::Weather;

/// Packets under way, at most; more are lost.
const MAX_PACKETS: usize = 1 << 17;
/// Packets read from one device before the others have their turn, at most.
const MAX_PACKETS_AT_ONCE: usize = 64;
/// The largest packet, in bytes.
const MAX_PACKET_BYTES: usize = 2_048;
/// The switch looks at least this often whether it is to stop.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// What a switch has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub forwarded: u64,
    /// Lost as the weather has it.
    pub lost: u64,
    /// Lost because a queue was full, which is not intended.
    pub overflowed: u64,
    /// How much later than it was due a packet was forwarded, all packets together.
    pub late: Duration,
    /// The same of the packet that was latest.
    pub latest: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    weather: Mutex<Weather>,
    counts: Mutex<Counts>,
    stop: AtomicBool,
}

/// A handle on the thread of a switch, which stops when it is dropped.
#[derive(Debug)]
pub struct Switch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    /// Forwards between these devices, of the places 0 and following.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(devices: Vec<File>, weather: Weather, seed: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared { weather: Mutex::new(weather), ..Shared::default() });
        let forwarding = Forwarding {
            devices,
            shared: Arc::clone(&shared),
            rng: ChaCha8Rng::seed_from_u64(seed),
            under_way: BinaryHeap::new(),
            sent: 0,
            counts: Counts::default(),
        };
        let builder = thread::Builder::new().name("switch".to_owned());
        let thread = builder.spawn(move || forwarding.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Changes the weather.
    pub fn weather(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut lock(&self.shared.weather));
    }

    pub fn counts(&self) -> Counts {
        *lock(&self.shared.counts)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // Relaxed: the flag guards nothing.
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A packet under way. The earliest is the greatest, and of two the one that was sent first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    due: Reverse<Instant>,
    number: Reverse<u64>,
    to: usize,
    bytes: Vec<u8>,
}

struct Forwarding {
    devices: Vec<File>,
    shared: Arc<Shared>,
    rng: ChaCha8Rng,
    under_way: BinaryHeap<Packet>,
    sent: u64,
    counts: Counts,
}

impl Forwarding {
    fn run(mut self) {
        // Relaxed: the flag guards nothing.
        while !self.shared.stop.load(Ordering::Relaxed) {
            let ready = self.wait();
            let weather = lock(&self.shared.weather).clone();
            for from in ready {
                for _ in 0..MAX_PACKETS_AT_ONCE {
                    if !self.take(from, &weather) {
                        break;
                    }
                }
            }
            self.deliver();
            *lock(&self.shared.counts) = self.counts;
        }
    }

    /// Waits for a packet, or until one is due; the devices with packets.
    fn wait(&self) -> Vec<usize> {
        let due = self.under_way.peek().map(|packet| packet.due.0);
        let wait = due.map_or(MAX_WAIT, |due| due.saturating_duration_since(Instant::now()));
        let wait = Timespec::try_from(wait.min(MAX_WAIT)).unwrap_or_default();
        let mut polled: Vec<_> =
            self.devices.iter().map(|device| PollFd::new(device, PollFlags::IN)).collect();
        // An interrupted wait ends early.
        let _ = poll(&mut polled, Some(&wait));
        let ready = polled.iter().enumerate().filter(|(_, polled)| !polled.revents().is_empty());
        ready.map(|(number, _)| number).collect()
    }

    /// Takes a packet of a device; false when there is none.
    fn take(&mut self, from: usize, weather: &Weather) -> bool {
        let mut bytes = [0; MAX_PACKET_BYTES];
        let Ok(length) = (&self.devices[from]).read(&mut bytes) else { return false };
        let bytes = &bytes[..length];
        let Some(to) = destination(bytes).filter(|to| *to < self.devices.len()) else {
            // For example a router solicitation of IPv6.
            return true;
        };
        let conditions = weather.conditions;
        if weather.is_cut(from, to)
            || length > conditions.mtu
            || conditions.loss > 0.0 && self.rng.random_bool(conditions.loss)
        {
            self.counts.lost += 1;
            return true;
        }
        let doubled = conditions.doubled > 0.0 && self.rng.random_bool(conditions.doubled);
        for _ in 0..=usize::from(doubled) {
            let jitter = conditions.jitter.mul_f64(self.rng.random());
            self.send(to, bytes, Instant::now() + conditions.delay + jitter);
        }
        true
    }

    fn send(&mut self, to: usize, bytes: &[u8], due: Instant) {
        if self.under_way.len() >= MAX_PACKETS {
            self.counts.overflowed += 1;
            return;
        }
        self.sent += 1;
        let (due, number) = (Reverse(due), Reverse(self.sent));
        self.under_way.push(Packet { due, number, to, bytes: bytes.to_vec() });
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while self.under_way.peek().is_some_and(|packet| packet.due.0 <= now) {
            let Some(Packet { due, to, bytes, .. }) = self.under_way.pop() else { return };
            if (&self.devices[to]).write_all(&bytes).is_err() {
                self.counts.overflowed += 1;
                continue;
            }
            let late = now.saturating_duration_since(due.0);
            self.counts.forwarded += 1;
            self.counts.late += late;
            self.counts.latest = self.counts.latest.max(late);
        }
    }
}

/// The place that a packet of IPv4 goes to.
fn destination(packet: &[u8]) -> Option<usize> {
    let is_ipv4 = packet.first().is_some_and(|byte| byte >> 4 == 4);
    let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    if is_ipv4 { place::number(address) } else { None }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
