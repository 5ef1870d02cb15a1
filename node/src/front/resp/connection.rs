//! One client's connection: reads, answers, writes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncWrite as _, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::checks::Checks;
use super::clients::Ends;
use super::expiry::{Expiry, expiry};
use super::outbox::Outbox;
use super::parser::Parser;
use super::server_info::{RespBounds, ServerInfo};
use super::session::Session;
use super::work::Work;
use crate::config::password::InForce;
use crate::front::budget::Share;
use crate::front::deadline::Deadline;
use crate::front::linger::{LINGER, holds_replies, linger, linger_for};
use crate::front::net::{self, DRAIN_TIMEOUT, FrontEnd};
use crate::front::unsent::{Bounded, Unsent};
use crate::service::Service;
use crate::telemetry::log_throttle::SharedLogThrottle;

/// The most bytes of one read.
const READ_BYTES: usize = 16 * 1024;
/// What each connection may keep of incomplete commands in any case, in bytes: small ones are not
/// refused because others are large.
const FREE_BYTES: usize = 32 * 1024;
/// An empty buffer larger than this is freed, in bytes.
const KEPT_BYTES: usize = 256 * 1024;

/// The lines of the log about connections that are closed because there was no room for their
/// commands.
static NO_ROOM: SharedLogThrottle =
    SharedLogThrottle::new("connections that were closed for want of room");

thread_local! {
    /// Shared by all connections of a thread, so an idle connection owns no buffer.
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers {
        input: vec![0; READ_BYTES].into_boxed_slice(),
        output: Vec::new(),
        checks: None,
    });
}

struct Buffers {
    input: Box<[u8]>,
    output: Vec<u8>,
    /// For checks that wait to be decided; none does between two batches.
    checks: Option<Box<Checks>>,
}

/// Serves the Redis protocol.
#[derive(Debug)]
pub struct RespFrontEnd {
    server: Arc<ServerInfo>,
}

impl RespFrontEnd {
    /// `address` is where clients reach the front-end.
    pub fn new(
        service: Arc<Service>,
        address: SocketAddr,
        password: Option<InForce>,
        bounds: RespBounds,
    ) -> Self {
        Self { server: Arc::new(ServerInfo::new(service, address, password, bounds)) }
    }
}

impl FrontEnd for RespFrontEnd {
    fn serve(
        &self,
        stream: TcpStream,
        bounds: Unsent,
        drain: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        let session = Session::new(Arc::clone(&self.server), Ends::of(&stream));
        serve(Connection::new(stream, bounds, session), drain)
    }

    fn refuse(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        refuse(stream)
    }
}

/// Serves one client until either side closes. Once `drain` is cancelled, what has been received is
/// answered, an incomplete command is waited for, and the connection is closed, also if the client
/// never stops sending.
async fn serve(mut connection: Connection, drain: CancellationToken) {
    // An error of the socket is a normal end of a connection.
    let _ = connection.run(&drain).await;
}

/// Answers that there are too many clients, and closes.
async fn refuse(mut stream: TcpStream) {
    let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
    linger(&mut stream).await;
}

struct Connection {
    stream: TcpStream,
    session: Session,
    parser: Parser,
    /// An incomplete command; or, with `backlog`, commands that have not been run.
    unread: Vec<u8>,
    /// Replies that the socket has not taken.
    unsent: Outbox,
    /// The bounds of `unsent`.
    bounds: Unsent,
    /// Whether commands may be left in `unread`, for another batch.
    backlog: bool,
    /// What was done since others last ran.
    turn: Work,
    draining: Option<Draining>,
    /// The bytes of `unread`, out of the budget of all connections.
    share: Share,
    /// When the command at the front of `unread` must be complete.
    deadline: Option<Deadline>,
    /// When the client will have been silent for too long, where that is bounded.
    idle_deadline: Option<Instant>,
}

/// Waits for a future, and notes whether others could run meanwhile.
async fn noting_sleep<F: Future>(future: F, slept: &mut bool) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let poll = future.as_mut().poll(context);
        *slept |= poll.is_pending();
        poll
    })
    .await
}

/// Why a connection ends in a drain.
enum Drained {
    /// All that has come is answered.
    Answered,
    /// Its client goes on sending.
    Overdue,
}

/// A drain, as a connection has noticed it.
#[derive(Clone, Copy, Debug)]
struct Draining {
    since: Instant,
    /// Of the bytes that had come by then, those that are not read.
    due: u64,
}

impl Connection {
    fn new(stream: TcpStream, bounds: Unsent, session: Session) -> Self {
        let mut connection = Self {
            share: session.server.unread_share(),
            deadline: None,
            idle_deadline: None,
            stream,
            bounds,
            session,
            parser: Parser::default(),
            unread: Vec::new(),
            unsent: Outbox::default(),
            backlog: false,
            turn: Work::default(),
            draining: None,
        };
        connection.restart_silence();
        connection
    }

    async fn run(&mut self, drain: &CancellationToken) -> io::Result<()> {
        loop {
            // As far as the socket takes it, also while input keeps coming.
            poll_fn(|context| Poll::Ready(self.send_some(context))).await?;
            if self.session.closing {
                self.send().await?;
                linger(&mut self.stream).await;
                return Ok(());
            }
            if !self.may_run_ahead() {
                self.send_ahead().await?;
            }
            if !self.backlog {
                let draining = drain.is_cancelled();
                if draining && let Some(drained) = self.drained() {
                    return self.end(drained).await;
                }
                let mut slept = false;
                // A client that reads is not silent.
                let idle_deadline = self.idle_deadline.filter(|_| self.unsent.is_empty());
                // Its client may send without pause what is not queued, and is never waited for.
                self.session.expire_late_transaction();
                let command = self.deadline.as_ref().map(Deadline::at);
                let transaction = self.session.transaction_deadline();
                let expiry = expiry(command, transaction, idle_deadline);
                tokio::select! {
                    biased;
                    ready = noting_sleep(self.readable(), &mut slept) => if !ready? {
                        continue;
                    },
                    () = drain.cancelled(), if !draining => continue,
                    expiry = expiry => match expiry {
                        Expiry::Command if self.puts_off_command() => continue,
                        Expiry::Command => {
                            self.bounds.note_command_timeout();
                            let mut reply = Vec::new();
                            let problem = "the command took too long to arrive";
                            self.session.give_up(problem, &mut reply);
                            self.unsent.push(&reply);
                            continue;
                        }
                        Expiry::Transaction => {
                            self.session.expire_transaction();
                            continue;
                        }
                        Expiry::Idle => {
                            self.bounds.note_idle();
                            return Ok(());
                        }
                    }
                }
                // A client that waits for each answer begins anew, unless the last one was a whole
                // turn.
                if slept && !self.turn.is_enough() {
                    self.turn = Work::default();
                }
            }
            if self.turn.is_enough() || self.session.transaction_work().is_enough() {
                // A socket that has data never suspends the task.
                self.session.server.turns().next().await;
                self.turn = Work::default();
            }
            // Once for all commands of a batch.
            self.session.service().gossip().current().await;
            if !self.run_batch()? {
                return self.send().await;
            }
        }
    }

    /// Whether commands are run although replies are unsent: a client may send all of a pipeline
    /// before it reads. Not where it holds much of what all clients have for that.
    fn may_run_ahead(&self) -> bool {
        self.unsent.is_empty() || self.bounds.may_hold_more(self.unsent.held())
    }

    /// Waits for input, and sends meanwhile; also ends when all is sent. Whether there is input.
    async fn readable(&mut self) -> io::Result<bool> {
        if self.unsent.is_empty() {
            return self.stream.readable().await.map(|()| true);
        }
        poll_fn(|context| {
            if let Poll::Ready(ready) = self.stream.poll_read_ready(context) {
                return Poll::Ready(ready.map(|()| true));
            }
            match self.send_some(context) {
                Ok(()) if !self.unsent.is_empty() => Poll::Pending,
                sent => Poll::Ready(sent.map(|()| false)),
            }
        })
        .await
    }

    /// Sends what the socket takes.
    fn send_some(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let mut socket = Bounded { stream: &mut self.stream, unsent: &mut self.bounds };
            match Pin::new(&mut socket).poll_write(context, self.unsent.rest()) {
                Poll::Ready(sent) => self.unsent.advance(sent?),
                Poll::Pending => break,
            }
            // It had replies to read.
            self.restart_silence();
        }
        Ok(())
    }

    /// Whether a node that drains need not wait for this client any more.
    fn drained(&mut self) -> Option<Drained> {
        let bytes = net::unread_bytes(&self.stream);
        let began = || Draining { since: Instant::now(), due: bytes };
        let Draining { since, due } = *self.draining.get_or_insert_with(began);
        if bytes == 0 {
            let is_answered = self.unread.is_empty() && self.unsent.is_empty();
            return is_answered.then_some(Drained::Answered);
        }
        let is_overdue = due == 0 && since.elapsed() >= DRAIN_TIMEOUT;
        is_overdue.then_some(Drained::Overdue)
    }

    /// Ends a connection that drains. Its client may send more before it has read all replies;
    /// where the system holds none, those that it has may be on their way.
    async fn end(&mut self, drained: Drained) -> io::Result<()> {
        self.send().await?;
        let time = match drained {
            Drained::Answered if !holds_replies(&self.stream) => {
                self.session.server.bounds().under_way
            }
            Drained::Answered | Drained::Overdue => LINGER,
        };
        linger_for(&mut self.stream, time).await;
        Ok(())
    }

    /// Runs commands of the backlog or of one read, and writes their replies in one piece. False
    /// when the client has closed.
    fn run_batch(&mut self) -> io::Result<bool> {
        BUFFERS.with_borrow_mut(|Buffers { input, output, checks }| {
            // It may hold replies to another client, whose socket failed.
            output.clear();
            self.turn.reads += 1;
            let read = if self.backlog {
                None
            } else {
                match net::read(&self.stream, input)? {
                    None => return Ok(true),
                    Some(0) => return Ok(false),
                    Some(count) => Some(&input[..count]),
                }
            };
            std::mem::swap(&mut self.session.checks, checks);
            let used = match read {
                None => self.answer_unread(output),
                Some(input) => {
                    self.turn.input += input.len();
                    if let Some(draining) = &mut self.draining {
                        if draining.due > 0 || draining.since.elapsed() < DRAIN_TIMEOUT {
                            self.bounds.postpone_drain();
                        }
                        draining.due = draining.due.saturating_sub(input.len() as u64);
                    }
                    self.answer_read(input, output)
                }
            };
            std::mem::swap(&mut self.session.checks, checks);
            self.account(used > 0, output);
            self.write(output)?;
            Ok(true)
        })
    }

    /// Starts anew the time in which the client may be silent.
    fn restart_silence(&mut self) {
        let timeout = self.session.server.bounds().idle_timeout;
        self.idle_deadline = timeout.map(|timeout| Instant::now() + timeout);
    }

    /// Whether the time of a command, which is over, is put off.
    fn puts_off_command(&mut self) -> bool {
        self.deadline.as_mut().is_some_and(Deadline::put_off)
    }

    /// Updates the budget and the deadlines.
    fn account(&mut self, progressed: bool, output: &mut Vec<u8>) {
        self.restart_silence();
        if self.unread.is_empty() || self.backlog {
            self.deadline = None;
        } else if progressed || self.deadline.is_none() {
            self.deadline = Some(Deadline::within(self.session.server.bounds().command_timeout));
        }
        if !self.share.resize(self.unread.capacity().saturating_sub(FREE_BYTES)) {
            self.bounds.note_no_room_to_read();
            if let Some(left_out) = NO_ROOM.admit() {
                tracing::warn!(
                    frontend = "resp",
                    left_out,
                    "a connection is closed: too many commands have not arrived in full"
                );
            }
            self.unread = Vec::new();
            self.share.resize(0);
            self.backlog = false;
            self.deadline = None;
            self.session.give_up("too many commands have not arrived in full", output);
        }
    }

    /// Runs commands of a read and what was left of earlier ones, and keeps the rest; the number of
    /// bytes consumed.
    fn answer_read(&mut self, input: &[u8], output: &mut Vec<u8>) -> usize {
        if self.unread.is_empty() {
            let used = self.answer(input, output);
            self.unread.extend_from_slice(&input[used..]);
            used
        } else {
            self.unread.extend_from_slice(input);
            self.answer_unread(output)
        }
    }

    /// Runs commands in `unread`; the number of bytes consumed.
    fn answer_unread(&mut self, output: &mut Vec<u8>) -> usize {
        let mut unread = std::mem::take(&mut self.unread);
        let used = self.answer(&unread, output);
        unread.drain(..used);
        if used > 0 && unread.capacity() > FREE_BYTES {
            unread.shrink_to_fit();
        }
        if !unread.is_empty() {
            self.unread = unread;
        }
        used
    }

    /// Runs the complete commands at the front of `input`, at most a batch; the number of bytes
    /// consumed.
    fn answer(&mut self, input: &[u8], output: &mut Vec<u8>) -> usize {
        let mut used = 0;
        let mut batch = Work::default();
        let mut left_out = 0;
        self.backlog = false;
        loop {
            batch.replies = output.len() + left_out;
            if batch.is_enough() {
                self.backlog = used < input.len();
                break;
            }
            match self.session.run_next(&mut self.parser, &input[used..], output) {
                Ok(None) => break,
                Ok(Some((length, made))) => {
                    left_out += made;
                    used += length;
                    batch.commands += 1;
                }
                Err(error) => self.session.fail(error, output),
            }
            if self.session.closing {
                used = input.len();
                break;
            }
        }
        self.session.decide(output);
        self.turn.add(&batch);
        self.session.flush_counts();
        used
    }

    /// Writes what the socket takes without blocking, and keeps the rest.
    fn write(&mut self, output: &mut Vec<u8>) -> io::Result<()> {
        let sent = if output.is_empty() || !self.unsent.is_empty() {
            0
        } else {
            match self.stream.try_write(output) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                sent => sent?,
            }
        };
        self.unsent.push(&output[sent..]);
        if output.capacity() > KEPT_BYTES {
            *output = Vec::new();
        }
        self.bounds.hold(&self.stream, self.unsent.held())
    }

    /// Sends until further commands may be run. A client that sends a pipeline before it reads any
    /// of it goes on once others have made room: a stall wakes its task now and then.
    async fn send_ahead(&mut self) -> io::Result<()> {
        poll_fn(|context| match self.send_some(context) {
            Ok(()) if !self.may_run_ahead() => Poll::Pending,
            sent => Poll::Ready(sent),
        })
        .await
    }

    /// Waits until the unsent replies are written. Nothing is read in that time, so a client that
    /// does not read cannot make the node hold more.
    async fn send(&mut self) -> io::Result<()> {
        poll_fn(|context| match self.send_some(context) {
            Ok(()) if !self.unsent.is_empty() => Poll::Pending,
            sent => Poll::Ready(sent),
        })
        .await
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
