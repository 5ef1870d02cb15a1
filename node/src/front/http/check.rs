//! `POST /v1/check`.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Incoming;

use super::answer::{Answer, Problem, content, error};
use super::asked::Asked;
use super::headers::Fields;
use super::routes::Routes;
use super::{body, headers, reply};
use crate::service::{Request, Service, Verdict};
use crate::telemetry::meter::Meter;

pub async fn answer(node: &Routes, body: Incoming) -> Answer {
    let body = match node.receive(body, node.bounds.body_bytes).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    match decide(&node.service, &node.meter, &body.bytes) {
        Ok(answer) => answer,
        Err(problem) => error(problem.code, &problem.text),
    }
}

/// Decides the check in a body.
///
/// # Errors
/// What is wrong with it.
pub fn decide(service: &Service, meter: &Meter, bytes: &[u8]) -> Result<Answer, Problem> {
    let body = body::text(bytes)?;
    // The deserialiser would also accept the fields in an array.
    if !body.trim_ascii_start().starts_with('{') {
        return Err("expected a JSON object".to_owned().into());
    }
    let mut asked: Asked<'_> = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let terms = asked.terms()?;
    let check = Request { limit: terms.limit(), key: asked.key.as_bytes(), cost: asked.cost };
    let verdict = service.check(&check, meter);
    let Verdict { decision, quota } =
        verdict.map_err(|error| terms.refusal(service, error, true))?;
    let status = if decision.is_allowed() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    // One buffer has the body and the fields.
    let mut text = Vec::with_capacity(reply::DECISION_BYTES + headers::FIELDS_BYTES);
    reply::decision(&mut text, &decision);
    let length = text.len();
    let fields = Fields::write(&mut text, terms.name(), &quota, &decision);
    let text = Bytes::from(text);
    let mut answer = content(status, "application/json", text.slice(..length));
    fields.add_to(answer.headers_mut(), &text, &decision);
    Ok(answer)
}
