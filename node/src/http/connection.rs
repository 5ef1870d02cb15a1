//! One client's connection.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::body::MAX_HELD_BYTES;
use super::gate::Gate;
use super::gathered::Gathered;
use super::router;
use super::routes::Routes;
use crate::budget::Budget;
use crate::meter::FrontEndName;
use crate::net::{self, FrontEnd};
use crate::readiness::Readiness;
use crate::service::Service;
use crate::unsent::{Bounded, Unsent};

/// How long a client may take to send the head of a request, or to begin the next one.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// The largest head of a request, in bytes; also the most that is read ahead.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Serves HTTP/1.
#[derive(Debug)]
pub struct HttpFrontEnd {
    node: Arc<Routes>,
}

impl HttpFrontEnd {
    /// Checks wait, and probes are told, until the node has joined.
    pub fn new(service: Arc<Service>, readiness: Arc<Readiness>, gate: Gate) -> Self {
        let meter = service.meter(FrontEndName::Http);
        let bodies = Arc::new(Budget::new(MAX_HELD_BYTES));
        Self { node: Arc::new(Routes { service, readiness, gate, meter, bodies }) }
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
        refuse(stream)
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
    let service = service_fn(move |request| async move {
        Ok::<_, std::convert::Infallible>(router::answer(node, request).await)
    });
    let socket = Gathered::new(stream);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(&socket), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        () = socket.drive(connection.as_mut()) => {}
        () = drain.cancelled() => {
            connection.as_mut().graceful_shutdown();
            socket.drive(connection.as_mut()).await;
        }
    }
}

async fn refuse(mut stream: TcpStream) {
    let reply = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
        content-length: 62\r\nconnection: close\r\n\r\n\
        {\"error\":\"too many connections\",\"code\":\"too_many_connections\"}";
    let _ = stream.write_all(reply).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
