//! Answers to pipelined requests, sent together.
//!
//! hyper writes each answer by itself, also where the next request has already arrived. Here what
//! it writes is kept while its connection has something to do, and sent as soon as it waits,
//! whatever for: the rest of a request, a decision, or its next turn. hyper's own `pipeline_flush`
//! holds answers back while a part of a further request is there, and without bound.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::front::linger::holds_replies;
use crate::front::net;
use crate::front::unsent::Bounded;

/// The most bytes that are coalesced: the answers to a long pipeline are sent in parts. Larger
/// writes are passed on.
const MAX_COALESCED_BYTES: usize = 8 * 1024;
/// The most bytes of memory that are kept for what is written next: an answer or two.
const MAX_KEPT_BYTES: usize = 1024;

/// A client's socket, to which writes go together. A flush sends nothing: see
/// [`poll_send`](Self::poll_send).
#[derive(Debug)]
pub struct Coalesced<'a> {
    socket: Bounded<'a>,
    bytes: Vec<u8>,
    /// How many of these the socket has taken.
    sent: usize,
    is_blocked: bool,
}

impl<'a> Coalesced<'a> {
    pub const fn new(socket: Bounded<'a>) -> Self {
        Self { socket, bytes: Vec::new(), sent: 0, is_blocked: false }
    }

    /// Whether all that was written is sent.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the last write waits until the socket takes something.
    pub const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// How many bytes of the client the socket holds.
    pub fn unread_bytes(&self) -> u64 {
        net::unread_bytes(self.socket.stream)
    }

    /// Whether the system holds answers: see [`holds_replies`].
    pub fn holds_answers(&self) -> bool {
        holds_replies(self.socket.stream)
    }

    /// Sends all that was written.
    pub fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send_before(context, 0)
    }

    /// The same, while `more` bytes wait elsewhere.
    fn poll_send_before(&mut self, context: &mut Context<'_>, more: usize) -> Poll<io::Result<()>> {
        let sent = ready!(self.poll_send_all(context, more));
        self.sent = 0;
        // What cannot be sent is dropped.
        self.bytes.clear();
        self.bytes.shrink_to(MAX_KEPT_BYTES);
        Poll::Ready(sent)
    }

    fn poll_send_all(&mut self, context: &mut Context<'_>, more: usize) -> Poll<io::Result<()>> {
        while self.sent < self.bytes.len() {
            let rest = &self.bytes[self.sent..];
            let Poll::Ready(written) = Pin::new(&mut self.socket).poll_write(context, rest) else {
                let Bounded { stream, unsent } = &mut self.socket;
                return match unsent.hold(stream, self.bytes.len() + more) {
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

    fn poll_add(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.bytes.len() + bytes.len() > MAX_COALESCED_BYTES {
            ready!(self.poll_send_before(context, bytes.len()))?;
            if bytes.len() > MAX_COALESCED_BYTES {
                return Pin::new(&mut self.socket).poll_write(context, bytes);
            }
        } else if !self.bytes.is_empty() {
            // Of a pipeline: more will follow.
            self.bytes.reserve(MAX_COALESCED_BYTES - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }
}

impl AsyncRead for Coalesced<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Coalesced<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.poll_add(context, bytes);
        self.is_blocked = written.is_pending();
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "coalesced_tests.rs"]
mod tests;
