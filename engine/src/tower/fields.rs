//! The header fields that tell a client where it stands.
//!
//! `RateLimit-Policy` and `RateLimit` are lists of structured fields (RFC 9651): a string with
//! parameters that are integers.

use core::fmt::Write as _;
use core::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use crate::decision::Decision;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");
const LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer a structured field can hold.
const MAX_FIELD_INTEGER: u64 = 999_999_999_999_999;

/// A limit's name as a string of a structured field, quotes included.
#[derive(Clone, Debug)]
pub(super) struct FieldName(Box<str>);

impl FieldName {
    /// What is not printable ASCII can not stand in a field and becomes a `?`.
    pub(super) fn new(name: &str) -> Self {
        let mut quoted = String::with_capacity(name.len() + 2);
        quoted.push('"');
        for character in name.chars() {
            match character {
                '"' | '\\' => quoted.extend(['\\', character]),
                ' '..='~' => quoted.push(character),
                _ => quoted.push('?'),
            }
        }
        quoted.push('"');
        Self(quoted.into())
    }
}

/// The fields of one answer, made when the decision was.
#[derive(Debug)]
pub(super) struct Fields {
    policy: Option<HeaderValue>,
    state: Option<HeaderValue>,
    retry_after: Option<u64>,
    legacy: Option<[u64; 3]>,
}

impl Fields {
    pub(super) fn new(
        name: &FieldName,
        window: Option<Duration>,
        decision: &Decision,
        legacy: bool,
    ) -> Self {
        let limit = integer(decision.limit());
        let remaining = integer(decision.remaining());
        let reset = integer(seconds_up(decision.reset_after()));
        let wait = if decision.is_allowed() { None } else { decision.retry_after() };
        Self {
            policy: match window {
                Some(window) => item(name, ("q", limit), Some(("w", integer(seconds_up(window))))),
                None => item(name, ("q", limit), None),
            },
            state: item(name, ("r", remaining), Some(("t", reset))),
            retry_after: wait.map(seconds_up),
            legacy: legacy.then_some([limit, remaining, reset]),
        }
    }

    /// Adds an item to the lists; leaves the fields that can stand only once where they do.
    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        for (name, value) in [(POLICY, self.policy), (STATE, self.state)] {
            if let Some(value) = value {
                add(headers, name, value);
            }
        }
        if let Some(seconds) = self.retry_after {
            add_once(headers, RETRY_AFTER, seconds);
        }
        if let Some([limit, remaining, reset]) = self.legacy {
            add_once(headers, LEGACY_LIMIT, limit);
            add_once(headers, LEGACY_REMAINING, remaining);
            add_once(headers, LEGACY_RESET, reset);
        }
    }
}

/// A map that is full stays as it is: the answer matters more than what it tells of the limit.
fn add(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    let _ = headers.try_append(name, value);
}

fn add_once(headers: &mut HeaderMap, name: HeaderName, number: u64) {
    if !headers.contains_key(&name) {
        add(headers, name, HeaderValue::from(number));
    }
}

/// `"name";a=1;b=2`.
fn item(
    FieldName(name): &FieldName,
    first: (&str, u64),
    second: Option<(&str, u64)>,
) -> Option<HeaderValue> {
    /// Two parameters of one letter and 15 digits each.
    const PARAMETERS: usize = 2 * (3 + 15);
    let mut text = String::with_capacity(name.len() + PARAMETERS);
    text.push_str(name);
    for (parameter, value) in [Some(first), second].into_iter().flatten() {
        // Writing to a string can not fail.
        let _ = write!(text, ";{parameter}={value}");
    }
    // Printable ASCII is always a value.
    HeaderValue::try_from(text).ok()
}

fn integer(value: u64) -> u64 {
    value.min(MAX_FIELD_INTEGER)
}

/// Whole seconds that are enough.
fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
