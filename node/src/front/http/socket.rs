//! A client's socket, as hyper reads and writes it: which of what has arrived is answered.
//!
//! hyper keeps to itself what it has read ahead, and drops that when a connection ends. What it
//! reads passes here, so a node that stops ends a connection when nothing is left of it.
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
use tokio::time::{Instant, Sleep};

use super::coalesced::Coalesced;
use super::turn::Turn;
use crate::front::unsent::Bounded;

/// How long a request is answered whose client has closed its side.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// A client's socket, shared by hyper and by the task that drives hyper.
#[derive(Debug)]
pub struct ClientSocket<'a>(Mutex<Exchange<'a>>);

#[derive(Debug)]
struct Exchange<'a> {
    socket: Coalesced<'a>,
    request: RequestState,
    /// When the last one was, or its answer was sent later, or the connection was opened.
    answered_at: Instant,
    input: Input,
    /// The next answer is the last one.
    ends_with_next: bool,
    /// The last answer is given.
    is_ending: bool,
    /// Its client has closed its side, and hyper does not know yet.
    end_is_unseen: bool,
    /// How long its client, which has closed its side, is waited for.
    half_closed: Option<Pin<Box<Sleep>>>,
    turn: Turn,
}

/// What is done about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestState {
    /// None has come, or it is answered.
    Absent,
    /// It waits until others have had their turn.
    InLine,
    /// It is being answered.
    UnderWay,
}

/// What hyper has read.
#[derive(Clone, Copy, Debug)]
struct Input {
    /// Something since a request came: of its body, or of the next one.
    has_begun: bool,
    /// Nothing, the last time that it tried: there was none, or there will be none.
    is_waiting: bool,
}

impl<'a> ClientSocket<'a> {
    pub fn new(stream: Bounded<'a>) -> Self {
        Self(Mutex::new(Exchange {
            socket: Coalesced::new(stream),
            request: RequestState::Absent,
            answered_at: Instant::now(),
            input: Input { has_begun: false, is_waiting: false },
            ends_with_next: false,
            is_ending: false,
            end_is_unseen: false,
            half_closed: None,
            turn: Turn::default(),
        }))
    }

    /// A request has come that takes this much work. Whether others are to have their turn before:
    /// then [`ClientSocket::begin_turn`] follows.
    pub fn asked(&self, work: u64) -> bool {
        let mut exchange = self.lock();
        exchange.input.has_begun = false;
        let waits = exchange.turn.add_request(work);
        exchange.request = if waits { RequestState::InLine } else { RequestState::UnderWay };
        waits
    }

    /// Others have had their turn.
    pub fn begin_turn(&self) {
        self.lock().request = RequestState::UnderWay;
    }

    /// It is answered, perhaps as the last one, which took this much more work. What was read since
    /// it came is taken for its body, if it has one.
    pub fn answered(&self, has_body: bool, is_last: bool, work: u64) {
        let mut exchange = self.lock();
        (exchange.request, exchange.is_ending) = (RequestState::Absent, is_last);
        exchange.turn.add(work);
        exchange.answered_at = Instant::now();
        // hyper waits for the time that its client had, which is over.
        exchange.end_is_unseen |= exchange.half_closed.is_some();
        exchange.input.has_begun &= !has_body;
    }

    /// The next answer is to be the last one.
    pub fn end_with_next(&self) {
        self.lock().ends_with_next = true;
    }

    /// Whether it is.
    pub fn ends_with_next(&self) -> bool {
        self.lock().ends_with_next
    }

    /// Whether no request is being answered.
    pub fn is_idle(&self) -> bool {
        self.lock().request == RequestState::Absent
    }

    /// Since when the head of a request is waited for; `None` while one is being answered, or its
    /// answer waits until the socket takes it.
    pub fn awaits_head_since(&self) -> Option<Instant> {
        let exchange = self.lock();
        let awaits_head = exchange.request == RequestState::Absent && exchange.is_sent();
        awaits_head.then_some(exchange.answered_at)
    }

    /// Whether the system holds answers, when nothing more is to be written: see
    /// [`holds_replies`](crate::front::linger::holds_replies).
    pub fn holds_answers(&self) -> bool {
        self.lock().socket.holds_answers()
    }

    /// Whether nothing has arrived behind the request that is being answered, whose body has been
    /// read: hyper tries to read on before it asks for the answer, unless it holds more.
    pub fn nothing_follows(&self) -> bool {
        self.lock().has_read_all()
    }

    /// Drives a connection that is served from this socket to its end, but for
    /// [`ClientSocket::send_rest`]: that may take long, and a request of a connection that has
    /// ended would keep its place in the line.
    ///
    /// Cancel-safe: it may be driven on.
    pub async fn drive(&self, mut connection: Pin<&mut impl Future>) {
        std::future::poll_fn(|context| self.poll_drive(context, connection.as_mut())).await;
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
        rests.await
    }

    fn poll_drive(&self, context: &mut Context<'_>, connection: Pin<&mut impl Future>) -> Poll<()> {
        let was_sent = self.lock().is_sent();
        if connection.poll(context).is_ready() {
            return Poll::Ready(());
        }
        let exchange = &mut *self.lock();
        let holds_some = !exchange.socket.is_empty();
        match exchange.socket.poll_send(context) {
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            // The socket has just taken something: hyper tries again, so that what it holds is
            // bounded in time. A write that waits for the socket itself is woken by that.
            Poll::Ready(Ok(())) if holds_some && exchange.socket.is_blocked() => {
                context.waker().wake_by_ref();
            }
            // hyper may have read before what kept the end from it was over.
            _ if exchange.end_is_unseen && !exchange.keeps_end() => {
                exchange.end_is_unseen = false;
                context.waker().wake_by_ref();
            }
            _ => {}
        }
        if !was_sent && exchange.is_sent() {
            exchange.answered_at = Instant::now();
        }
        Poll::Pending
    }

    /// Sends what was answered before an error.
    pub async fn send_rest(&self) {
        let _ = std::future::poll_fn(|context| self.lock().socket.poll_send(context)).await;
    }

    /// No task waits for it: one task holds all of a connection.
    fn lock(&self) -> MutexGuard<'_, Exchange<'a>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange<'_> {
    /// Whether nothing has arrived that is not answered, or a request is answered later. After the
    /// last answer hyper ends its connection.
    fn rests(&self) -> bool {
        let is_answered = !self.input.has_begun && self.socket.is_empty();
        let is_asked = self.request != RequestState::Absent;
        !self.is_ending && (is_asked || is_answered) && self.has_read_all()
    }

    /// Whether hyper has used up all that has arrived: it reads when it has used up what it has
    /// read before.
    fn has_read_all(&self) -> bool {
        self.input.is_waiting && self.socket.unread_bytes() == 0
    }

    /// Whether the socket has taken all answers.
    fn is_sent(&self) -> bool {
        self.socket.is_empty() && !self.socket.is_blocked()
    }

    /// Whether hyper is not to know that the client has closed its side: it would drop the rest of
    /// an answer, and a request that waits for its turn, which is answered for a while from then
    /// on.
    fn keeps_end(&self) -> bool {
        self.socket.is_blocked() || self.request == RequestState::InLine
    }

    fn half_closed(&mut self) -> Pin<&mut Sleep> {
        let begin = || Box::pin(tokio::time::sleep(HALF_CLOSED));
        self.half_closed.get_or_insert_with(begin).as_mut()
    }
}

impl AsyncRead for &ClientSocket<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut exchange = self.lock();
        let before = buffer.filled().len();
        let read = Pin::new(&mut exchange.socket).poll_read(context, buffer);
        let has_read = buffer.filled().len() > before;
        exchange.input.is_waiting = !has_read;
        exchange.input.has_begun |= has_read;
        if read.is_pending() {
            exchange.turn.pause();
        }
        ready!(read)?;
        if !has_read && exchange.keeps_end() {
            exchange.end_is_unseen = true;
            return Poll::Pending;
        }
        if !has_read && exchange.request == RequestState::UnderWay {
            ready!(exchange.half_closed().poll(context));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for &ClientSocket<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.lock().socket).poll_write(context, bytes)
    }

    /// Sends nothing: see [`ClientSocket::drive`] and [`ClientSocket::send_rest`].
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().socket).poll_shutdown(context)
    }
}
