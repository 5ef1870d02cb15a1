//! The header fields of a response, written by [`headers`].

use core::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use crate::base::decision::Decision;
use crate::base::headers::{self, LimitName, RateLimitFields, seconds_up};

const POLICY: HeaderName = HeaderName::from_static(headers::POLICY);
const STATE: HeaderName = HeaderName::from_static(headers::STATE);
const LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The fields of one answer, as of when the request was decided on.
#[derive(Debug)]
pub(super) struct Fields {
    lists: RateLimitFields,
    retry_after: Option<u64>,
    legacy: Option<[u64; 3]>,
}

impl Fields {
    /// Fields with room for this number of limits of names of usual length.
    pub(super) fn new(limits: usize) -> Self {
        let lists = RateLimitFields::with_capacity(limits);
        Self { lists, retry_after: None, legacy: None }
    }

    /// Adds a limit to the lists.
    pub(super) fn limit(
        &mut self,
        name: &LimitName,
        window: Option<Duration>,
        decision: &Decision,
    ) {
        self.lists.push(name, window, decision);
    }

    /// Says when to come back; `None` where it makes no sense.
    pub(super) fn retry_after(&mut self, wait: Option<Duration>) {
        self.retry_after = wait.map(seconds_up);
    }

    /// Says what the older fields have room for.
    pub(super) fn legacy(&mut self, decision: Option<Decision>) {
        self.legacy = decision.as_ref().map(headers::figures);
    }

    /// Adds items to the lists; leaves the fields that can stand only once where they do.
    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        for (name, list) in [(POLICY, self.lists.policy()), (STATE, self.lists.state())] {
            // Printable ASCII is always a value.
            if let Ok(value) = HeaderValue::from_str(list) {
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

/// A map that is full stays as it is: the answer matters more than what it states about the limit.
fn add(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    let _ = headers.try_append(name, value);
}

fn add_once(headers: &mut HeaderMap, name: HeaderName, number: u64) {
    if !headers.contains_key(&name) {
        add(headers, name, HeaderValue::from(number));
    }
}
