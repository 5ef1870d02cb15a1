//! Redis clients: a real library, and bare bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};

use crate::{Node, PATIENCE};

/// A connection of a Redis client library, in version 2 or 3 of the protocol.
///
/// # Panics
/// When it cannot connect.
#[must_use]
pub fn redis(node: &Node, version: u8) -> redis::Connection {
    let url = format!("redis://{}/?protocol=resp{version}", node.resp);
    let client = redis::Client::open(url).expect("an address");
    client.get_connection_with_timeout(PATIENCE).expect("a connection")
}

/// What the system of a client holds that has not read it, where that is to be little.
const NARROW_BYTES: usize = 4 * 1024;

/// A connection that sends and expects bytes as they are. All methods panic when the node does
/// not do as expected.
#[derive(Debug)]
pub struct Raw(TcpStream);

#[allow(clippy::missing_panics_doc, reason = "said once, at the type")]
impl Raw {
    /// Connects.
    #[must_use]
    pub fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).expect("a connection"))
    }

    /// Connects from this address of the machine: all of 127.0.0.0/8 are, on Linux.
    #[must_use]
    pub fn connect_from(from: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&socket, &SocketAddr::from((from, 0))).expect("an address of this machine");
        connect(&socket, &address).expect("a connection");
        Self::of(socket.into())
    }

    /// Connects a client whose system holds little that it has not read: a few KiB.
    #[must_use]
    pub fn connect_narrow(address: SocketAddr) -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        sockopt::set_socket_recv_buffer_size(&socket, NARROW_BYTES).expect("an open socket");
        connect(&socket, &address).expect("a connection");
        Self::of(socket.into())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("an open socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        Self(stream)
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the node reads");
    }

    /// Closes this side: nothing more is sent.
    pub fn finish(&mut self) {
        self.0.shutdown(std::net::Shutdown::Write).expect("an open socket");
    }

    /// Sends as much of `bytes` again and again as the node takes within `pause`, at most `most`
    /// bytes; how many it took.
    pub fn flood(&mut self, bytes: &[u8], most: usize, pause: std::time::Duration) -> usize {
        self.0.set_write_timeout(Some(pause)).expect("an open socket");
        let mut sent = 0;
        while sent < most {
            match self.0.write(&bytes[sent % bytes.len()..]) {
                Ok(count) => sent += count,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        sent
    }

    /// One read of at most 64 KiB.
    #[must_use]
    pub fn read(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 64 * 1024];
        let count = self.0.read(&mut bytes).expect("the node answers");
        bytes.truncate(count);
        bytes
    }

    /// Expects these bytes next.
    pub fn expect(&mut self, expected: &str) {
        let mut bytes = vec![0; expected.len()];
        if let Err(error) = self.0.read_exact(&mut bytes) {
            panic!("instead of {expected:?}: {error}, {:?}", String::from_utf8_lossy(&bytes));
        }
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }

    /// Reads an answer of HTTP: its status line, and its body.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn http_answer(&mut self) -> (String, String) {
        let status = self.line();
        let mut length = 0;
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            }
        }
        (status, String::from_utf8(self.bytes(length)).expect("text"))
    }

    /// Expects this many bytes and gives them back.
    #[must_use]
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).expect("the node answers");
        bytes
    }

    /// Expects one line and gives it back without its end.
    #[must_use]
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.0.read_exact(&mut byte).expect("the node answers");
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).expect("text")
    }

    /// Sends a command as an array of strings.
    pub fn command(&mut self, args: &[&[u8]]) {
        self.send(&encode(args));
    }

    /// Expects the node to hang up in good order, with nothing more to say.
    pub fn expect_end(&mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).expect("the node hangs up");
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    /// Expects the node to be there and to answer in turn.
    pub fn expect_alive(&mut self) {
        self.send(b"PING\r\n");
        self.expect("+PONG\r\n");
    }
}

/// A command as an array of strings.
fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
