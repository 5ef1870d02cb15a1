//! A DNS server on this host (RFC 1035): as much of one as a lookup needs.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const ADDRESS: u16 = 1;
const SERVICE: u16 = 33;
/// The length of a message's head.
const HEAD: usize = 12;

/// Records by name and type, each as its data.
type Zone = BTreeMap<(Vec<u8>, u16), Vec<Vec<u8>>>;

#[derive(Default)]
struct Shared {
    zone: Mutex<Zone>,
    answered: AtomicBool,
    ended: AtomicBool,
}

/// Answers over UDP until it is dropped.
pub struct DnsServer {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl DnsServer {
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve(&socket, &of_thread));
        Self { address, shared, thread: Some(thread) }
    }

    pub fn set_address(&self, name: &str, address: [u8; 4]) {
        self.set(name, ADDRESS, vec![address.to_vec()]);
    }

    /// A service with one target at several ports.
    pub fn set_service(&self, name: &str, target: &str, ports: &[u16]) {
        let data = |port: &u16| [&[0; 4], &port.to_be_bytes()[..], &labels(target)].concat();
        self.set(name, SERVICE, ports.iter().map(data).collect());
    }

    /// Whether a query was answered with a record.
    pub fn has_answered(&self) -> bool {
        self.shared.answered.load(Ordering::Relaxed)
    }

    fn set(&self, name: &str, kind: u16, records: Vec<Vec<u8>>) {
        self.shared.zone.lock().unwrap().insert((labels(name), kind), records);
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A name as it is in a message.
fn labels(name: &str) -> Vec<u8> {
    let label = |label: &str| {
        let length = u8::try_from(label.len()).unwrap();
        [&[length], label.to_ascii_lowercase().as_bytes()].concat()
    };
    let mut labels: Vec<u8> = name.split('.').flat_map(label).collect();
    labels.push(0);
    labels
}

fn serve(socket: &UdpSocket, shared: &Shared) {
    let mut buffer = [0; 1_500];
    while !shared.ended.load(Ordering::Relaxed) {
        // Nothing has come within the timeout.
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        if let Some(answer) = answer(&buffer[..length], shared) {
            socket.send_to(&answer, from).unwrap();
        }
    }
}

fn answer(question: &[u8], shared: &Shared) -> Option<Vec<u8>> {
    let name = &question.get(HEAD..)?;
    let end = name.iter().position(|byte| *byte == 0)? + 1;
    let asked = name.get(..end + 4)?;
    let kind = u16::from_be_bytes([asked[end], asked[end + 1]]);
    let key = (asked[..end].to_ascii_lowercase(), kind);
    let zone = shared.zone.lock().unwrap();
    let records = zone.get(&key).map(Vec::as_slice).unwrap_or_default();
    shared.answered.fetch_or(!records.is_empty(), Ordering::Relaxed);
    let count = u16::try_from(records.len()).ok()?;
    // A response; recursion is available; no such name where there are no records.
    let flags: u16 = if records.is_empty() { 0x8183 } else { 0x8180 };
    let numbers = [flags, 1, count, 0, 0].map(u16::to_be_bytes).concat();
    let mut answer = [&question[..2], &numbers, asked].concat();
    for data in records {
        let length = u16::try_from(data.len()).ok()?;
        // The name of the question, the Internet, and a minute.
        let head = [0xc00c, kind, 1, 0, 60, length].map(u16::to_be_bytes).concat();
        answer.extend([&head[..], data].concat());
    }
    Some(answer)
}
