//! `POST /v1/check`.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use tidegate_engine::{Decision, Quota};

use super::answer::{Answer, Code, error, json};
use super::headers;
use super::router::Routes;
use crate::config::INLINE;
use crate::meter::Meter;
use crate::quota::{Unenforceable, WrittenQuota};
use crate::service::{CheckError, MAX_KEY_BYTES, Request, Rule, Service, Verdict};
use crate::units::millis_up;

/// The largest body, in bytes: far more than the longest key takes, so that a key beyond its bound
/// has an error of its own.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// How long a client may take to send the body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn answer(
    Routes { service, readiness, meter, .. }: &Routes,
    request: hyper::Request<Incoming>,
) -> Answer {
    let body = match body(request.into_body()).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    // The body is read first: what has arrived whole, hyper watches for a client that hangs up.
    if !readiness.joined().await {
        return error(Code::Stopping, "this node stops and has never joined its cluster");
    }
    service.gossip().current().await;
    match decide(service, meter, &body) {
        Ok(answer) => answer,
        Err(problem) => error(problem.code, &problem.text),
    }
}

/// What is wrong with a check.
#[derive(Debug)]
pub struct Problem {
    code: Code,
    /// In one line.
    pub text: String,
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { code: Code::InvalidRequest, text }
    }
}

async fn body(body: Incoming) -> Result<Bytes, Answer> {
    let too_large = || {
        let problem = format!("the body is larger than {MAX_BODY_BYTES} bytes");
        error(Code::BodyTooLarge, &problem)
    };
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(failed)) if failed.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(error(Code::BodyIncomplete, "the body did not arrive in full")),
        Err(_) => Err(error(Code::BodyTimeout, "the body took too long to arrive")),
    }
}

/// Decides the check in a body.
///
/// # Errors
/// What is wrong with it.
pub fn decide(service: &Service, meter: &Meter, body: &[u8]) -> Result<Answer, Problem> {
    // The deserialiser would also accept the fields in an array.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err("expected a JSON object".to_owned().into());
    }
    let request: CheckRequest = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let quota;
    let (rule, name) = match request.rule()? {
        Asked::Named(name) => (Rule::Named(name), name),
        Asked::Inline(given) => {
            quota = given;
            (Rule::Inline(&quota), INLINE)
        }
    };
    let asked = Request { rule, key: request.key.as_bytes(), cost: request.cost };
    let verdict = service.check(&asked, meter);
    let verdict =
        verdict.map_err(|error| refusal(service, error, name, request.burst.is_some()))?;
    let Verdict { decision, quota } = verdict;
    let status = if decision.is_allowed() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let mut answer = json(status, &CheckReply::from(&decision));
    headers::add(answer.headers_mut(), name, &quota, &decision);
    Ok(answer)
}

fn refusal(service: &Service, error: CheckError, limit: &str, has_burst: bool) -> Problem {
    match error {
        CheckError::Key => format!("key: must be 1 to {MAX_KEY_BYTES} bytes").into(),
        CheckError::UnknownLimit => unknown_limit(service, limit),
        CheckError::Quota(error) => {
            let problem = Unenforceable(error);
            format!("{}: {problem}", problem.field(has_burst)).into()
        }
    }
}

fn unknown_limit(service: &Service, limit: &str) -> Problem {
    let text = match service.nearest_limit(limit) {
        Some(near) => format!("limit: there is no limit `{limit}`, did you mean `{near}`?"),
        None => format!("limit: there is no limit `{limit}`"),
    };
    Problem { code: Code::UnknownLimit, text }
}

/// The body of a check. Each error names its field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckRequest {
    #[serde(deserialize_with = "key")]
    key: String,
    #[serde(default = "one", deserialize_with = "cost")]
    cost: u64,
    #[serde(default, deserialize_with = "limit")]
    limit: Option<String>,
    #[serde(default, deserialize_with = "rate")]
    rate: Option<WrittenQuota>,
    #[serde(default, deserialize_with = "burst")]
    burst: Option<u64>,
}

enum Asked<'a> {
    Named(&'a str),
    Inline(Quota),
}

impl CheckRequest {
    fn rule(&self) -> Result<Asked<'_>, String> {
        match (&self.limit, self.rate, self.burst) {
            (Some(name), None, None) => Ok(Asked::Named(name)),
            (None, Some(rate), burst) => {
                rate.with_burst(burst).map(Asked::Inline).map_err(|error| format!("burst: {error}"))
            }
            (None, None, Some(_)) => Err("rate: missing, required with burst".to_owned()),
            (None, None, None) => Err("give either limit or rate".to_owned()),
            (Some(_), ..) => Err("give either limit, or rate and burst, not both".to_owned()),
        }
    }
}

fn one() -> u64 {
    1
}

fn key<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map_err(|_| D::Error::custom("key: expected a string"))
}

fn cost<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    integer(from, "cost")
}

fn limit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(from);
    name.map(Some).map_err(|_| D::Error::custom("limit: expected a string"))
}

fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<WrittenQuota>, D::Error> {
    let text = String::deserialize(from)
        .map_err(|_| D::Error::custom("rate: expected a string such as \"100/s\""))?;
    text.parse().map(Some).map_err(|error| D::Error::custom(format!("rate: {error}")))
}

fn burst<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    integer(from, "burst").map(Some)
}

fn integer<'de, D: Deserializer<'de>>(from: D, field: &str) -> Result<u64, D::Error> {
    u64::deserialize(from).map_err(|_| {
        D::Error::custom(format!("{field}: expected an integer from 0 to {}", u64::MAX))
    })
}

#[derive(Debug, Serialize)]
struct CheckReply {
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
}

impl From<&Decision> for CheckReply {
    fn from(decision: &Decision) -> Self {
        Self {
            allowed: decision.is_allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after_ms: decision.retry_after().map(millis_up),
            reset_after_ms: millis_up(decision.reset_after()),
        }
    }
}
