//! `POST /v1/check-batch`: many checks in one body, decided one after another.
//!
//! All are read before any is decided, so a body that is refused has charged nothing. Checks that
//! follow each other on the same terms are a run, which the service decides at once.

use std::fmt;

use hyper::StatusCode;
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tidegate_engine::KeyHash;

use super::answer::{Answer, Code, Problem, content, error, write_error};
use super::asked::{Asked, LimitRef, at};
use super::routes::Routes;
use super::{body, reply};
use crate::service::{CheckError, Service};
use crate::telemetry::meter::Meter;

/// The most checks of a batch.
pub const MAX_CHECKS: usize = 1_000;
/// Checks for which there is room before any is read: a body may have fewer than it has room for.
const ROOM_CHECKS: usize = 128;

pub async fn answer(node: &Routes, body: Incoming) -> Answer {
    let body = match node.receive(body, node.bounds.batch_bytes).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    match decide(&node.service, &node.meter, &body.bytes) {
        Ok(results) => content(StatusCode::OK, "application/json", results),
        Err(problem) => error(problem.code, &problem.text),
    }
}

/// Decides the checks in a body, as if they came one after another.
///
/// # Errors
/// What is wrong with the body; nothing is charged.
pub fn decide(service: &Service, meter: &Meter, bytes: &[u8]) -> Result<Vec<u8>, Problem> {
    let batch = Batch::read(service, body::text(bytes)?)?;
    let mut decisions = Vec::new();
    let mut suggests = true;
    let mut out = Vec::with_capacity((batch.hashes.len() + 1) * reply::DECISION_BYTES);
    out.extend_from_slice(b"{\"results\":[");
    let mut hashes = batch.hashes.as_slice();
    for Run { terms, checks, has_keys } in &batch.runs {
        let decided = if *has_keys {
            let (run, rest) = hashes.split_at(*checks);
            hashes = rest;
            service.check_many(terms.limit(), run, meter, &mut decisions).map(|_| ())
        } else {
            Err(CheckError::Key)
        };
        match decided {
            Ok(()) => {
                for decision in &decisions {
                    reply::decision(&mut out, decision);
                    out.push(b',');
                }
            }
            Err(error) => {
                let Problem { code, text } = terms.refusal(service, error, suggests);
                service.metrics().errors().count_http(code.name(), *checks);
                // A limit that is near is looked for once: that takes a look at all names.
                suggests &= error != CheckError::UnknownLimit;
                let start = out.len();
                write_error(&mut out, code, &text);
                out.push(b',');
                let end = out.len();
                for _ in 1..*checks {
                    out.extend_from_within(start..end);
                }
            }
        }
    }
    // The last comma: there is at least one check.
    out.pop();
    out.extend_from_slice(b"]}");
    Ok(out)
}

/// The checks of a body.
#[derive(Debug, Default)]
struct Batch<'a> {
    /// Keys and costs of the runs that have keys, one run after the other.
    hashes: Vec<(KeyHash, u64)>,
    runs: Vec<Run<'a>>,
    has_too_many: bool,
}

/// Checks that follow each other on the same terms.
#[derive(Debug)]
struct Run<'a> {
    terms: LimitRef<'a>,
    checks: usize,
    /// Whether their keys are in range, or all are out of it.
    has_keys: bool,
}

impl<'a> Batch<'a> {
    fn read(service: &Service, body: &'a str) -> Result<Self, Problem> {
        let mut batch = Self { hashes: Vec::with_capacity(ROOM_CHECKS), ..Self::default() };
        let mut json = serde_json::Deserializer::from_str(body);
        let read = Object(&mut batch, service).deserialize(&mut json).and_then(|()| json.end());
        match read {
            Ok(()) => Ok(batch),
            Err(_) if batch.has_too_many => {
                let text = format!("checks: more than {MAX_CHECKS}");
                Err(Problem { code: Code::TooManyChecks, text })
            }
            Err(error) => Err(error.to_string().into()),
        }
    }

    fn add(&mut self, service: &Service, mut asked: Asked<'a>) -> Result<(), String> {
        let hash = service.key(asked.key.as_bytes()).ok();
        let has_keys = hash.is_some();
        match self.runs.last_mut() {
            Some(run) if run.has_keys == has_keys && run.terms.are_of(&asked) => run.checks += 1,
            _ => self.runs.push(Run { terms: asked.terms()?, checks: 1, has_keys }),
        }
        if let Some(hash) = hash {
            self.hashes.push((hash, asked.cost));
        }
        Ok(())
    }
}

/// Reads `{"checks":[...]}` into a batch.
struct Object<'b, 'a>(&'b mut Batch<'a>, &'b Service);

impl<'a> DeserializeSeed<'a> for Object<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Object<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<Field>()?.is_some() {
            if !self.0.runs.is_empty() {
                return Err(Error::duplicate_field("checks"));
            }
            map.next_value_seed(Array(&mut *self.0, self.1))?;
        }
        if self.0.runs.is_empty() { Err(Error::missing_field("checks")) } else { Ok(()) }
    }
}

/// The one field of a body.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Checks,
}

/// Reads `[...]` into a batch.
struct Array<'b, 'a>(&'b mut Batch<'a>, &'b Service);

impl<'a> DeserializeSeed<'a> for Array<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'a> Visitor<'a> for Array<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of checks")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut array: A) -> Result<(), A::Error> {
        let Self(batch, service) = self;
        for place in 0..MAX_CHECKS {
            let one = array.next_element().map_err(|error| Error::custom(at(place, error)))?;
            let Some(One(asked)) = one else {
                let is_empty = place == 0;
                let problem = || Error::custom(format_args!("checks: expected 1 to {MAX_CHECKS}"));
                return if is_empty { Err(problem()) } else { Ok(()) };
            };
            batch.add(service, asked).map_err(|error| Error::custom(at(place, error)))?;
        }
        batch.has_too_many = array.next_element::<IgnoredAny>()?.is_some();
        if batch.has_too_many { Err(Error::custom("too many")) } else { Ok(()) }
    }
}

/// One check of several. By itself [`Asked`] would also accept the fields in an array.
struct One<'a>(Asked<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for One<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(OneVisitor).map(One)
    }
}

struct OneVisitor;

impl<'de> Visitor<'de> for OneVisitor {
    type Value = Asked<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Asked<'de>, A::Error> {
        Asked::deserialize(MapAccessDeserializer::new(map))
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
