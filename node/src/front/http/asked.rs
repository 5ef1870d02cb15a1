//! A check as clients write it: a JSON object.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use tidegate_engine::Quota;

use super::answer::{Code, Problem};
use super::refused::log_unknown_limit;
use crate::config::file::INLINE;
use crate::config::quota::{Unenforceable, WrittenQuota};
use crate::service::{CheckError, LimitSelector, MAX_KEY_BYTES, Service};

/// The object of a check. Each error names its field. Texts without escapes are borrowed. A field
/// that may be left out may be null.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked<'a> {
    #[serde(borrow, deserialize_with = "key")]
    pub key: Cow<'a, str>,
    #[serde(default = "one", deserialize_with = "cost")]
    pub cost: u64,
    #[serde(borrow, default, deserialize_with = "limit")]
    limit: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "rate")]
    rate: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "burst")]
    burst: Option<u64>,
}

/// The fields of [`Asked`], by which its errors begin.
const FIELDS: [&str; 5] = ["key", "cost", "limit", "rate", "burst"];

/// By what a check is decided, and how that is written.
#[derive(Debug)]
pub enum LimitRef<'a> {
    Named(Cow<'a, str>),
    Inline { rate: Cow<'a, str>, burst: Option<u64>, quota: Quota },
}

impl<'a> Asked<'a> {
    /// Takes the terms out.
    ///
    /// # Errors
    /// When there are none, or two, or the text of a rate is none.
    pub fn terms(&mut self) -> Result<LimitRef<'a>, String> {
        match (self.limit.take(), self.rate.take(), self.burst) {
            (Some(name), None, None) => Ok(LimitRef::Named(name)),
            (None, Some(rate), burst) => {
                let written: WrittenQuota =
                    rate.parse().map_err(|error| format!("rate: {error}"))?;
                let quota = written.with_burst(burst).map_err(|error| format!("burst: {error}"))?;
                Ok(LimitRef::Inline { rate, burst, quota })
            }
            (None, None, Some(_)) => Err("rate: missing, required with burst".to_owned()),
            (None, None, None) => Err("give either limit or rate".to_owned()),
            (Some(_), ..) => Err("give either limit, or rate and burst, not both".to_owned()),
        }
    }
}

impl LimitRef<'_> {
    /// Whether a check has the same, in the same words.
    pub fn are_of(&self, asked: &Asked<'_>) -> bool {
        match (self, &asked.limit, &asked.rate) {
            (Self::Named(name), Some(limit), None) => asked.burst.is_none() && name == limit,
            (Self::Inline { rate, burst, .. }, None, Some(other)) => {
                *burst == asked.burst && rate == other
            }
            _ => false,
        }
    }

    pub fn limit(&self) -> LimitSelector<'_> {
        match self {
            Self::Named(name) => LimitSelector::Named(name),
            Self::Inline { quota, .. } => LimitSelector::Inline(quota),
        }
    }

    /// The name of the limit in header fields.
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Inline { .. } => INLINE,
        }
    }

    /// Why a check is not decided; it names the limit nearest to an unknown one, which is logged,
    /// if it `suggests` any.
    pub fn refusal(&self, service: &Service, error: CheckError, suggests: bool) -> Problem {
        match error {
            CheckError::Key => format!("key: must be 1 to {MAX_KEY_BYTES} bytes").into(),
            CheckError::UnknownLimit => {
                let name = self.name();
                log_unknown_limit(service, name);
                unknown_limit(name, suggests.then(|| service.nearest_limit(name)).flatten())
            }
            CheckError::Quota(error) => {
                let problem = Unenforceable(error);
                let has_burst = matches!(self, Self::Inline { burst: Some(_), .. });
                format!("{}: {problem}", problem.field(has_burst)).into()
            }
        }
    }
}

fn unknown_limit(limit: &str, nearest: Option<&str>) -> Problem {
    let text = match nearest {
        Some(near) => format!("limit: there is no limit `{limit}`, did you mean `{near}`?"),
        None => format!("limit: there is no limit `{limit}`"),
    };
    Problem { code: Code::UnknownLimit, text }
}

/// What is wrong with the check at this place of several: `checks[3].cost: ...`, or
/// `checks[3]: ...` where no field is at fault.
pub fn at(place: usize, problem: impl fmt::Display) -> String {
    let problem = problem.to_string();
    let is_of = |field| problem.strip_prefix(field).is_some_and(|rest| rest.starts_with(": "));
    let joint = if FIELDS.into_iter().any(is_of) { "." } else { ": " };
    format!("checks[{place}]{joint}{problem}")
}

fn one() -> u64 {
    1
}

fn key<'de, D: Deserializer<'de>>(from: D) -> Result<Cow<'de, str>, D::Error> {
    text(from, "key: expected a string")
}

fn cost<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(integer(from, "cost", 0)?.unwrap_or_else(one))
}

fn limit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    text_or_null(from, "limit: expected a string")
}

fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    text_or_null(from, "rate: expected a string such as \"100/s\"")
}

fn burst<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    integer(from, "burst", 1)
}

fn integer<'de, D: Deserializer<'de>>(
    from: D,
    field: &str,
    least: u64,
) -> Result<Option<u64>, D::Error> {
    Option::deserialize(from).map_err(|error| {
        wrong(error, format_args!("{field}: expected an integer from {least} to {}", u64::MAX))
    })
}

fn text<'de, D: Deserializer<'de>>(from: D, problem: &str) -> Result<Cow<'de, str>, D::Error> {
    from.deserialize_str(TextVisitor).map_err(|error| wrong(error, problem))
}

fn text_or_null<'de, D: Deserializer<'de>>(
    from: D,
    problem: &str,
) -> Result<Option<Cow<'de, str>>, D::Error> {
    from.deserialize_option(TextOrNull).map_err(|error| wrong(error, problem))
}

/// What is wrong with a field: the problem where it has another value, else what is wrong with the
/// text, such as a control character or an end too early.
fn wrong<E: Error>(error: E, problem: impl fmt::Display) -> E {
    let text = error.to_string();
    let is_of_value = ["invalid type", "invalid value", "number out of range"];
    if is_of_value.iter().any(|kind| text.starts_with(kind)) { E::custom(problem) } else { error }
}

struct TextOrNull;

impl<'de> Visitor<'de> for TextOrNull {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or null")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(TextVisitor).map(Some)
    }
}

/// Reads a text, borrowed where it can be.
struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
