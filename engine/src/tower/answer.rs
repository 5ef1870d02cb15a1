//! The response to a request that is not let through.

use core::fmt;
use core::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::base::decision::Decision;

use super::{Head, KeyError};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The prefix of every content type of gRPC.
const GRPC_CONTENT_TYPE: &[u8] = b"application/grpc";

// Codes of gRPC.
const INVALID_ARGUMENT: &str = "3";
const RESOURCE_EXHAUSTED: &str = "8";
const INTERNAL: &str = "13";

/// The text of a denial by a limit.
const EXCEEDED: &str = "rate limit exceeded";

/// Why a request was not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The limit denied it.
    Limit(Decision),
    /// There is no usable key.
    Key(KeyError),
}

/// A request that was not let through.
#[derive(Clone, Debug)]
pub struct Denial<'a> {
    name: &'a str,
    reason: Reason,
    status: StatusCode,
    grpc: Option<&'a HeaderValue>,
}

impl<'a> Denial<'a> {
    pub(super) fn new(name: &'a str, reason: Reason, status: StatusCode) -> Self {
        Self { name, reason, status, grpc: None }
    }

    pub(super) fn of_decision(name: &'a str, decision: Decision) -> Self {
        Self::new(name, Reason::Limit(decision), StatusCode::TOO_MANY_REQUESTS)
    }

    /// For the request with this head.
    pub(super) fn to<'h>(self, head: &Head<'h>) -> Denial<'h>
    where
        'a: 'h,
    {
        let content_type = head.headers().get(CONTENT_TYPE);
        Denial { grpc: content_type.filter(|value| is_grpc(value)), ..self }
    }

    /// The name of the limit that did not let the request through.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Why the request was not let through.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The time until the same request fits, provided no other is admitted meanwhile; `None` when
    /// waiting does not help.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.reason {
            Reason::Limit(decision) => decision.retry_after(),
            Reason::Key(_) => None,
        }
    }

    /// The status of the default response in HTTP: 429 from a limit, else [`KeyError::status`].
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Whether the request is gRPC. gRPC clients read the status in `grpc-status`, and take any
    /// HTTP status but 200 for a broken connection.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        self.grpc.is_some()
    }

    /// The default response, with an empty body: [`Denial::status`], or in gRPC a trailers-only
    /// response with `RESOURCE_EXHAUSTED`, `INVALID_ARGUMENT` or `INTERNAL`.
    #[must_use]
    pub fn response<B: Default>(&self) -> Response<B> {
        let mut response = Response::new(B::default());
        if let Some(content_type) = self.grpc {
            let (code, message) = self.grpc_status();
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, content_type.clone());
            headers.insert(GRPC_STATUS, HeaderValue::from_static(code));
            headers.insert(GRPC_MESSAGE, HeaderValue::from_static(message));
        } else {
            *response.status_mut() = self.status;
        }
        response
    }

    /// The gRPC status code and a message without characters that need escapes.
    fn grpc_status(&self) -> (&'static str, &'static str) {
        let Reason::Key(error) = self.reason else { return (RESOURCE_EXHAUSTED, EXCEEDED) };
        let code = match self.status {
            StatusCode::TOO_MANY_REQUESTS => RESOURCE_EXHAUSTED,
            status if status.is_server_error() => INTERNAL,
            _ => INVALID_ARGUMENT,
        };
        (code, error.text())
    }
}

/// Whether a content type is gRPC's: `application/grpc`, alone or before `+`, `-` or `;`.
fn is_grpc(content_type: &HeaderValue) -> bool {
    let bytes = content_type.as_bytes();
    bytes.split_at_checked(GRPC_CONTENT_TYPE.len()).is_some_and(|(head, rest)| {
        head.eq_ignore_ascii_case(GRPC_CONTENT_TYPE)
            && matches!(rest.first(), None | Some(b'+' | b'-' | b';' | b' '))
    })
}

/// Answers requests that are not let through, with bodies of type `B`: [`DefaultAnswer`], or a
/// closure given to [`RateLimitLayer::answer`](super::RateLimitLayer::answer).
pub trait Answer<B>: Clone + sealed::Sealed<B> {
    /// The response, without the limit's header fields.
    #[doc(hidden)]
    fn answer(&self, denial: &Denial<'_>) -> Response<B>;
}

mod sealed {
    pub trait Sealed<B> {}
    impl<B: Default> Sealed<B> for super::DefaultAnswer {}
    impl<B, F: Fn(&super::Denial<'_>) -> http::Response<B>> Sealed<B> for F {}
}

/// [`Denial::response`].
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultAnswer;

impl<B: Default> Answer<B> for DefaultAnswer {
    fn answer(&self, denial: &Denial<'_>) -> Response<B> {
        denial.response()
    }
}

impl<B, F: Fn(&Denial<'_>) -> Response<B> + Clone> Answer<B> for F {
    fn answer(&self, denial: &Denial<'_>) -> Response<B> {
        self(denial)
    }
}

impl fmt::Display for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::Limit(_) => write!(f, "{}: {EXCEEDED}", self.name),
            Reason::Key(error) => write!(f, "{}: {}", self.name, error.text()),
        }
    }
}
