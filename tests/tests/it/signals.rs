//! Signals at any time: nothing blocks them, and none of them loses what is under way.

use std::fs::{File, OpenOptions};
use std::io::{PipeWriter, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};
use rustix::process::Signal;
use tempfile::TempDir;
use tidegate_tests::{Node, Raw, Starting, get, wait_until};

use crate::cluster;

/// A pipe with a name, in a directory of its own.
struct Pipe(TempDir);

impl Pipe {
    fn new() -> Self {
        let pipe = Self(TempDir::new().unwrap());
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, pipe.path(), FileType::Fifo, mode, 0).unwrap();
        pipe
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("secret")
    }

    /// Its other end, once the node reads.
    fn writer(&self) -> File {
        let mut writer = None;
        wait_until("the node reads the pipe", || {
            writer = open(&self.path()).ok();
            writer.is_some()
        });
        writer.unwrap()
    }
}

/// Fails while no process reads.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().write(true).custom_flags(flags).open(path)
}

fn cluster_of(secret: &Path) -> [String; 4] {
    let path = secret.to_str().unwrap();
    ["--cluster", "127.0.0.1:0", "--cluster-secret-file", path].map(str::to_owned)
}

#[test]
fn a_file_that_does_not_come_holds_up_no_signal() {
    let pipe = Pipe::new();
    let path = pipe.path().to_str().unwrap().to_owned();
    let secret = cluster_of(&pipe.path());
    for args in [
        &secret.each_ref().map(String::as_str)[..],
        &["--config", &path],
        &["--resp-password-file", &path],
    ] {
        let node = Starting::start(args);
        let _writer = pipe.writer();
        let output = node.stop();
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_hangup_before_the_node_listens_does_not_end_it() {
    let pipe = Pipe::new();
    let args = cluster_of(&pipe.path());
    let mut node = Starting::start(&args.each_ref().map(String::as_str));
    let mut writer = pipe.writer();
    node.signal(Signal::HUP);
    writer.write_all(b"0123456789abcdef").unwrap();
    drop(writer);
    node.wait_for_output();
    assert_eq!(node.stop().code, Some(0));
}

/// Its secrets may be read again for as long as no process writes them.
#[test]
fn a_secret_that_does_not_come_again_blocks_no_shutdown() {
    let pipe = Pipe::new();
    let args = cluster_of(&pipe.path());
    let feeder = {
        let path = pipe.path();
        // Opening waits for the reader.
        std::thread::spawn(move || std::fs::write(path, "0123456789abcdef").unwrap())
    };
    let mut node = Node::start(&args.each_ref().map(String::as_str));
    feeder.join().unwrap();
    node.signal(Signal::HUP);
    let _writer = pipe.writer();
    // All workers serve.
    for _ in 0..8 {
        Raw::connect(node.resp).expect_alive();
    }
    node.signal(Signal::TERM);
    assert_eq!(node.wait().code(), Some(0));
}

/// The node would wait for an hour.
#[test]
fn a_second_signal_ends_the_drain() {
    for second in [Signal::TERM, Signal::INT] {
        let mut node = Node::start(&["--drain-timeout", "1h"]);
        let mut stuck = Raw::connect(node.resp);
        stuck.expect_alive();
        stuck.send(b"*2\r\n$4\r\nECHO\r\n");
        // It answers in the order in which clients came.
        Raw::connect(node.resp).expect_alive();
        node.signal(Signal::TERM);
        wait_until("the node drains", || TcpStream::connect(node.resp).is_err());
        assert!(node.is_running());
        node.signal(second);
        assert_eq!(node.wait().code(), Some(0));
        stuck.expect_end();
    }
}

/// What was admitted last may be on its way.
#[test]
fn a_signal_while_the_node_leaves_its_cluster_does_not_end_that_at_once() {
    let secret = cluster::secret();
    let other = cluster::start(&secret, &[]);
    let join = other.cluster.unwrap().to_string();
    let address = &cluster::free_addresses(1)[0];
    let http = address.parse().unwrap();
    let args = [&cluster::joining_args(&secret, &join)[..], &["--http", address]].concat();
    let mut node = Starting::start(&args);
    node.wait_for_output();
    let ask = |request: &str, body: &str| {
        let mut raw = Raw::connect(http);
        let length = body.len();
        let head = format!("{request} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        raw.send(format!("{head}{body}").as_bytes());
        raw.http_answer().1
    };
    wait_until("frames flow", || ask("GET /v1/cluster", "").contains("flowing"));
    other.signal(Signal::STOP);
    let decision = ask("POST /v1/check", r#"{"key":"k","rate":"1/h","cost":1}"#);
    assert!(decision.contains(r#""allowed":true"#), "{decision}");
    node.signal(Signal::TERM);
    node.wait_for_error("drain begun");
    node.signal(Signal::TERM);
    node.wait_for_error("no longer waiting");
    node.wait_for_error("acknowledged");
    other.signal(Signal::CONT);
}

#[test]
fn a_file_that_does_not_come_holds_up_no_later_rotation() {
    let directory = TempDir::new().unwrap();
    let secret = directory.path().join("secret");
    let put = |text: &str| {
        std::fs::write(directory.path().join("next"), text).unwrap();
        std::fs::rename(directory.path().join("next"), &secret).unwrap();
    };
    put("the secret until now, long enough");
    let args = cluster_of(&secret);
    let first = Node::start(&args.each_ref().map(String::as_str));
    let pipe = Pipe::new();
    std::fs::rename(pipe.path(), &secret).unwrap();
    first.signal(Signal::HUP);
    let mut writer = None;
    wait_until("the node reads the pipe", || {
        writer = open(&secret).ok();
        writer.is_some()
    });
    put("the secret from here on, long enough");
    first.signal(Signal::HUP);
    let join = first.cluster.unwrap().to_string();
    // It joins by the new secret only.
    let other = [&args.each_ref().map(String::as_str)[..], &["--join", &join]].concat();
    let other = Node::start(&other);
    wait_until("both are in one cluster", || {
        let members = get(&other, "/v1/cluster").body;
        members.matches(r#""state":"alive""#).count() == 2
    });
    drop(writer);
}

/// A file that is replaced as a whole.
struct Replaced(TempDir);

impl Replaced {
    fn new(text: &str) -> Self {
        let file = Self(TempDir::new().unwrap());
        file.put(text);
        file
    }

    fn path(&self) -> String {
        self.0.path().join("password").to_str().unwrap().to_owned()
    }

    fn put(&self, text: &str) {
        std::fs::write(self.0.path().join("next"), text).unwrap();
        std::fs::rename(self.0.path().join("next"), self.path()).unwrap();
    }
}

/// Whether a client that comes now is let in.
fn is_let_in(node: &Node, password: &str) -> bool {
    let mut client = Raw::connect(node.resp);
    client.command(&[b"AUTH", password.as_bytes()]);
    client.line() == "+OK"
}

#[test]
fn a_password_is_read_again_for_new_connections() {
    let file = Replaced::new("the password until now\n");
    let node = Node::start(&["--resp-password-file", &file.path()]);
    let mut inside = Raw::connect(node.resp);
    inside.command(&[b"AUTH", b"the password until now"]);
    inside.expect("+OK\r\n");
    file.put("the next password\n");
    node.signal(Signal::HUP);
    wait_until("the next password is in force", || is_let_in(&node, "the next password"));
    assert!(!is_let_in(&node, "the password until now"));
    inside.expect_alive();
    // What is none changes nothing, and holds up none that follows.
    file.put("");
    node.signal(Signal::HUP);
    for _ in 0..20 {
        assert!(is_let_in(&node, "the next password"));
    }
    file.put("the last password\n");
    node.signal(Signal::HUP);
    wait_until("the last password is in force", || {
        is_let_in(&node, "the last password") || {
            assert!(!is_let_in(&node, ""), "an empty password is let in");
            false
        }
    });
    inside.expect_alive();
}

#[test]
fn an_invalid_password_is_reported_and_the_one_before_stays() {
    let file = Replaced::new("the password until now\n");
    let mut node = Starting::start(&["--resp-password-file", &file.path()]);
    node.wait_for_output();
    for bad in ["", "two\nlines\n"] {
        file.put(bad);
        node.signal(Signal::HUP);
        let line = node.wait_for_error("SIGHUP: the password stays");
        let problem = format!("--resp-password-file {}: expected a password", file.path());
        assert!(line.contains(&problem), "{line}");
    }
    assert_eq!(node.stop().code, Some(0));
}

#[test]
fn limits_that_were_edited_stay_and_the_log_says_so() {
    let limit = |rate: &str| format!("[[limit]]\nname = \"api\"\nrate = \"{rate}\"\n");
    let file = Replaced::new(&limit("5/s"));
    let mut node = Starting::start(&["--config", &file.path()]);
    node.wait_for_output();
    node.signal(Signal::HUP);
    let _ = node.wait_for_error("SIGHUP: --config was read; the limits in force stay");
    file.put(&limit("6/s"));
    node.signal(Signal::HUP);
    let line = node.wait_for_error("SIGHUP: the limits stay; --config has others");
    assert!(line.contains("others=\"api\""), "{line}");
    file.put("[[limit");
    node.signal(Signal::HUP);
    let line = node.wait_for_error("SIGHUP: the limits stay: --config");
    assert!(line.contains(&file.path()), "{line}");
    assert_eq!(node.stop().code, Some(0));
}

#[test]
fn a_hangup_with_nothing_to_read_is_acknowledged() {
    let mut node = Starting::start(&[]);
    node.wait_for_output();
    node.signal(Signal::HUP);
    let _ = node.wait_for_error("SIGHUP: no file is named, so there is nothing to read again");
    assert_eq!(node.stop().code, Some(0));
}

/// Writes until it takes nothing more.
fn fill(pipe: &mut PipeWriter) {
    fcntl_setfl(&*pipe, OFlags::NONBLOCK).unwrap();
    while pipe.write(&[b'x'; 1024]).is_ok() {}
    while pipe.write(b"x").is_ok() {}
    fcntl_setfl(&*pipe, OFlags::empty()).unwrap();
}

/// As that of a terminal that is stopped. The node serves, and ends at a signal.
#[test]
fn a_standard_output_that_takes_nothing_is_not_waited_for() {
    let (_reader, mut output) = std::io::pipe().unwrap();
    fill(&mut output);
    let http = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let node = Starting::start_with_output(&["--http", &http.to_string()], output.into());
    wait_until("it is ready", || {
        TcpStream::connect(http).is_ok() && {
            let mut raw = Raw::connect(http);
            raw.send(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n");
            raw.http_answer().0 == "HTTP/1.1 200 OK"
        }
    });
    assert_eq!(node.stop().code, Some(0));
}
