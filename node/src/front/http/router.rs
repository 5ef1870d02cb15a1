//! Dispatch by path and method.

use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{ACCEPT, ALLOW, EXPECT, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::{Method, Request, StatusCode, Version};
use serde::Serialize;

use super::answer::{Answer, Code, content, error, json, last};
use super::gate::{Passed, Stopped};
use super::health::{HEALTH, READY, health, ready};
use super::routes::Routes;
use super::{batch, body, check, refused};
use crate::config::bounds::HttpBounds;
use crate::limits::gossip::{View, link_name, state_name};
use crate::service::readiness::Phase;
use crate::telemetry::exposition::Format;
use crate::telemetry::log_throttle::SharedLogThrottle;

/// How long a body that does not matter may take, at most.
const SKIPPED_WITHIN: Duration = Duration::from_secs(1);

/// The lines of the log about requests of pages, and for hosts, that are not allowed.
static STOPPED: SharedLogThrottle = SharedLogThrottle::new("requests that were refused");

/// Which handler answers a request, with the part of the request that it needs.
///
/// hyper moves the future of each request when it begins, so it is kept small: what only some
/// requests need is boxed.
pub struct Routed {
    passed: Result<Option<Passed>, Box<Answer>>,
    route: Route,
}

enum Route {
    /// The body of a check.
    Check(Incoming),
    Batch(Incoming),
    /// Its head alone.
    ByHead(Box<Request<Incoming>>),
}

impl Routed {
    pub fn new(node: &Routes, request: Request<Incoming>) -> Self {
        let passed = pass(node, &request);
        let is_post = request.method() == Method::POST;
        let route = match request.uri().path() {
            "/v1/check" if is_post && passed.is_ok() => Route::Check(request.into_body()),
            "/v1/check-batch" if is_post && passed.is_ok() => Route::Batch(request.into_body()),
            _ => Route::ByHead(request.into()),
        };
        Self { passed, route }
    }

    pub async fn answer(self, node: &Routes) -> Answer {
        let Self { passed, route } = self;
        let mut answer = match route {
            Route::Check(body) => check::answer(node, body).await,
            Route::Batch(body) => Box::pin(batch::answer(node, body)).await,
            Route::ByHead(request) if request.body().is_end_stream() => {
                by_head(node, &request, &passed)
            }
            Route::ByHead(request) => {
                Box::pin(by_head_after_skipping(node, *request, &passed)).await
            }
        };
        refused::count(&node.service, &answer);
        if let Ok(Some(passed)) = passed {
            passed.add_to(answer.headers_mut());
        }
        answer
    }
}

/// The answer to a client beyond the bound on connections. Probes are answered as ever: what asks
/// whether the node lives would restart it for having too many clients.
pub fn answer_refused<B>(node: &Routes, request: &Request<B>) -> Answer {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let answer = match probed(node, request.uri().path()) {
        Some(answer) if reads => answer,
        _ => error(Code::TooManyConnections, "too many connections"),
    };
    refused::count(&node.service, &answer);
    answer
}

/// The answer to a probe.
fn probed(node: &Routes, path: &str) -> Option<Answer> {
    match path {
        HEALTH => Some(health(node.readiness.phase())),
        READY => Some(ready(phase(node), node.service.gossip().is_alone())),
        _ => None,
    }
}

/// What the node does for clients. One that was ready joins again where its cluster meets one
/// whose key wins, and is about to stop where its gossip has failed.
fn phase(node: &Routes) -> Phase {
    let gossip = node.service.gossip();
    match node.readiness.phase() {
        Phase::Ready if gossip.has_ended() => Phase::Draining,
        Phase::Ready if !gossip.has_joined() => Phase::Joining,
        phase => phase,
    }
}

/// Lets a request through: what its answer has to say to a browser, unless it is a probe's.
///
/// # Errors
/// Its answer.
fn pass<B>(node: &Routes, request: &Request<B>) -> Result<Option<Passed>, Box<Answer>> {
    if !names_host(request) {
        return Err(error(Code::InvalidHost, "expected one Host header").into());
    }
    // Probes name the node by any of its addresses, and whether it is ready is not a secret.
    if matches!(request.uri().path(), HEALTH | READY) {
        return Ok(None);
    }
    node.gate.pass(request).map(Some).map_err(|stopped| {
        let refused = node.service.metrics().http_refused();
        match stopped {
            Stopped::HostNotAllowed(ref host) => {
                refused.host.inc();
                log_stopped(host, "its host is not allowed");
            }
            Stopped::OriginNotAllowed => {
                refused.origin.inc();
                let origin = request.headers().get(ORIGIN).map(HeaderValue::as_bytes);
                log_stopped(origin.unwrap_or_default(), "its origin is not allowed");
            }
            Stopped::Asked(_) => {}
        }
        stopped.answer().into()
    })
}

fn log_stopped(of: &[u8], why: &str) {
    if let Some(left_out) = STOPPED.admit() {
        let of = refused::logged(of);
        tracing::warn!(frontend = "http", of, left_out, "a request is refused: {why}");
    }
}

/// The same, once the body is read and dropped.
async fn by_head_after_skipping(
    node: &Routes,
    request: Request<Incoming>,
    passed: &Result<Option<Passed>, Box<Answer>>,
) -> Answer {
    let (head, body) = request.into_parts();
    let is_read = skip(node, &head.headers, body).await;
    let answer = by_head(node, &Request::from_parts(head, ()), passed);
    if is_read { answer } else { last(answer) }
}

/// Reads a body that does not matter, so that its connection goes on. False where it is larger than
/// that of a check, or does not come soon, as from a client that waits for `100 Continue`.
async fn skip(node: &Routes, headers: &HeaderMap, body: Incoming) -> bool {
    let HttpBounds { body_bytes, body_timeout, .. } = node.bounds;
    let within = body_timeout.min(SKIPPED_WITHIN);
    !headers.contains_key(EXPECT) && body::skip(body, body_bytes, within).await
}

/// The answer to a request whose body says nothing to it.
fn by_head<B>(
    node: &Routes,
    request: &Request<B>,
    passed: &Result<Option<Passed>, Box<Answer>>,
) -> Answer {
    if let Err(refusal) = passed {
        return Answer::clone(refusal);
    }
    let method = request.method();
    let reads = method == Method::GET || method == Method::HEAD;
    if let Some(answer) = probed(node, request.uri().path()) {
        return if reads { answer } else { wrong_method("GET, HEAD") };
    }
    match request.uri().path() {
        "/v1/check" | "/v1/check-batch" => wrong_method("POST"),
        "/v1/cluster" if reads => cluster(node),
        "/metrics" if reads => metrics(node, request.headers()),
        "/v1/cluster" | "/metrics" => wrong_method("GET, HEAD"),
        _ => error(Code::UnknownPath, "no such path"),
    }
}

/// Whether the request has one Host header, as HTTP/1.1 requires; its value does not matter.
fn names_host<B>(request: &Request<B>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || hosts == 0 && request.version() < Version::HTTP_11
}

fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer = error(Code::MethodNotAllowed, &format!("this path takes only {allowed}"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn metrics(node: &Routes, headers: &HeaderMap) -> Answer {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(accept);
    content(StatusCode::OK, format.media_type(), node.service.metrics().render(format))
}

fn cluster(node: &Routes) -> Answer {
    #[derive(Serialize)]
    struct Cluster {
        #[serde(rename = "self")]
        this: String,
        members: Vec<Member>,
    }
    #[derive(Serialize)]
    struct Member {
        id: String,
        addr: String,
        state: &'static str,
        /// For how long it has been so.
        state_seconds: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        peer: Option<Peer>,
    }
    /// What is known of a member that this node dials.
    #[derive(Serialize)]
    struct Peer {
        link: &'static str,
        /// Null before anything was received from it.
        staleness_seconds: Option<f64>,
        unacked_batches: u64,
        unacked_debt_seconds: f64,
    }
    let Some(View { this, members, peers, .. }) = node.service.gossip().view() else {
        return error(Code::NoCluster, "this node is in no cluster, see --cluster");
    };
    let members = members.into_iter().map(|member| Member {
        id: member.id,
        addr: member.addr.to_string(),
        state: state_name(member.state),
        state_seconds: member.state_for.as_secs_f64(),
        // Both are in order of the address.
        peer: peers.binary_search_by_key(&member.addr, |peer| peer.addr).ok().map(|place| {
            let peer = &peers[place];
            Peer {
                link: link_name(peer.link),
                staleness_seconds: peer.staleness.map(|age| age.as_secs_f64()),
                unacked_batches: peer.unacked_batches,
                unacked_debt_seconds: peer.unacked_debt.as_secs_f64(),
            }
        }),
    });
    json(StatusCode::OK, &Cluster { this, members: members.collect() })
}
