//! A network namespace, in which a node and its clients run. It has no name: it ends with this
//! process, whatever that ends by.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::sys;

/// Jobs that wait for the thread of a place, at most.
const MAX_JOBS: usize = 16;
/// The device by which a place reaches the others.
const DEVICE: &str = "tidegate0";
/// The largest packet of a device, in bytes.
const MTU: &str = "1500";

type Job = Box<dyn FnOnce() + Send>;

/// A handle on the thread that keeps the namespace.
#[derive(Debug)]
pub struct Place {
    jobs: SyncSender<Job>,
}

impl Place {
    /// A namespace with the address of this number, and its device, for a switch.
    ///
    /// # Errors
    /// In one line, where the system has no namespaces or devices for this user.
    pub fn new(number: usize) -> Result<(Self, File), String> {
        let (jobs, queue) = sync_channel(MAX_JOBS);
        let place = Self { jobs };
        let keeper = thread::Builder::new().name(format!("place {number}"));
        keeper.spawn(move || keep(&queue)).map_err(|error| error.to_string())?;
        let device = place.run(move || enter(number))?;
        Ok((place, device))
    }

    /// Runs a job in the namespace and waits for it. Threads and processes that it starts stay in
    /// the namespace.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = sync_channel(1);
        let job = move || drop(done.send(job()));
        self.jobs.send(Box::new(job)).expect("the thread of a place runs as long as the place");
        result.recv().expect("no job of a place panics")
    }
}

fn keep(queue: &Receiver<Job>) {
    while let Ok(job) = queue.recv() {
        job();
    }
}

fn enter(number: usize) -> Result<File, String> {
    let named = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    sys::enter_new_network().map_err(named("a network namespace"))?;
    let device = sys::tun(DEVICE).map_err(named("a TUN device"))?;
    ip(&["link", "set", "lo", "up"])?;
    ip(&["addr", "add", &format!("{}/24", address(number)), "dev", DEVICE])?;
    ip(&["link", "set", DEVICE, "mtu", MTU, "txqueuelen", "10000", "up"])?;
    Ok(device)
}

/// The address of a place.
pub fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, u8::try_from(number + 1).unwrap_or(u8::MAX))
}

/// The place that has an address.
pub fn number([a, b, c, d]: [u8; 4]) -> Option<usize> {
    ([a, b, c] == [10, 77, 0]).then_some(usize::from(d).checked_sub(1)?)
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output();
    let output = output.map_err(|error| format!("ip, of iproute2: {error}"))?;
    let text = || format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(text().trim().to_owned()) }
}
