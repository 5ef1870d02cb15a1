//! A server that answers the bytes of a node and decides nothing: no server on the same sockets
//! answers more. It reads where requests end, and of HTTP the path.

use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::AsFd;

use super::framing::Protocol;
use super::rows::BATCH;
use super::wire::{Watch, Wire};

/// The answer to a `CL.THROTTLE` that is admitted.
const FIVE: &[u8] = b"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";

/// The body of an answer to a check of HTTP.
const RESULT: &str =
    r#"{"allowed":true,"limit":20,"remaining":19,"retry_after_ms":0,"reset_after_ms":10}"#;

/// How a request for a batch begins.
const BATCH_REQUEST: &[u8] = b"POST /v1/check-batch ";

/// What the watch calls what is not a connection.
const LEASH: u64 = u64::MAX;
const RESP: u64 = u64::MAX - 1;
const HTTP: u64 = u64::MAX - 2;

/// Answers on this thread until `leash` is closed, or says anything.
///
/// # Errors
/// Where it cannot go on; what one connection does is not such a reason.
pub fn run(resp: &TcpListener, http: &TcpListener, leash: impl AsFd) -> io::Result<()> {
    let mut watch = Watch::new()?;
    watch.add(&leash, LEASH)?;
    for (listener, number) in [(resp, RESP), (http, HTTP)] {
        listener.set_nonblocking(true)?;
        watch.add(listener, number)?;
    }
    let mut clients = Clients { answers: Answers::new(), out: Vec::new(), slots: Vec::new() };
    let mut ready = Vec::new();
    loop {
        ready.clear();
        ready.extend(watch.wait(None)?);
        for number in &ready {
            match *number {
                LEASH => return Ok(()),
                RESP => clients.accept(&watch, resp, Protocol::Resp)?,
                HTTP => clients.accept(&watch, http, Protocol::Http)?,
                slot => clients.serve(slot as usize),
            }
        }
    }
}

struct Clients {
    answers: Answers,
    /// What one read is answered, by one write.
    out: Vec<u8>,
    /// `None` where a connection has ended.
    slots: Vec<Option<(Protocol, Wire)>>,
}

impl Clients {
    fn accept(
        &mut self,
        watch: &Watch,
        listener: &TcpListener,
        protocol: Protocol,
    ) -> io::Result<()> {
        let wire = match listener.accept() {
            Ok((stream, _)) => Wire::new(stream)?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        watch.add_wire(&wire, slot as u64)?;
        self.slots[slot] = Some((protocol, wire));
        Ok(())
    }

    fn serve(&mut self, slot: usize) {
        let Some(Some((protocol, wire))) = self.slots.get_mut(slot) else { return };
        self.out.clear();
        let answered = self.answers.answer(*protocol, wire, &mut self.out);
        if answered.and_then(|()| wire.send(&self.out)).is_err() {
            self.slots[slot] = None;
        }
    }
}

struct Answers {
    check: Vec<u8>,
    batch: Vec<u8>,
}

impl Answers {
    fn new() -> Self {
        let batch = format!("{{\"results\":[{}]}}", [RESULT; BATCH].join(","));
        let limit = "ratelimit-policy: \"inline\";q=20;w=1\r\nratelimit: \"inline\";r=19;t=1\r\n";
        Self { check: ok(limit, RESULT), batch: ok("", &batch) }
    }

    fn answer(&self, protocol: Protocol, wire: &mut Wire, out: &mut Vec<u8>) -> io::Result<()> {
        wire.receive()?;
        let mut rest = wire.received();
        let whole = rest.len();
        while let Some(length) =
            protocol.request(rest).map_err(|_| io::Error::from(ErrorKind::InvalidData))?
        {
            out.extend_from_slice(match protocol {
                Protocol::Resp => FIVE,
                Protocol::Http if rest.starts_with(BATCH_REQUEST) => &self.batch,
                Protocol::Http => &self.check,
            });
            rest = &rest[length..];
        }
        let taken = whole - rest.len();
        wire.take(taken);
        Ok(())
    }
}

/// An answer with the header fields of a node's.
fn ok(limit: &str, body: &str) -> Vec<u8> {
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{limit}content-length: {}\r\n\
         date: Wed, 25 Nov 2026 12:00:00 GMT\r\n\r\n{body}",
        body.len()
    );
    answer.into_bytes()
}
