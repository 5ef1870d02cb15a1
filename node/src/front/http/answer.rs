//! Answers as JSON or text.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

pub type Answer = Response<Full<Bytes>>;

/// The longest text of an error, in characters.
const MAX_ERROR_CHARS: usize = 256;

/// A JSON answer.
pub fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    // No type that is used as a body fails to serialise.
    let body = serde_json::to_vec(body).unwrap_or_default();
    content(status, "application/json", body)
}

/// A JSON answer that says what is wrong: in one short line for people, and by its code for
/// programs.
pub fn error(code: Code, problem: &str) -> Answer {
    let mut body = Vec::new();
    write_error(&mut body, code, problem);
    let mut answer = content(code.status(), "application/json", body);
    // By which it is counted.
    answer.extensions_mut().insert(code);
    answer
}

/// The same, as the last one of its connection: no answer would come to the next request.
pub fn last(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Whether it says that it is the last one.
pub fn is_last(answer: &Answer) -> bool {
    answer.headers().contains_key(CONNECTION)
}

/// Appends what is wrong as JSON.
pub fn write_error(out: &mut Vec<u8>, code: Code, problem: &str) {
    #[derive(Serialize)]
    struct Written {
        error: String,
        code: &'static str,
    }
    let printable = problem.chars().map(|c| if c.is_control() { '?' } else { c });
    let error = printable.take(MAX_ERROR_CHARS).collect();
    // Neither texts nor memory fail to be written.
    let _ = serde_json::to_writer(out, &Written { error, code: code.name() });
}

/// What is wrong with a check.
#[derive(Debug)]
pub struct Problem {
    pub code: Code,
    /// In one line.
    pub text: String,
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { code: Code::InvalidRequest, text }
    }
}

/// What is wrong with a request. Names and meanings stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    InvalidHost,
    InvalidRequest,
    BodyIncomplete,
    OriginNotAllowed,
    UnknownLimit,
    UnknownPath,
    NoCluster,
    MethodNotAllowed,
    BodyTimeout,
    BodyTooLarge,
    TooManyChecks,
    HostNotAllowed,
    NoRoom,
    TooManyConnections,
    Stopping,
}

impl Code {
    pub const ALL: [Self; 15] = [
        Self::InvalidHost,
        Self::InvalidRequest,
        Self::BodyIncomplete,
        Self::OriginNotAllowed,
        Self::UnknownLimit,
        Self::UnknownPath,
        Self::NoCluster,
        Self::MethodNotAllowed,
        Self::BodyTimeout,
        Self::BodyTooLarge,
        Self::TooManyChecks,
        Self::HostNotAllowed,
        Self::NoRoom,
        Self::TooManyConnections,
        Self::Stopping,
    ];

    /// The status that goes with it.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::InvalidHost | Self::InvalidRequest | Self::BodyIncomplete => {
                StatusCode::BAD_REQUEST
            }
            Self::OriginNotAllowed => StatusCode::FORBIDDEN,
            Self::UnknownLimit | Self::UnknownPath | Self::NoCluster => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge | Self::TooManyChecks => StatusCode::PAYLOAD_TOO_LARGE,
            Self::HostNotAllowed => StatusCode::MISDIRECTED_REQUEST,
            Self::NoRoom | Self::TooManyConnections | Self::Stopping => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidHost => "invalid_host",
            Self::InvalidRequest => "invalid_request",
            Self::BodyIncomplete => "body_incomplete",
            Self::OriginNotAllowed => "origin_not_allowed",
            Self::UnknownLimit => "unknown_limit",
            Self::UnknownPath => "unknown_path",
            Self::NoCluster => "no_cluster",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::BodyTimeout => "body_timeout",
            Self::BodyTooLarge => "body_too_large",
            Self::TooManyChecks => "too_many_checks",
            Self::HostNotAllowed => "host_not_allowed",
            Self::NoRoom => "no_room",
            Self::TooManyConnections => "too_many_connections",
            Self::Stopping => "stopping",
        }
    }
}

/// An answer of this media type.
pub fn content(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn codes_are_documented() {
        let documented = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/node.md");
        let documented = std::fs::read_to_string(documented).unwrap();
        for code in Code::ALL {
            let row = format!("| `{}` | {} |", code.name(), code.status().as_u16());
            assert!(documented.contains(&row), "{row}");
        }
    }
}
