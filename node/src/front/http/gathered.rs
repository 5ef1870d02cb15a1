//! Answers to pipelined requests, sent together.
//!
//! hyper writes each answer by itself, also where the next request has already arrived. Here what
//! it writes is gathered while its connection has something to do, and sent as soon as it waits,
//! whatever for: the rest of a request, a decision, or its next turn. hyper's own `pipeline_flush`
//! holds answers back while a part of a further request is there, and without bound.
//!
//! A client may close its side once it has sent its last request. hyper takes that for one that
//! hangs up, and its `half_close` for one that does not, however long a check waits. Here a client
//! that has closed its side is answered for a while.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::front::net;
use crate::front::unsent::Bounded;

/// The most bytes that are gathered: the answers to a long pipeline are sent in parts. Larger
/// writes are passed on.
const MAX_GATHERED_BYTES: usize = 8 * 1024;
/// The most bytes of memory that are kept for what is written next: an answer or two.
const MAX_KEPT_BYTES: usize = 1024;
/// How long a request is answered whose client has closed its side.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// A client's socket, shared by hyper, which writes to it, and by the task that drives hyper.
#[derive(Debug)]
pub struct Gathered<'a>(Mutex<Answers<'a>>);

#[derive(Debug)]
struct Answers<'a> {
    socket: Bounded<'a>,
    gathered: Vec<u8>,
    /// How many of the gathered bytes the socket has taken.
    sent: usize,
    /// Whether hyper has more to write, and waits for the socket to take it.
    is_blocked: bool,
    /// A request is being answered.
    is_asked: bool,
    input: Input,
    /// The next answer is the last one.
    ends_with_next: bool,
    /// How long its client, which has closed its side, is waited for.
    half_closed: Option<Pin<Box<Sleep>>>,
}

/// What hyper has read.
#[derive(Clone, Copy, Debug)]
struct Input {
    /// Something since a request came: of its body, or of the next one.
    has_begun: bool,
    /// Nothing, the last time that it tried.
    is_waiting: bool,
}

impl<'a> Gathered<'a> {
    pub const fn new(socket: Bounded<'a>) -> Self {
        Self(Mutex::new(Answers {
            socket,
            gathered: Vec::new(),
            sent: 0,
            is_blocked: false,
            is_asked: false,
            input: Input { has_begun: false, is_waiting: false },
            ends_with_next: false,
            half_closed: None,
        }))
    }

    /// A request has come.
    pub fn asked(&self) {
        let mut answers = self.lock();
        (answers.is_asked, answers.input.has_begun) = (true, false);
    }

    /// It is answered. What was read since it came is taken for its body, if it has one.
    pub fn answered(&self, has_body: bool) {
        let mut answers = self.lock();
        answers.is_asked = false;
        answers.input.has_begun &= !has_body;
    }

    /// The next answer is to be the last one.
    pub fn end_with_next(&self) {
        self.lock().ends_with_next = true;
    }

    /// Whether it is.
    pub fn ends_with_next(&self) -> bool {
        self.lock().ends_with_next
    }

    /// Drives a connection that is served from this socket to its end.
    ///
    /// Cancel-safe: it may be driven on.
    pub async fn drive(&self, mut connection: Pin<&mut impl Future>) {
        std::future::poll_fn(|context| self.poll_drive(context, connection.as_mut())).await;
        self.send_rest().await;
    }

    /// Drives a connection until all requests that have arrived are answered, or all but one that
    /// waits for its body or its decision. False if it has ended.
    ///
    /// The first part of a head is waited for, unless it arrived together with whole requests, or
    /// with the body of the one before.
    ///
    /// Cancel-safe: it may be driven on.
    pub async fn drive_to_rest(&self, mut connection: Pin<&mut impl Future>) -> bool {
        let rests = std::future::poll_fn(|context| {
            if self.poll_drive(context, connection.as_mut()).is_ready() {
                return Poll::Ready(false);
            }
            if self.lock().rests() { Poll::Ready(true) } else { Poll::Pending }
        });
        let rests = rests.await;
        if !rests {
            self.send_rest().await;
        }
        rests
    }

    fn poll_drive(&self, context: &mut Context<'_>, connection: Pin<&mut impl Future>) -> Poll<()> {
        if connection.poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut answers = self.lock();
        match answers.poll_send(context, 0) {
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            // The socket has just taken something: hyper tries again, so that what it holds is
            // bounded in time.
            Poll::Ready(Ok(())) if answers.is_blocked => context.waker().wake_by_ref(),
            _ => {}
        }
        Poll::Pending
    }

    /// Sends what was answered before an error.
    async fn send_rest(&self) {
        let _ = std::future::poll_fn(|context| self.lock().poll_send(context, 0)).await;
    }

    /// No task waits for it: one task holds all of a connection.
    fn lock(&self) -> MutexGuard<'_, Answers<'a>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers<'_> {
    /// Whether nothing has arrived that is not answered, or a request is answered later.
    fn rests(&self) -> bool {
        let Input { has_begun, is_waiting } = self.input;
        let is_answered = !has_begun && self.gathered.is_empty();
        // hyper reads when it has used up what it has read before.
        is_waiting && (self.is_asked || is_answered) && net::unread_bytes(self.socket.stream) == 0
    }

    fn half_closed(&mut self) -> Pin<&mut Sleep> {
        let begin = || Box::pin(tokio::time::sleep(HALF_CLOSED));
        self.half_closed.get_or_insert_with(begin).as_mut()
    }

    /// Sends all that is gathered, while `more` bytes wait elsewhere.
    fn poll_send(&mut self, context: &mut Context<'_>, more: usize) -> Poll<io::Result<()>> {
        let sent = ready!(self.poll_send_all(context, more));
        self.sent = 0;
        // What cannot be sent is dropped.
        self.gathered.clear();
        self.gathered.shrink_to(MAX_KEPT_BYTES);
        Poll::Ready(sent)
    }

    fn poll_send_all(&mut self, context: &mut Context<'_>, more: usize) -> Poll<io::Result<()>> {
        while self.sent < self.gathered.len() {
            let rest = &self.gathered[self.sent..];
            let Poll::Ready(written) = Pin::new(&mut self.socket).poll_write(context, rest) else {
                let Bounded { stream, unsent } = &mut self.socket;
                return match unsent.hold(stream, self.gathered.len() + more) {
                    Ok(()) => Poll::Pending,
                    Err(error) => Poll::Ready(Err(error)),
                };
            };
            match written? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_gather(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.gathered.len() + bytes.len() > MAX_GATHERED_BYTES {
            ready!(self.poll_send(context, bytes.len()))?;
            if bytes.len() > MAX_GATHERED_BYTES {
                return Pin::new(&mut self.socket).poll_write(context, bytes);
            }
        } else if !self.gathered.is_empty() {
            // Of a pipeline: more will follow.
            self.gathered.reserve(MAX_GATHERED_BYTES - self.gathered.len());
        }
        self.gathered.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }
}

impl AsyncRead for &Gathered<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut answers = self.lock();
        let before = buffer.filled().len();
        let read = Pin::new(&mut answers.socket).poll_read(context, buffer);
        answers.input.is_waiting = read.is_pending();
        ready!(read)?;
        let is_closed = buffer.filled().len() == before;
        answers.input.has_begun |= !is_closed;
        if is_closed && answers.is_asked {
            ready!(answers.half_closed().poll(context));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for &Gathered<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut answers = self.lock();
        let written = answers.poll_gather(context, bytes);
        answers.is_blocked = written.is_pending();
        written
    }

    /// Sends nothing: see [`Gathered::drive`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut answers = self.lock();
        ready!(answers.poll_send(context, 0))?;
        Pin::new(&mut answers.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "gathered_tests.rs"]
mod tests;
