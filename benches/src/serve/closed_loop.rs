//! Load as fast as replies come: each connection sends its requests when all it has sent are
//! answered.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use super::PATIENCE;
use super::framing::{Malformed, Protocol};
use super::requests::{Keys, Requests};
use super::wire::{Watch, Wire};

/// What is asked of a server.
#[derive(Clone, Debug)]
pub struct Question {
    /// Where the server listens.
    pub address: SocketAddr,
    /// What carries it.
    pub protocol: Protocol,
    /// One request, in which keys stand as [`super::requests::KEY`].
    pub request: String,
    /// How many requests a connection sends at once.
    pub pipelining: usize,
    /// The keys.
    pub keys: Keys,
}

/// Replies that were received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them.
    pub replies: u64,
    /// Those that are no answer to a check.
    pub errors: u64,
    /// The first line of the first error.
    pub first_error: Option<String>,
}

impl Tally {
    /// Those that are.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.replies - self.errors
    }

    /// Takes the replies of a connection that are whole, and says how many they are.
    ///
    /// # Errors
    /// Where something else was received.
    #[inline]
    pub fn take(&mut self, protocol: Protocol, wire: &mut Wire) -> io::Result<usize> {
        let (mut taken, mut replies) = (0, 0);
        let received = wire.received();
        while let Some(reply) = protocol.reply(&received[taken..]).map_err(|_| no_reply(wire))? {
            if !reply.is_answer {
                self.note(&received[taken..taken + reply.length]);
            }
            taken += reply.length;
            replies += 1;
        }
        self.replies += replies as u64;
        wire.take(taken);
        Ok(replies)
    }

    #[cold]
    fn note(&mut self, reply: &[u8]) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| first_line(reply));
    }
}

fn first_line(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).lines().next().unwrap_or_default().to_owned()
}

#[cold]
fn no_reply(wire: &Wire) -> io::Error {
    let line = first_line(&wire.received()[..wire.received().len().min(200)]);
    io::Error::new(ErrorKind::InvalidData, format!("no reply to a check in {line:?}"))
}

/// Connections that ask.
pub struct ClosedLoop {
    protocol: Protocol,
    pipelining: usize,
    requests: Requests,
    watch: Watch,
    /// Each with how many replies it waits for.
    wires: Vec<(Wire, usize)>,
    ready: Vec<u64>,
    tally: Tally,
}

impl ClosedLoop {
    /// Opens this number of connections; each has sent its first requests.
    ///
    /// # Errors
    /// Where the server does not listen.
    pub fn start(question: &Question, connections: usize) -> io::Result<Self> {
        let Question { address, protocol, pipelining, .. } = *question;
        let mut requests = Requests::new(&question.request, pipelining, question.keys);
        let watch = Watch::new()?;
        let mut wires = Vec::with_capacity(connections);
        for number in 0..connections {
            let mut wire = Wire::connect(address)?;
            watch.add_wire(&wire, number as u64)?;
            wire.send(requests.draw())?;
            wires.push((wire, pipelining));
        }
        let (ready, tally) = (Vec::new(), Tally::default());
        Ok(Self { protocol, pipelining, requests, watch, wires, ready, tally })
    }

    /// Asks until `done`, which sees what was received so far.
    ///
    /// # Errors
    /// Where a connection ends, or the server says nothing for long.
    pub fn run_until(&mut self, mut done: impl FnMut(&Tally) -> bool) -> io::Result<()> {
        while !done(&self.tally) {
            self.ready.clear();
            self.ready.extend(self.watch.wait(Some(PATIENCE))?);
            if self.ready.is_empty() {
                return Err(io::Error::new(ErrorKind::TimedOut, "the server does not answer"));
            }
            for number in &self.ready {
                let Some((wire, awaited)) = self.wires.get_mut(*number as usize) else { continue };
                if !wire.receive()? {
                    continue;
                }
                let replies = self.tally.take(self.protocol, wire)?;
                *awaited = awaited
                    .checked_sub(replies)
                    .ok_or_else(|| io::Error::other("more replies than requests"))?;
                if *awaited == 0 {
                    wire.send(self.requests.draw())?;
                    *awaited = self.pipelining;
                }
            }
        }
        Ok(())
    }

    /// What was received so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// The reply to one request, or the first line of an error.
///
/// # Errors
/// Where there is none.
pub fn ask_once(question: &Question) -> io::Result<Result<Vec<u8>, String>> {
    connect_and_ask(question).map(|(_, reply)| reply)
}

/// As [`ask_once`], on a connection that stays open.
///
/// # Errors
/// Where there is no reply.
pub fn connect_and_ask(question: &Question) -> io::Result<(Wire, Result<Vec<u8>, String>)> {
    let mut wire = Wire::connect(question.address)?;
    let mut watch = Watch::new()?;
    watch.add_wire(&wire, 0)?;
    wire.send(Requests::new(&question.request, 1, question.keys).draw())?;
    loop {
        if watch.wait(Some(PATIENCE))?.count() == 0 {
            return Err(io::Error::new(ErrorKind::TimedOut, "the server does not answer"));
        }
        wire.receive()?;
        match question.protocol.reply(wire.received()) {
            Ok(Some(reply)) if reply.is_answer => {
                let answer = wire.received()[..reply.length].to_vec();
                return Ok((wire, Ok(answer)));
            }
            Ok(Some(_)) => {
                let error = first_line(wire.received());
                return Ok((wire, Err(error)));
            }
            Ok(None) => {}
            Err(Malformed) => return Err(no_reply(&wire)),
        }
    }
}
