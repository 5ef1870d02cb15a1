//! The rate limit fields of an answer, in the buffer of the answer.

use std::fmt::{self, Write};
use std::ops::Range;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_engine::headers::{POLICY, STATE, seconds_up, write_policy, write_state};
use tidegate_engine::{Decision, Quota};

const POLICY_NAME: HeaderName = HeaderName::from_static(POLICY);
const STATE_NAME: HeaderName = HeaderName::from_static(STATE);

/// The bytes that both fields take with a name of usual length.
pub const FIELDS_BYTES: usize = 96;

/// Where in the text of an answer the values of its fields are.
#[derive(Debug)]
pub struct Fields {
    policy: Range<usize>,
    state: Range<usize>,
}

impl Fields {
    /// Appends the values of `RateLimit-Policy` and `RateLimit`.
    pub fn write(text: &mut Vec<u8>, name: &str, quota: &Quota, decision: &Decision) -> Self {
        // Units that are never granted, or never taken, have no time in which they come back.
        let has_window = !quota.is_blocked() && !quota.is_unlimited();
        let window = has_window.then(|| quota.debt_of(quota.burst_size()));
        let start = text.len();
        // A vector takes all that is written.
        let _ = write_policy(&mut Utf8(text), name, window, decision);
        let policy = start..text.len();
        let _ = write_state(&mut Utf8(text), name, decision);
        Self { state: policy.end..text.len(), policy }
    }

    /// Adds what a client needs to pace itself: the two fields, which are in `text`, and
    /// `Retry-After` on a denial that time ends.
    pub fn add_to(self, headers: &mut HeaderMap, text: &Bytes, decision: &Decision) {
        for (name, value) in [(POLICY_NAME, self.policy), (STATE_NAME, self.state)] {
            // Printable ASCII is always a header value.
            if let Ok(value) = HeaderValue::from_maybe_shared(text.slice(value)) {
                headers.insert(name, value);
            }
        }
        if let (false, Some(wait)) = (decision.is_allowed(), decision.retry_after()) {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds_up(wait)));
        }
    }
}

/// Bytes to which text is written.
struct Utf8<'a>(&'a mut Vec<u8>);

impl Write for Utf8<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.0.extend_from_slice(part.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidegate_engine::headers::{LimitName, RateLimitFields};
    use tidegate_engine::{Limiter, ManualClock, Quota};

    use super::{Fields, HeaderMap};

    fn headers(name: &str, quota: Quota, cost: u64) -> [Option<String>; 3] {
        let limiter =
            Limiter::builder(quota).capacity(1).clock(ManualClock::new()).build().unwrap();
        let decision = limiter.check_n("k", cost);
        let mut text = b"{}".to_vec();
        let fields = Fields::write(&mut text, name, &quota, &decision);
        let mut headers = HeaderMap::new();
        fields.add_to(&mut headers, &Bytes::from(text), &decision);
        ["ratelimit-policy", "ratelimit", "retry-after"]
            .map(|name| headers.get(name).map(|value| value.to_str().unwrap().to_owned()))
    }

    #[test]
    fn seconds_are_rounded_up() {
        let quota = Quota::per_second(100).burst(201);
        let [policy, state, retry] = headers("default", quota, 1);
        assert_eq!(policy.unwrap(), "\"default\";q=201;w=3");
        assert_eq!(state.unwrap(), "\"default\";r=200;t=1");
        assert_eq!(retry, None);
    }

    #[test]
    fn a_cost_that_never_fits_has_no_time_to_retry() {
        let [_, state, retry] = headers("a", Quota::per_second(1).burst(1), 2);
        assert_eq!(state.unwrap(), "\"a\";r=1;t=0");
        assert_eq!(retry, None);
    }

    #[test]
    fn without_a_rate_there_is_no_window() {
        let [policy, state, retry] = headers("a", Quota::blocked(), 1);
        assert_eq!(policy.unwrap(), "\"a\";q=0");
        assert_eq!(state.unwrap(), "\"a\";r=0");
        assert_eq!(retry, None);
        let [policy, state, _] = headers("a", Quota::unlimited(), 1);
        assert_eq!(policy.unwrap(), "\"a\";q=999999999999999");
        assert_eq!(state.unwrap(), "\"a\";r=999999999999999;t=0");
    }

    #[test]
    fn names_are_quoted_and_numbers_stay_in_range() {
        let quota = Quota::per_second(1_000_000_000).burst(1 << 56);
        let [policy, state, _] = headers("a\"b\\", quota, 1);
        assert_eq!(policy.unwrap(), "\"a\\\"b\\\\\";q=999999999999999;w=72057595");
        assert_eq!(state.unwrap(), "\"a\\\"b\\\\\";r=999999999999999;t=1");
    }

    #[test]
    fn fields_are_those_of_the_engine() {
        let names = ["default", "", "a b~", "a\"b\\", "caf\u{e9} \u{1f600}", "\r\n\t\u{7f}\0"];
        for name in names {
            for quota in [Quota::per_day(7), Quota::per_second(100).burst(201), Quota::blocked()] {
                let limiter = Limiter::builder(quota).capacity(1).clock(ManualClock::new());
                let decision = limiter.build().unwrap().check_n("k", 3);
                let window = (!quota.is_blocked()).then(|| quota.debt_of(quota.burst_size()));
                let mut fields = RateLimitFields::default();
                fields.push(&LimitName::new(name), window, &decision);
                let [policy, state, _] = headers(name, quota, 3);
                assert_eq!(policy.as_deref(), Some(fields.policy()), "{name:?}");
                assert_eq!(state.as_deref(), Some(fields.state()), "{name:?}");
            }
        }
    }
}
