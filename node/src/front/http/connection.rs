//! One client's connection.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::answer::last;
use super::gate::Gate;
use super::router;
use super::routes::Routes;
use super::socket::ClientSocket;
use super::timer::DeadlineTimer;
use crate::config::bounds::HttpBounds;
use crate::front::budget::Budget;
use crate::front::net::{self, FrontEnd};
use crate::front::unsent::{Bounded, Unsent};
use crate::service::Service;
use crate::service::readiness::Readiness;
use crate::telemetry::meter::FrontEndName;

/// How long a client that goes on sending is answered once the node drains.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// The least that hyper reads ahead, in bytes.
const LEAST_AHEAD_BYTES: usize = 8 * 1024;
/// The fields of a head for which hyper has room on its stack; another number costs an allocation
/// for each request.
const USUAL_HEAD_FIELDS: usize = 100;

/// Serves HTTP/1.
#[derive(Debug)]
pub struct HttpFrontEnd {
    node: Arc<Routes>,
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
        let bodies = Arc::new(Budget::new(bounds.held_body_bytes));
        Self { node: Arc::new(Routes { service, readiness, gate, bounds, meter, bodies }) }
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
    talk(Bounded { stream: &mut stream, unsent: &mut unsent }, &node, &drain).await;
    if unsent.exceeded() {
        return;
    }
    // The rest of a refused request, as a body beyond its bound, may still be arriving.
    if !drain.is_cancelled() || net::unread_bytes(&stream) > 0 {
        net::linger(&mut stream).await;
    }
}

/// Answers requests until either side closes.
async fn talk(stream: Bounded<'_>, node: &Routes, drain: &CancellationToken) {
    let socket = ClientSocket::new(stream);
    let service = service_fn(|request: Request<Incoming>| {
        socket.asked();
        let (has_body, version) = (!request.body().is_end_stream(), request.version());
        let socket = &socket;
        async move {
            let mut answer = router::answer(node, request).await;
            // A client that keeps its connections, as a load balancer, takes them elsewhere.
            let ends = node.readiness.is_stopping() && socket.nothing_follows().await;
            socket.answered(has_body);
            if ends || socket.ends_with_next() {
                answer = last(answer);
                // hyper would add the opposite for a client of HTTP/1.0.
                *answer.version_mut() = version;
            }
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = builder(&node.bounds).serve_connection(TokioIo::new(&socket), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        () = socket.drive(connection.as_mut()) => return,
        () = drain.cancelled() => {}
    }
    if drain_requests(&socket, connection.as_mut(), node.bounds.under_way).await {
        connection.as_mut().graceful_shutdown();
        socket.drive(connection.as_mut()).await;
    }
}

/// Answers what has arrived, which hyper would drop where it has not begun to read it, and what is
/// under way, as the last request: the client learns from its answer that the connection closes.
/// False if it has ended.
async fn drain_requests(
    socket: &ClientSocket<'_>,
    mut connection: Pin<&mut impl Future>,
    under_way: Duration,
) -> bool {
    let rests = tokio::time::timeout(DRAIN_TIMEOUT, socket.drive_to_rest(connection.as_mut()));
    let rests = rests.await;
    socket.end_with_next();
    if let Ok(rests) = rests {
        let waited = tokio::time::timeout(under_way, socket.drive(connection.as_mut()));
        if !rests || waited.await.is_ok() {
            return false;
        }
    }
    socket.drive_to_rest(connection).await
}

fn builder(bounds: &HttpBounds) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(DeadlineTimer)
        .header_read_timeout(bounds.head_timeout)
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
    let connection = builder.serve_connection(TokioIo::new(&mut stream), service);
    if tokio::time::timeout(net::LINGER, connection).await.is_ok() {
        // A body may be on its way.
        net::linger(&mut stream).await;
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
