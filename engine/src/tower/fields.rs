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

/// Bytes that an item takes with a name of usual length and figures of six digits.
const ITEM_BYTES: usize = 48;

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

/// The fields of one answer, as of when the request was decided on.
#[derive(Debug)]
pub(super) struct Fields {
    policy: String,
    state: String,
    retry_after: Option<u64>,
    legacy: Option<[u64; 3]>,
}

impl Fields {
    /// Fields with room for so many limits of names of usual length.
    pub(super) fn new(limits: usize) -> Self {
        let list = || String::with_capacity(limits.saturating_mul(ITEM_BYTES));
        Self { policy: list(), state: list(), retry_after: None, legacy: None }
    }

    /// Adds a limit to the lists.
    pub(super) fn limit(
        &mut self,
        name: &FieldName,
        window: Option<Duration>,
        decision: &Decision,
    ) {
        let [limit, remaining, reset] = figures(decision);
        let window = window.map(|window| ('w', integer(seconds_up(window))));
        append(&mut self.policy, name, [Some(('q', limit)), window]);
        append(&mut self.state, name, [Some(('r', remaining)), Some(('t', reset))]);
    }

    /// Says when to come back; `None` where it makes no sense.
    pub(super) fn retry_after(&mut self, wait: Option<Duration>) {
        self.retry_after = wait.map(seconds_up);
    }

    /// Says what the older fields have room for.
    pub(super) fn legacy(&mut self, decision: Option<Decision>) {
        self.legacy = decision.as_ref().map(figures);
    }

    /// Adds items to the lists; leaves the fields that can stand only once where they do.
    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        for (name, list) in [(POLICY, self.policy), (STATE, self.state)] {
            // Printable ASCII is always a value.
            if let Ok(value) = HeaderValue::try_from(list) {
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

/// The limit, what remains of it, and the seconds until all of it does.
fn figures(decision: &Decision) -> [u64; 3] {
    let reset = seconds_up(decision.reset_after());
    [decision.limit(), decision.remaining(), reset].map(integer)
}

/// Appends `"name";a=1;b=2` to a list.
fn append(list: &mut String, FieldName(name): &FieldName, parameters: [Option<(char, u64)>; 2]) {
    let comma = if list.is_empty() { "" } else { ", " };
    // Writing to a string can not fail.
    let _ = write!(list, "{comma}{name}");
    for (parameter, value) in parameters.into_iter().flatten() {
        let _ = write!(list, ";{parameter}={value}");
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

fn integer(value: u64) -> u64 {
    value.min(MAX_FIELD_INTEGER)
}

/// Whole seconds that are enough.
fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
