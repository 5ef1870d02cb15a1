//! Running the binary: as a node, or to its end.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};

use crate::{PATIENCE, binary, repository, wait_until};

/// Lines of a node's output that are kept; far more than it prints before it listens.
const MAX_LINES: usize = 1_000;

/// A running node, killed when dropped.
#[derive(Debug)]
pub struct Node {
    process: Child,
    /// What it printed before it listened.
    pub greeting: String,
    /// Where it serves the Redis protocol.
    pub resp: SocketAddr,
    /// Where it serves HTTP.
    pub http: SocketAddr,
    /// Where it meets other nodes.
    pub cluster: Option<SocketAddr>,
    /// Kept open, so the node never writes into a closed pipe.
    _output: mpsc::Receiver<String>,
}

impl Node {
    /// Starts a node on free ports and waits until it listens.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn start(args: &[&str]) -> Self {
        Self::started(spawn(args, Stdio::piped(), Stdio::inherit()))
    }

    /// The same for a node that may open this many files.
    ///
    /// # Panics
    /// When it does not listen.
    #[must_use]
    pub fn start_with_files(files: u32, args: &[&str]) -> Self {
        let limit = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &limit]).arg(binary());
        Self::started(spawn_by(shell, args, Stdio::piped(), Stdio::inherit()))
    }

    fn started(mut process: Child) -> Self {
        let lines = lines(process.stdout.take().expect("a pipe"));
        let mut greeting = String::new();
        let listening = loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if line.starts_with("listening ") => break line,
                Ok(line) => {
                    greeting.push_str(&line);
                    greeting.push('\n');
                }
                Err(_) => {
                    let _ = process.kill();
                    panic!("the node does not listen, it said: {greeting}");
                }
            }
        };
        let address = |name: &str| {
            let found = listening.split(' ').find_map(|word| word.strip_prefix(name));
            found.map(|address| address.parse().expect("an address"))
        };
        Self {
            resp: address("resp=").expect("an address for Redis clients"),
            http: address("http=").expect("an address for HTTP"),
            cluster: address("cluster="),
            greeting,
            process,
            _output: lines,
        }
    }

    /// The node's process.
    ///
    /// # Panics
    /// Never: process numbers are positive.
    #[must_use]
    pub fn pid(&self) -> Pid {
        let pid = i32::try_from(self.process.id()).expect("a small number");
        Pid::from_raw(pid).expect("a positive number")
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process exists");
    }

    /// Waits for the process to end.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the node has ended", || {
            status = self.process.try_wait().expect("a child");
            status.is_some()
        });
        status.expect("just seen")
    }

    /// Whether the process has not ended.
    ///
    /// # Panics
    /// When the system does not say.
    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("a child").is_none()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a node, on free ports unless others are given.
fn spawn(args: &[&str], output: Stdio, errors: Stdio) -> Child {
    spawn_by(Command::new(binary()), args, output, errors)
}

fn spawn_by(mut command: Command, args: &[&str], output: Stdio, errors: Stdio) -> Child {
    let ports = ["--resp", "--http"].into_iter().filter(|flag| !args.contains(flag));
    command
        .arg("serve")
        .args(ports.flat_map(|flag| [flag, "127.0.0.1:0"]))
        .args(args)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .expect("the node starts")
}

/// A node that is waited for only as far as its process goes: what it says is read at its end.
#[derive(Debug)]
pub struct Starting(Child);

impl Starting {
    /// Starts a node on free ports and waits for nothing.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(args: &[&str]) -> Self {
        Self::start_with_output(args, Stdio::piped())
    }

    /// The same, with another standard output.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start_with_output(args: &[&str], output: Stdio) -> Self {
        Self(spawn(args, output, Stdio::piped()))
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("the process exists");
    }

    /// Waits for a line on standard error that contains `what`, and takes all up to it.
    ///
    /// # Panics
    /// When there is none.
    pub fn wait_for_error(&mut self, what: &str) -> String {
        use std::io::Read;
        let errors = self.0.stderr.as_mut().expect("a pipe");
        loop {
            // By bytes: nothing that follows is taken.
            let byte = || {
                let mut byte = [0];
                errors.read_exact(&mut byte).expect("another line");
                byte[0]
            };
            let line: Vec<u8> = std::iter::repeat_with(byte).take_while(|b| *b != b'\n').collect();
            let line = String::from_utf8(line).expect("text");
            if line.contains(what) {
                return line;
            }
        }
    }

    /// Waits for the node's first line on standard output.
    ///
    /// # Panics
    /// When there is none.
    pub fn wait_for_output(&mut self) {
        use std::io::Read;
        let output = self.0.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut [0]).expect("a first byte");
    }

    /// Stops it and waits until it has ended.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn stop(mut self) -> Output {
        self.signal(Signal::TERM);
        wait_until("the node has ended", || self.0.try_wait().expect("a child").is_some());
        Output::of(self.0.wait_with_output().expect("its output"))
    }
}

fn lines(output: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(MAX_LINES);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nothing is read once the node listens; the pipe is emptied all the same.
            let _ = sender.try_send(line);
        }
    });
    receiver
}

/// What a run of the binary left behind.
#[derive(Debug)]
pub struct Output {
    /// Its exit code.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

/// Runs the binary in the repository until it ends.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn run(args: &[&str]) -> Output {
    run_into(args, Stdio::piped())
}

/// The same, with another standard output.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn run_into(args: &[&str], output: Stdio) -> Output {
    let mut command = Command::new(binary());
    command.current_dir(repository()).args(args).stdin(Stdio::null()).stdout(output);
    Output::of(command.output().expect("the binary starts"))
}

impl Output {
    fn of(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

/// Runs the binary with arguments it has to refuse; what it says about that: one line, or of flags
/// more, with a hint at the end.
///
/// # Panics
/// When it does not refuse them so and with exit code 2.
#[must_use]
pub fn mistake(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.code, Some(2), "{args:?}: {output:?}");
    assert_eq!(output.stdout, "", "{args:?}");
    assert!(output.stderr.starts_with("tidegate: "), "{args:?}: {}", output.stderr);
    let is_short = output.stderr.lines().count() == 1;
    let is_of_flags = output.stderr.ends_with("\nFor more information, try '--help'.\n");
    assert!(is_short != is_of_flags, "{args:?}: {}", output.stderr);
    output.stderr
}
