//! A node as a process at a place: started as an operator would, killed when dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::place::{Place, address};

/// Where each node serves clients, at its place.
pub const RESP: &str = "127.0.0.1:7379";
pub const HTTP: &str = "127.0.0.1:7380";
/// The port of each node for other nodes.
const CLUSTER_PORT: u16 = 7_381;
/// How long a node may take to listen, or to end.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a node may take to answer HTTP: a stopped one does not.
const HTTP_TIMEOUT: Duration = Duration::from_secs(2);
/// The kernel counts processor time in these: 100 a second on every Linux.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// The address of the node of this number for other nodes.
pub fn cluster_address(number: usize) -> SocketAddr {
    SocketAddr::from((address(number), CLUSTER_PORT))
}

/// How nodes are started.
#[derive(Clone, Debug)]
pub struct Program {
    pub binary: PathBuf,
    pub config: PathBuf,
    /// Nodes to join; without any, and without a secret, nodes are alone.
    pub join: Vec<SocketAddr>,
    pub secret: Option<PathBuf>,
    /// Where each node's standard error goes.
    pub logs: PathBuf,
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    number: usize,
    place: Arc<Place>,
    process: Child,
    ready: Receiver<()>,
    log: PathBuf,
    started: Instant,
}

impl Node {
    /// Starts a node, and waits for nothing. It ends with this process.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(number: usize, place: &Arc<Place>, program: &Program) -> Result<Self, String> {
        let log = program.logs.join(format!("node-{number}.log"));
        let errors = File::options().create(true).append(true).open(&log);
        let errors = errors.map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&program.binary);
        command.args(["serve", "--resp", RESP, "--http", HTTP, "--config"]).arg(&program.config);
        if let Some(secret) = &program.secret {
            command.args(["--cluster", &cluster_address(number).to_string()]);
            command.arg("--cluster-secret-file").arg(secret);
            for seed in &program.join {
                command.args(["--join", &seed.to_string()]);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let process = place.run(move || command.spawn());
        let mut process = process.map_err(|error| format!("setpriv, of util-linux: {error}"))?;
        let output = process.stdout.take().ok_or("a node without output")?;
        let (place, ready, started) = (Arc::clone(place), watch(output), Instant::now());
        Ok(Self { number, place, process, ready, log, started })
    }

    /// Waits until the node listens; how long that took since it was started.
    ///
    /// # Errors
    /// With what it said, when it does not.
    pub fn wait_ready(&mut self) -> Result<Duration, String> {
        match self.ready.recv_timeout(PATIENCE) {
            Ok(()) => Ok(self.started.elapsed()),
            Err(RecvTimeoutError::Timeout) => Err(self.failure("does not listen")),
            Err(RecvTimeoutError::Disconnected) => Err(self.failure("ended")),
        }
    }

    fn failure(&self, what: &str) -> String {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        format!("node {} {what}; it said: {said}", self.number)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("a process without a number")?;
        kill_process(pid, signal).map_err(|error| self.failure(&format!("has ended: {error}")))
    }

    /// Waits until the process has ended.
    ///
    /// # Errors
    /// When it does not end.
    pub fn wait(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if start.elapsed() > PATIENCE {
                return Err(self.failure("does not end"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The processor time that the process has taken.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn processor_time(&self) -> Result<Duration, String> {
        let path = format!("/proc/{}/stat", self.process.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        // After the name, which is in parentheses: the state, ten fields, user and system time.
        let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u32 =
            fields.skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
        Ok(CLOCK_TICK * ticks)
    }

    /// The node's metrics.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn metrics(&self) -> Result<Metrics, String> {
        self.get("/metrics").map(|text| Metrics::parse(&text))
    }

    /// The state of each member in the node's eyes, by address.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn members(&self) -> Result<BTreeMap<SocketAddr, String>, String> {
        let view: Value = serde_json::from_str(&self.get("/v1/cluster")?)
            .map_err(|error| format!("node {}: {error}", self.number))?;
        let members = view["members"].as_array().into_iter().flatten();
        let member = |member: &Value| {
            let addr = member["addr"].as_str()?.parse().ok()?;
            Some((addr, member["state"].as_str()?.to_owned()))
        };
        Ok(members.filter_map(member).collect())
    }

    /// The nodes that this one sends what it admits, by address.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn flows(&self) -> Result<BTreeSet<SocketAddr>, String> {
        let view: Value = serde_json::from_str(&self.get("/v1/cluster")?)
            .map_err(|error| format!("node {}: {error}", self.number))?;
        let members = view["members"].as_array().into_iter().flatten();
        let flowing = members.filter(|member| member["peer"]["link"] == "flowing");
        Ok(flowing.filter_map(|member| member["addr"].as_str()?.parse().ok()).collect())
    }

    fn get(&self, path: &'static str) -> Result<String, String> {
        let number = self.number;
        self.place.run(move || {
            let config = ureq::Agent::config_builder().timeout_global(Some(HTTP_TIMEOUT)).build();
            let answer = ureq::Agent::from(config).get(format!("http://{HTTP}{path}")).call();
            let body = answer.and_then(|mut answer| answer.body_mut().read_to_string());
            body.map_err(|error| format!("node {number}, {path}: {error}"))
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads what a node says to its end; receives once it listens.
fn watch(output: ChildStdout) -> Receiver<()> {
    let (sender, ready) = sync_channel(1);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line.starts_with("listening ") {
                let _ = sender.try_send(());
            }
        }
    });
    ready
}

/// What a node exposes for Prometheus, by name with labels.
#[derive(Clone, Debug, Default)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn parse(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Self(samples.filter_map(sample).collect())
    }

    /// A figure of the cluster by its name after `tidegate_cluster_`; `None` where this build has
    /// no such figure.
    pub fn cluster(&self, name: &str) -> Option<f64> {
        self.0.get(&format!("tidegate_cluster_{name}")).copied()
    }
}

/// Whether a file is there to be run.
///
/// # Errors
/// When it is not.
pub fn check_binary(path: &Path) -> Result<(), String> {
    let hint = "build it by `cargo build --release`, or name another by --node";
    if path.is_file() { Ok(()) } else { Err(format!("no {}: {hint}", path.display())) }
}
