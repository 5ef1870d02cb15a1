//! Requests that are not let through, and the answers to clients.

use core::fmt;
use core::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};

use crate::base::decision::Decision;
use crate::base::headers::{LimitName, seconds_up};
use crate::rule::quota::QuotaError;

use super::{Head, KeyError};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The prefix of every content type of gRPC.
const GRPC_CONTENT_TYPE: &[u8] = b"application/grpc";

// Codes of gRPC.
const INVALID_ARGUMENT: &str = "3";
const RESOURCE_EXHAUSTED: &str = "8";
const INTERNAL: &str = "13";

/// Why a request was not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The limit denied it.
    Limit(Decision),
    /// There is no usable key.
    Key(KeyError),
    /// The quota of the request cannot be enforced: a fault of the program, or of what it has
    /// loaded, which only its logs need.
    Quota(QuotaError),
}

/// For logs.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(decision) => decision.fmt(f),
            Self::Key(error) => error.fmt(f),
            Self::Quota(error) => error.fmt(f),
        }
    }
}

/// What a limit says of a request that it does not let through.
pub(super) struct LimitRefusal<'a> {
    pub(super) name: &'a str,
    pub(super) quoted: &'a LimitName,
    pub(super) reason: Reason,
    pub(super) status: StatusCode,
}

impl<'a> LimitRefusal<'a> {
    /// Of the request with this head.
    pub(super) fn to<'h>(self, head: &Head<'h>) -> Denial<'h>
    where
        'a: 'h,
    {
        let Self { name, quoted, reason, status } = self;
        let content_type = head.headers().get(CONTENT_TYPE);
        let grpc = content_type.filter(|value| is_grpc(value));
        Denial { name, quoted, reason, status, grpc, head: *head }
    }
}

/// A request that was not let through. Displays as [`Denial::line`].
#[derive(Clone)]
pub struct Denial<'a> {
    name: &'a str,
    quoted: &'a LimitName,
    reason: Reason,
    status: StatusCode,
    grpc: Option<&'a HeaderValue>,
    head: Head<'a>,
}

impl<'a> Denial<'a> {
    /// The head of the request: to log which client was denied, or to answer in the type that it
    /// accepts.
    ///
    /// Clients choose what is in it. `{:?}` of a field's value, a `str` or a
    /// [`Key::shown`](crate::Key::shown) is one line with control characters escaped; the value of
    /// a field can be long, and can be a secret.
    ///
    /// ```
    /// use std::net::SocketAddr;
    ///
    /// use tidegate_engine::tower::{RateLimitLayer, RequestLimit, keys};
    /// use tidegate_engine::{Key, Limiter, Quota};
    ///
    /// # mod axum { pub mod extract { #[derive(Clone)] pub struct ConnectInfo<T>(pub T); } }
    /// use axum::extract::ConnectInfo;
    ///
    /// let limiter = Limiter::builder(Quota::per_minute(600)).build()?;
    /// let layer = RateLimitLayer::new(RequestLimit::new("per-key", limiter, keys::api_key()))
    ///     .answer(|denial| {
    ///         let head = denial.head();
    ///         let peer = head.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0);
    ///         let key = head.headers().get("x-api-key").map(|key| key.as_bytes());
    ///         let key = key.unwrap_or_default().shown(); // at most 128 bytes of it
    ///         eprintln!("{key:?} at {peer:?}: {:?} {}", denial.name(), denial.reason());
    ///         denial.response::<String>()
    ///     });
    /// # let _ = layer;
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    #[must_use]
    pub fn head(&self) -> Head<'a> {
        self.head
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
            Reason::Key(_) | Reason::Quota(_) => None,
        }
    }

    /// The status of the default response in HTTP: 429 from a limit, 500 for a quota that cannot be
    /// enforced, else [`KeyError::status`].
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

    /// Whether the request has the method HEAD.
    pub(super) fn is_to_head(&self) -> bool {
        self.head.method() == Method::HEAD
    }

    /// One line that says why, such as `rate limit "per-key" exceeded: retry after 3 s`
    /// (seconds are rounded up). Printable ASCII: in the limit's name, quotes and backslashes are
    /// escaped by a backslash, and what else is not printable ASCII is a `?`. So the line's `Debug`
    /// form is a string of JSON.
    #[must_use]
    pub fn line(&self) -> String {
        self.to_string()
    }

    /// The default response, with an empty body instead of [`Denial::line`]: [`Denial::status`], or
    /// in gRPC a trailers-only response with `RESOURCE_EXHAUSTED`, `INVALID_ARGUMENT` or
    /// `INTERNAL`, and the line as its message. If the server is at fault, the response has the
    /// [`Reason`] as an extension, for outer layers that log.
    #[must_use]
    pub fn response<B: Default>(&self) -> Response<B> {
        let mut response = Response::new(B::default());
        if self.status.is_server_error() {
            response.extensions_mut().insert(self.reason);
        }
        let Some(content_type) = self.grpc else {
            *response.status_mut() = self.status;
            return response;
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, content_type.clone());
        headers.insert(GRPC_STATUS, HeaderValue::from_static(self.grpc_status()));
        // Printable ASCII is always a value.
        if let Ok(message) = HeaderValue::try_from(percent_encoded(&self.line())) {
            headers.insert(GRPC_MESSAGE, message);
        }
        response
    }

    /// The gRPC status code.
    fn grpc_status(&self) -> &'static str {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => RESOURCE_EXHAUSTED,
            status if status.is_server_error() => INTERNAL,
            _ => INVALID_ARGUMENT,
        }
    }
}

/// Without the head, whose fields can be secrets.
impl fmt::Debug for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denial")
            .field("name", &self.name)
            .field("reason", &self.reason)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// [`Denial::line`].
impl fmt::Display for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate limit {}", self.quoted.quoted())?;
        match self.reason {
            Reason::Limit(decision) => match decision.retry_after() {
                Some(wait) => write!(f, " exceeded: retry after {} s", seconds_up(wait)),
                None => f.write_str(" exceeded: waiting does not help"),
            },
            Reason::Key(error) => write!(f, ": {error}"),
            Reason::Quota(_) => f.write_str(": its quota cannot be enforced"),
        }
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

/// A line of printable ASCII as a message of gRPC, in which `%` begins an escape.
fn percent_encoded(line: &str) -> String {
    line.replace('%', "%25")
}
