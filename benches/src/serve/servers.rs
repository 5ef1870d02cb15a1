//! Servers as child processes, each on the core of servers.

use std::io::{self, BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;
use std::{env, fs, thread};

use super::PATIENCE;
use super::closed_loop::Question;
use super::cores::{self, Usage};
use super::framing::Protocol;
use super::requests::Keys;
use super::rows::{Dialect, Row};
use crate::memory;

/// The name of the server that the others are compared with.
pub const CEILING: &str = "ceiling";

/// A running server, killed when dropped.
#[derive(Debug)]
pub struct Server {
    /// As in the table.
    pub name: &'static str,
    dialect: Dialect,
    process: Process,
    resp: Option<SocketAddr>,
    http: Option<SocketAddr>,
    /// Kept open, so that it never writes into a closed pipe.
    _output: Option<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts the ceiling, which is this program.
    ///
    /// # Errors
    /// Where it does not listen.
    pub fn ceiling() -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        // It ends when its standard input does, so it is not left behind.
        command.arg("ceiling").stdin(Stdio::piped());
        Self::that_greets(CEILING, command)
    }

    /// Starts a node.
    ///
    /// # Errors
    /// Where it does not listen.
    pub fn node(binary: &Path) -> io::Result<Self> {
        Self::that_greets("tidegate", node(binary))
    }

    /// Starts a node that has founded a cluster.
    ///
    /// # Errors
    /// Where it does not listen.
    pub fn clustered_node(binary: &Path) -> io::Result<Self> {
        let secret = env::temp_dir().join(format!("tidegate-serve-{}", std::process::id()));
        fs::write(&secret, "of this measurement alone")?;
        let mut command = node(binary);
        command.args(["--cluster", "127.0.0.1:0", "--cluster-secret-file"]).arg(&secret);
        let server = Self::that_greets("tidegate in a cluster of one", command);
        fs::remove_file(&secret)?;
        server
    }

    /// Starts Redis with redis-cell: its library, or its source, which is built first.
    ///
    /// # Errors
    /// Where that is not built, or Redis does not listen.
    pub fn redis_cell(redis: &Path, cell: &Path) -> io::Result<Self> {
        let library = if cell.is_dir() { built(cell)? } else { cell.to_owned() };
        let resp = free_port()?;
        let mut command = Command::new(redis);
        command.args(["--bind", "127.0.0.1", "--port"]).arg(resp.port().to_string());
        command.args(["--save", "", "--appendonly", "no", "--loadmodule"]).arg(library);
        command.stdout(Stdio::null());
        let process = spawned(command)?;
        let (name, dialect) = ("redis-cell", Dialect::RedisCell);
        Self { name, dialect, process, resp: Some(resp), http: None, _output: None }.that_listens()
    }

    /// Starts throttlecrab-server.
    ///
    /// # Errors
    /// Where it does not listen.
    pub fn throttlecrab(binary: &Path) -> io::Result<Self> {
        let (resp, http) = (free_port()?, free_port()?);
        let mut command = Command::new(binary);
        for (flag, address) in [("redis", resp), ("http", http)] {
            command.arg(format!("--{flag}")).arg(format!("--{flag}-host={}", address.ip()));
            command.arg(format!("--{flag}-port={}", address.port()));
        }
        command.stdout(Stdio::null());
        let (name, dialect) = ("throttlecrab-server", Dialect::Throttlecrab);
        let (process, resp, http) = (spawned(command)?, Some(resp), Some(http));
        Self { name, dialect, process, resp, http, _output: None }.that_listens()
    }

    /// What it is asked in a row; `None` where it has no such thing.
    #[must_use]
    pub fn question(&self, row: Row, keys: Keys) -> Option<Question> {
        let address = match row.protocol() {
            Protocol::Resp => self.resp?,
            Protocol::Http => self.http?,
        };
        let (protocol, pipelining) = (row.protocol(), row.pipelining());
        let request = self.dialect.request(row)?;
        Some(Question { address, protocol, request, pipelining, keys })
    }

    /// Its resident memory, in bytes.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        memory::resident_bytes(&self.process.0.id().to_string()).map_err(io::Error::other)
    }

    /// What its threads used so far.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn usage(&self) -> io::Result<Usage> {
        Usage::of_process(self.process.0.id())
    }

    /// Starts a server that says where it listens.
    fn that_greets(name: &'static str, mut command: Command) -> io::Result<Self> {
        command.stdout(Stdio::piped());
        let mut process = spawned(command)?;
        let Some(output) = process.0.stdout.take() else {
            return Err(io::Error::other(format!("{name} has no output")));
        };
        let mut output = BufReader::new(output);
        let mut line = String::new();
        while !line.starts_with("listening ") {
            line.clear();
            if output.read_line(&mut line)? == 0 {
                return Err(io::Error::other(format!("{name} does not listen")));
            }
        }
        let address = |prefix| {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(prefix));
            word.and_then(|address| address.parse().ok())
        };
        let (resp, http) = (address("resp="), address("http="));
        let dialect = Dialect::Tidegate;
        Ok(Self { name, dialect, process, resp, http, _output: Some(output) })
    }

    /// Waits until it accepts connections.
    fn that_listens(mut self) -> io::Result<Self> {
        let start = Instant::now();
        for address in [self.resp, self.http].into_iter().flatten() {
            while TcpStream::connect(address).is_err() {
                if start.elapsed() > PATIENCE || self.process.0.try_wait()?.is_some() {
                    return Err(io::Error::other(format!("{} does not listen", self.name)));
                }
                thread::sleep(PATIENCE / 1_000);
            }
        }
        Ok(self)
    }
}

/// Killed when dropped.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn node(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command.args(["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "warn"]);
    command
}

/// Starts a process on the core of servers.
fn spawned(mut command: Command) -> io::Result<Process> {
    cores::stay_on(cores::OF_SERVERS)?;
    let process = command.spawn().map_err(|error| named(command.get_program().as_ref(), &error));
    cores::stay_on(cores::OF_LOAD)?;
    process.map(Process)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The library of redis-cell, built from its source.
fn built(source: &Path) -> io::Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--lib", "--target-dir", "target"]).current_dir(source);
    let status = cargo.status().map_err(|error| named(Path::new("cargo"), &error))?;
    if !status.success() {
        return Err(io::Error::other(format!("{} is not built: {status}", source.display())));
    }
    Ok(source.join("target/release/libredis_cell.so"))
}

/// A port that was free a moment ago, for servers that pick none themselves.
fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
