//! Dispatch by path and method.

use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode, Version};
use serde::Serialize;

use super::answer::{Answer, Code, content, error, json};
use super::gate::Stopped;
use super::health::{HEALTH, READY, health, ready};
use super::routes::Routes;
use super::{batch, check};
use crate::limits::gossip::{View, link_name, state_name};
use crate::telemetry::exposition::Format;

/// What comes of a request.
enum Route {
    Answer(Box<Answer>),
    /// Of what its body says.
    Check,
    Batch,
}

pub async fn answer(node: &Routes, request: Request<Incoming>) -> Answer {
    if !names_host(&request) {
        return error(Code::InvalidHost, "expected one Host header");
    }
    // Probes name the node by any of its addresses, and whether it is ready is no secret.
    let passed = if matches!(request.uri().path(), HEALTH | READY) {
        None
    } else {
        match node.gate.pass(&request) {
            Ok(passed) => Some(passed),
            Err(stopped) => {
                let refused = node.service.metrics().http_refused();
                match stopped {
                    Stopped::HostNotAllowed => refused.host.inc(),
                    Stopped::OriginNotAllowed => refused.origin.inc(),
                    Stopped::Asked(_) => 0,
                };
                return stopped.answer();
            }
        }
    };
    let mut answer = match route(node, &request) {
        Route::Answer(answer) => *answer,
        Route::Check => check::answer(node, request.into_body()).await,
        Route::Batch => batch::answer(node, request.into_body()).await,
    };
    if let Some(passed) = passed {
        passed.add_to(answer.headers_mut());
    }
    answer
}

fn route(node: &Routes, request: &Request<Incoming>) -> Route {
    let method = request.method();
    let reads = method == Method::GET || method == Method::HEAD;
    let answer = match request.uri().path() {
        "/v1/check" if method == Method::POST => return Route::Check,
        "/v1/check-batch" if method == Method::POST => return Route::Batch,
        "/v1/check" | "/v1/check-batch" => wrong_method("POST"),
        "/v1/cluster" if reads => cluster(node),
        HEALTH if reads => health(node.readiness.phase()),
        READY if reads => ready(node.readiness.phase(), node.service.gossip().is_alone()),
        "/metrics" if reads => metrics(node, request.headers()),
        "/v1/cluster" | HEALTH | READY | "/metrics" => wrong_method("GET, HEAD"),
        _ => error(Code::UnknownPath, "no such path"),
    };
    Route::Answer(answer.into())
}

/// Whether the request has one Host header, as HTTP/1.1 requires; its value does not matter.
fn names_host(request: &Request<Incoming>) -> bool {
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
        /// Null before it was heard.
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
