//! Which requests are answered: not those that a web page makes a browser send.
//!
//! A page may make a browser send a `POST` of its choice to any address that the browser reaches,
//! without asking first; but it cannot take away the `Origin` that the browser adds, which other
//! clients do not send. And a page whose name is made to resolve to this node's address is of the
//! same origin; but it cannot change the `Host`.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST,
    HeaderMap, HeaderName, HeaderValue, ORIGIN, RETRY_AFTER, VARY,
};
use hyper::{Method, Request, Response, StatusCode};
use tidegate_engine::headers::{POLICY, STATE};

use super::answer::{Answer, Code, error};
use crate::config::origin::{Host, Origin};

/// For how long a browser may remember what it was allowed, in seconds.
const MAX_AGE_SECONDS: u64 = 600;
/// What a browser asks where a page of the internet addresses a private network.
const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

/// The origins and hosts of which requests are answered.
#[derive(Debug, Default)]
pub struct Gate {
    /// Requests without an origin are no page's.
    pub origins: Vec<Origin>,
    /// All hosts if empty.
    pub hosts: Vec<Host>,
}

/// What the answer to a request has to say to a browser.
#[derive(Debug)]
pub struct Passed {
    /// The origin, if the request has one.
    origin: Option<HeaderValue>,
    depends_on_origin: bool,
}

/// Why a request goes no further.
#[derive(Debug)]
pub enum Stopped {
    /// With the host at fault; empty where the request names none.
    HostNotAllowed(Box<[u8]>),
    OriginNotAllowed,
    /// A browser asks before it sends a request: the leave it is given.
    Asked(Box<Answer>),
}

impl Stopped {
    pub fn answer(self) -> Answer {
        match self {
            Self::HostNotAllowed(_) => {
                let problem = "this host is none of this node's, see --allow-host";
                error(Code::HostNotAllowed, problem)
            }
            Self::OriginNotAllowed => {
                let problem = "pages of this origin may not ask this node, see --allow-origin";
                error(Code::OriginNotAllowed, problem)
            }
            Self::Asked(leave) => *leave,
        }
    }
}

impl Gate {
    /// Lets a request through.
    ///
    /// # Errors
    /// Why it has been answered already.
    pub fn pass<B>(&self, request: &Request<B>) -> Result<Passed, Stopped> {
        if let Some(host) = self.foreign_host(request) {
            return Err(Stopped::HostNotAllowed(host.into()));
        }
        let origin = self.origin(request.headers())?;
        let passed = Passed { origin, depends_on_origin: !self.origins.is_empty() };
        let headers = request.headers();
        let is_preflight = passed.origin.is_some()
            && request.method() == Method::OPTIONS
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if is_preflight { Err(Stopped::Asked(leave(&passed, headers).into())) } else { Ok(passed) }
    }

    /// A host that the request names and that is none of this node's; an empty one where it names
    /// none.
    fn foreign_host<'a, B>(&self, request: &'a Request<B>) -> Option<&'a [u8]> {
        if self.hosts.is_empty() {
            return None;
        }
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let fields = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
        let mut named = fields.chain(authority).peekable();
        let is_ours = |value| Host::of(value).is_some_and(|host| self.hosts.contains(&host));
        if named.peek().is_none() { Some(&[]) } else { named.find(|value| !is_ours(value)) }
    }

    /// The origin of a request, if it has one.
    fn origin(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Stopped> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(first) = origins.next() else { return Ok(None) };
        let is_allowed = self.origins.iter().any(|origin| origin.is(first.as_bytes()));
        if is_allowed && origins.next().is_none() {
            return Ok(Some(first.clone()));
        }
        Err(Stopped::OriginNotAllowed)
    }
}

impl Passed {
    /// Adds what lets the page read the answer, with the fields that pace it.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        if self.depends_on_origin {
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = &self.origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            let fields = [STATE, POLICY].map(HeaderName::from_static);
            for field in fields.into_iter().chain([RETRY_AFTER]) {
                headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, field.into());
            }
        }
    }
}

/// The answer to a browser that asks whether it may send a request.
fn leave(passed: &Passed, asked: &HeaderMap) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::new()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let headers = answer.headers_mut();
    passed.add_to(headers);
    let methods = HeaderValue::from_static("GET, HEAD, POST");
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("content-type"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(MAX_AGE_SECONDS));
    if asked.contains_key(REQUEST_PRIVATE_NETWORK) {
        headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    answer
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
