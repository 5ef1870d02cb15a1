//! One client's connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::{Code, is_last, last};
use super::gate::Gate;
use super::head::{HeadError, head_missing};
use super::router::Routed;
use super::routes::Routes;
use super::socket::ClientSocket;
use super::{router, turn};
use crate::config::bounds::HttpBounds;
use crate::front::budget::Budget;
use crate::front::linger::{LINGER, linger};
use crate::front::net::{self, DRAIN_TIMEOUT, FrontEnd};
use crate::front::turns::Turns;
use crate::front::unsent::{Bounded, Unsent};
use crate::service::Service;
use crate::service::readiness::Readiness;
use crate::telemetry::meter::FrontEndName;

/// The least that hyper reads ahead, in bytes.
const LEAST_AHEAD_BYTES: usize = 8 * 1024;
/// The fields of a head for which hyper has room on its stack; another number costs an allocation
/// for each request.
const USUAL_HEAD_FIELDS: usize = 100;

/// Serves HTTP/1.
#[derive(Debug)]
pub struct HttpFrontEnd {
    pub(super) node: Arc<Routes>,
}

impl HttpFrontEnd {
    /// Until the node has joined, checks wait, and readiness probes are answered that it is
    /// joining.
    pub fn new(
        service: Arc<Service>,
        readiness: Arc<Readiness>,
        gate: Gate,
        bounds: HttpBounds,
    ) -> Self {
        let meter = service.meter(FrontEndName::Http);
        // Each code is there from the start.
        let errors = service.metrics().errors();
        let codes = Code::ALL.map(Code::name).into_iter();
        for code in codes.chain(HeadError::ALL.map(HeadError::name)) {
            errors.count_http(code, 0);
        }
        let bodies = Arc::new(Budget::new(bounds.held_body_bytes));
        let turns = Turns::default();
        Self { node: Arc::new(Routes { service, readiness, gate, bounds, meter, turns, bodies }) }
    }
}

impl FrontEnd for HttpFrontEnd {
    fn serve(
        &self,
        stream: TcpStream,
        unsent: Unsent,
        drain: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        serve(stream, unsent, Arc::clone(&self.node), drain)
    }

    fn refuse(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        refuse(stream, Arc::clone(&self.node))
    }
}

async fn serve(
    mut stream: TcpStream,
    mut unsent: Unsent,
    node: Arc<Routes>,
    drain: CancellationToken,
) {
    let socket = ClientSocket::new(Bounded { stream: &mut stream, unsent: &mut unsent });
    let was_idle = tokio::select! {
        biased;
        was_idle = talk(&socket, &node, &drain) => was_idle,
        () = head_missing(&socket, node.bounds.head_timeout) => false,
    };
    // hyper is gone, and with it a request that waits for its turn.
    socket.send_rest().await;
    if unsent.exceeded() {
        return;
    }
    // What its client sent before it read its last answer may still be arriving, as the rest of a
    // body beyond its bound.
    if !was_idle || net::unread_bytes(&stream) > 0 {
        linger(&mut stream).await;
    }
}

/// Answers requests until either side closes. True if a drain ended it while it was idle: no answer
/// was the last one, and all that were given before have arrived.
async fn talk(socket: &ClientSocket<'_>, node: &Routes, drain: &CancellationToken) -> bool {
    let service = service_fn(|request: Request<Incoming>| {
        let work = turn::work_of(&request);
        let waits = socket.asked(work);
        let (has_body, version) = (!request.body().is_end_stream(), request.version());
        let routed = Routed::new(node, request);
        async move {
            if waits {
                node.turns.next().await;
                socket.begin_turn();
            }
            let mut answer = routed.answer(node).await;
            // A client that keeps its connections, as a load balancer, takes them elsewhere.
            let ends = node.readiness.is_stopping() && socket.nothing_follows();
            if ends || socket.ends_with_next() {
                answer = last(answer);
            }
            let is_last = is_last(&answer);
            if is_last {
                // hyper would add the opposite for a client of HTTP/1.0.
                *answer.version_mut() = version;
            }
            socket.answered(has_body, is_last, turn::work_for(&answer));
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = builder(&node.bounds).serve_connection(TokioIo::new(socket), service);
    let mut connection = CountingErrors { inner: std::pin::pin!(connection), node };
    tokio::select! {
        biased;
        () = socket.drive(Pin::new(&mut connection)) => return false,
        () = drain.cancelled() => {}
    }
    if !drain_requests(socket, Pin::new(&mut connection), node.bounds.under_way).await {
        return false;
    }
    // hyper closes this side. A client that reads late may send before it has read all.
    let is_idle = socket.is_idle() && !socket.holds_answers();
    connection.inner.as_mut().graceful_shutdown();
    socket.drive(Pin::new(&mut connection)).await;
    is_idle
}

/// What hyper serves. A head that hyper refuses itself, which ends the connection, is counted.
struct CountingErrors<'a, C> {
    inner: Pin<&'a mut C>,
    node: &'a Routes,
}

impl<C: Future<Output = hyper::Result<()>>> Future for CountingErrors<'_, C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let ended = ready!(self.inner.as_mut().poll(context));
        if let Some(code) = ended.err().and_then(|error| HeadError::of(&error)) {
            self.node.service.metrics().errors().count_http(code.name(), 1);
        }
        Poll::Ready(())
    }
}

/// Answers what has arrived, which hyper would drop where it has not begun to read it, and what is
/// under way: the client learns from the last answer that the connection closes. One that goes on
/// sending is answered once more when the time is over. False if it has ended.
async fn drain_requests(
    socket: &ClientSocket<'_>,
    mut connection: Pin<&mut impl Future>,
    under_way: Duration,
) -> bool {
    let end = Instant::now() + DRAIN_TIMEOUT;
    let rests = tokio::time::timeout_at(end, socket.drive_to_rest(connection.as_mut()));
    if let Ok(rests) = rests.await {
        let waited = tokio::time::timeout(under_way, socket.drive(connection.as_mut()));
        if !rests || waited.await.is_ok() {
            return false;
        }
        // Of what has come in that time, some may have to be answered.
        let rests = tokio::time::timeout_at(end, socket.drive_to_rest(connection.as_mut()));
        if let Ok(rests) = rests.await {
            return rests;
        }
    }
    socket.end_with_next();
    socket.drive_to_rest(connection).await
}

fn builder(bounds: &HttpBounds) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // See `head_missing`.
        .header_read_timeout(None)
        .max_header_size(bounds.head_bytes)
        .max_buf_size(bounds.head_bytes.max(LEAST_AHEAD_BYTES));
    if bounds.head_fields != USUAL_HEAD_FIELDS {
        builder.max_headers(bounds.head_fields);
    }
    builder
}

/// Answers one request of a client beyond the bound on connections. Its head has the time that
/// others have to read such an answer.
async fn refuse(mut stream: TcpStream, node: Arc<Routes>) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = router::answer_refused(&node, &request);
        async { Ok::<_, std::convert::Infallible>(answer) }
    });
    let mut builder = builder(&node.bounds);
    // The time is bounded, so a client may close its side.
    builder.keep_alive(false).half_close(true);
    let answered = {
        let connection = builder.serve_connection(TokioIo::new(&mut stream), service);
        let connection = CountingErrors { inner: std::pin::pin!(connection), node: &node };
        tokio::time::timeout(LINGER, connection).await
    };
    if answered.is_ok() {
        // A body may be on its way.
        linger(&mut stream).await;
    }
}

#[cfg(test)]
#[path = "stall_tests.rs"]
mod stall_tests;
#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
