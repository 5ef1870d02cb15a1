//! Which path and method lead where.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use serde::Serialize;

use super::check;
use crate::exposition::Format;
use crate::gossip::{View, state_name};
use crate::service::Service;

pub type Answer = Response<Full<Bytes>>;

/// The longest text of an error, in characters.
const MAX_ERROR_CHARS: usize = 256;

/// What requests are answered from.
#[derive(Debug)]
pub struct Node {
    pub service: Arc<Service>,
    pub draining: Arc<AtomicBool>,
}

pub async fn answer(node: &Node, request: Request<Incoming>) -> Answer {
    if !names_host(&request) {
        return error(StatusCode::BAD_REQUEST, "expected one Host header");
    }
    let method = request.method();
    let reads = method == Method::GET || method == Method::HEAD;
    match request.uri().path() {
        "/v1/check" if method == Method::POST => check::answer(&node.service, request).await,
        "/v1/check" => wrong_method("POST"),
        "/v1/cluster" if reads => cluster(node),
        "/healthz" if reads => health(node),
        "/metrics" if reads => metrics(node, request.headers()),
        "/v1/cluster" | "/healthz" | "/metrics" => wrong_method("GET, HEAD"),
        _ => error(StatusCode::NOT_FOUND, "no such path"),
    }
}

/// Whether the request says which host it means, as HTTP/1.1 requires: once, not that it matters.
fn names_host(request: &Request<Incoming>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || hosts == 0 && request.version() < Version::HTTP_11
}

/// A JSON answer.
pub fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    // Types that fail to serialise are not answered with.
    let body = serde_json::to_vec(body).unwrap_or_default();
    content(status, "application/json", body)
}

/// A JSON answer that says what is wrong in one short line.
pub fn error(status: StatusCode, problem: &str) -> Answer {
    #[derive(Serialize)]
    struct Problem {
        error: String,
    }
    let printable = problem.chars().map(|c| if c.is_control() { '?' } else { c });
    json(status, &Problem { error: printable.take(MAX_ERROR_CHARS).collect() })
}

fn content(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer =
        error(StatusCode::METHOD_NOT_ALLOWED, &format!("this path takes only {allowed}"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn health(node: &Node) -> Answer {
    #[derive(Serialize)]
    struct Health {
        status: &'static str,
    }
    // Relaxed: the flag guards nothing else.
    let (code, status) = if node.draining.load(Ordering::Relaxed) {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else {
        (StatusCode::OK, "ok")
    };
    json(code, &Health { status })
}

fn metrics(node: &Node, headers: &HeaderMap) -> Answer {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(accept);
    content(StatusCode::OK, format.media_type(), node.service.metrics().render(format))
}

fn cluster(node: &Node) -> Answer {
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
    }
    let Some(View { this, members, .. }) = node.service.gossip().view() else {
        return error(StatusCode::NOT_FOUND, "this node is in no cluster, see --cluster");
    };
    let members = members.into_iter().map(|member| Member {
        id: member.id,
        addr: member.addr.to_string(),
        state: state_name(member.state),
    });
    json(StatusCode::OK, &Cluster { this, members: members.collect() })
}
