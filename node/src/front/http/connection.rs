//! One client's connection.

use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::gate::Gate;
use super::gathered::Gathered;
use super::router;
use super::routes::Routes;
use super::timer::PatientTimer;
use crate::config::bounds::HttpBounds;
use crate::front::budget::Budget;
use crate::front::net::{self, FrontEnd};
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
    let socket = Gathered::new(stream);
    let service = service_fn(|request| {
        socket.set_asked(true);
        async {
            let answer = router::answer(node, request).await;
            socket.set_asked(false);
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = builder(&node.bounds).serve_connection(TokioIo::new(&socket), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        () = socket.drive(connection.as_mut()) => {}
        () = drain.cancelled() => {
            connection.as_mut().graceful_shutdown();
            socket.drive(connection.as_mut()).await;
        }
    }
}

fn builder(bounds: &HttpBounds) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(PatientTimer)
        .header_read_timeout(bounds.head_timeout)
        .max_header_size(bounds.head_bytes)
        .max_buf_size(bounds.head_bytes.max(LEAST_AHEAD_BYTES));
    if bounds.head_fields != USUAL_HEAD_FIELDS {
        builder.max_headers(bounds.head_fields);
    }
    builder
}

async fn refuse(mut stream: TcpStream) {
    let reply = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
        content-length: 62\r\nconnection: close\r\n\r\n\
        {\"error\":\"too many connections\",\"code\":\"too_many_connections\"}";
    let _ = stream.write_all(reply).await;
    // The request may be on its way.
    net::linger(&mut stream).await;
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
