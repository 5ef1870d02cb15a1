//! Answers as JSON or text.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
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

/// A JSON answer that says what is wrong in one short line.
pub fn error(status: StatusCode, problem: &str) -> Answer {
    #[derive(Serialize)]
    struct Problem {
        error: String,
    }
    let printable = problem.chars().map(|c| if c.is_control() { '?' } else { c });
    json(status, &Problem { error: printable.take(MAX_ERROR_CHARS).collect() })
}

/// An answer of this media type.
pub fn content(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}
