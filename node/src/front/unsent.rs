//! Replies that clients have not taken: how many bytes all connections hold of them, and for how
//! long a socket may take none.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::front::budget::{Budget, Share};
use crate::front::stall::Stall;
use crate::telemetry::log_throttle::SharedLogThrottle;
use crate::telemetry::metrics::ConnectionMetrics;

/// What each connection may hold for all of its time, in bytes: a batch of replies and one more,
/// the largest but for those of `EXEC`, `CLIENT LIST` and some requests over HTTP. A client that
/// sends all of a pipeline before it reads holds no more where room is scarce, as nothing more is
/// run for it.
const SPARED_BYTES: usize = 129 * 1024;

/// The lines of the log about connections that are reset.
static RESET: SharedLogThrottle = SharedLogThrottle::new("connections that were reset");

/// The unsent replies of one connection. One that exceeds a bound is counted, and its socket is
/// reset when it is closed, so that the system frees what it holds too.
#[derive(Debug)]
pub struct Unsent {
    share: Share,
    /// How long the socket may take nothing; while room is scarce, how long for all that waits at a
    /// time.
    timeout: Duration,
    metrics: ConnectionMetrics,
    /// While the socket takes nothing.
    stall: Option<Stall>,
    /// The begin of a drain, from which on it may take nothing for a shorter time.
    drain: Option<CancellationToken>,
    /// While something is held.
    due: Option<Due>,
    exceeded: bool,
}

/// Replies that waited at a time: what was made since is written behind them. A client that reads
/// on gets all of them in a while, even if others wait by then, and one that takes a byte now and
/// then does not.
#[derive(Debug)]
struct Due {
    since: Instant,
    /// Of them, those that are not written.
    bytes: usize,
}

impl Due {
    /// What is left of them.
    fn without(self, written: usize) -> Option<Self> {
        let bytes = self.bytes.saturating_sub(written);
        (bytes > 0).then_some(Self { bytes, ..self })
    }
}

impl Unsent {
    /// `budget` is that of the node, `timeout` how long a socket may take nothing, `metrics` are
    /// those of the front-end.
    pub const fn new(budget: Arc<Budget>, timeout: Duration, metrics: ConnectionMetrics) -> Self {
        Self {
            share: Share::new(budget),
            timeout,
            metrics,
            stall: None,
            drain: None,
            due: None,
            exceeded: false,
        }
    }

    /// The same until a drain, in which a client that takes nothing is soon waited for no longer.
    pub fn until(mut self, drain: CancellationToken) -> Self {
        self.drain = Some(drain);
        self
    }

    /// What the client had sent before a drain is still being read.
    pub fn postpone_drain(&mut self) {
        if let Some(stall) = &mut self.stall {
            stall.postpone_drain();
        }
    }

    /// Counts `bytes` as unsent until all of them are written.
    ///
    /// # Errors
    /// When the node has no room for them, or little, and the client has not taken them in
    /// time: the connection is to be closed.
    pub fn hold(&mut self, stream: &TcpStream, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // What is written in part stays in memory as a whole.
        if bytes <= self.share.held() || self.share.resize(bytes) {
            let due = self.due.get_or_insert_with(|| Due { since: Instant::now(), bytes });
            // A client that takes a byte now and then would keep what others need.
            if due.since.elapsed() < self.timeout || !self.share.is_scarce() {
                return Ok(());
            }
            self.metrics.closed_write_timeout.inc();
            return Err(self.exceed(stream, io::ErrorKind::TimedOut));
        }
        self.metrics.closed_no_room.inc();
        Err(self.exceed(stream, io::ErrorKind::OutOfMemory))
    }

    /// Whether a connection that holds `bytes` may make more, which its client is not waited for to
    /// read: all connections hold less than half of the budget, and this one less than a quarter.
    pub fn may_hold_more(&self, bytes: usize) -> bool {
        !self.share.is_scarce() && bytes < self.share.budget_bytes() / 4
    }

    /// Counts that the connection is closed as its client was silent for too long.
    pub fn note_idle(&self) {
        self.metrics.closed_idle.inc();
    }

    /// Counts that it is closed as a command took too long to arrive.
    pub fn note_command_timeout(&self) {
        self.metrics.closed_command_timeout.inc();
    }

    /// Counts that it is closed as too many commands of all clients have not arrived in full.
    pub fn note_no_room_to_read(&self) {
        self.metrics.closed_unread.inc();
    }

    /// Whether the connection has exceeded a bound.
    pub const fn exceeded(&self) -> bool {
        self.exceeded
    }

    /// What comes of a write of these bytes, of which the socket has taken those `written`.
    fn poll_written(
        &mut self,
        stream: &TcpStream,
        context: &mut Context<'_>,
        bytes: &[u8],
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = match written {
            Poll::Ready(written) => written?,
            Poll::Pending => match try_write(stream, bytes) {
                Err(Errno::AGAIN) => {
                    self.hold(stream, bytes.len())?;
                    let stall = self.stall.get_or_insert_with(|| Stall::new(self.drain.as_ref()));
                    let exceeds_its_part = || self.share.exceeds_its_part(SPARED_BYTES);
                    ready!(stall.poll(context, self.timeout, exceeds_its_part));
                    self.metrics.closed_write_timeout.inc();
                    return Poll::Ready(Err(self.exceed(stream, io::ErrorKind::TimedOut)));
                }
                written => written?,
            },
        };
        self.stall = None;
        self.due = self.due.take().and_then(|due| due.without(written));
        if written == bytes.len() {
            self.share.resize(0);
            self.due = None;
        } else {
            let left = bytes.len() - written;
            self.due.get_or_insert_with(|| Due { since: Instant::now(), bytes: left });
            self.hold(stream, bytes.len())?;
        }
        Poll::Ready(Ok(written))
    }

    fn exceed(&mut self, stream: &TcpStream, error: io::ErrorKind) -> io::Error {
        self.exceeded = true;
        if let Some(left_out) = RESET.admit() {
            let frontend = self.metrics.frontend;
            let why = match error {
                io::ErrorKind::OutOfMemory => "no room for unsent replies",
                _ => "replies were not read in time",
            };
            tracing::warn!(frontend, left_out, "a connection is reset: {why}");
        }
        // If that fails, the system keeps trying to send for a while.
        let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        error.into()
    }
}

/// Writes to a socket that is not reported as writable: it is once a third of its buffer is free,
/// which a slow client may not achieve in time. What counts is whether it takes anything.
fn try_write(stream: &TcpStream, bytes: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

/// A client's socket, written within these bounds.
#[derive(Debug)]
pub struct Bounded<'a> {
    pub stream: &'a mut TcpStream,
    pub unsent: &'a mut Unsent,
}

impl AsyncRead for Bounded<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Bounded<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, unsent } = self.get_mut();
        let written = Pin::new(&mut **stream).poll_write(context, bytes);
        unsent.poll_written(stream, context, bytes, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "unsent_tests.rs"]
pub mod tests;
