//! `RateLimit-Policy`, `RateLimit` and `Retry-After`.

use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_engine::{Decision, Quota};

use crate::units::seconds_up;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// The largest integer a structured field can hold.
const MAX_FIELD_INTEGER: u64 = 999_999_999_999_999;

/// Adds what a client needs to pace itself. `name` is printable ASCII.
pub fn add(headers: &mut HeaderMap, name: &str, quota: &Quota, decision: &Decision) {
    let name = quoted(name);
    let burst = quota.burst_size();
    let (q, w) = (integer(burst), integer(seconds_up(quota.debt_of(burst))));
    insert(headers, POLICY, &format!("{name};q={q};w={w}"));
    let r = integer(decision.remaining());
    let t = integer(seconds_up(decision.reset_after()));
    insert(headers, STATE, &format!("{name};r={r};t={t}"));
    if let (false, Some(wait)) = (decision.is_allowed(), decision.retry_after()) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds_up(wait)));
    }
}

/// A string of a structured field.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

fn integer(value: u64) -> u64 {
    value.min(MAX_FIELD_INTEGER)
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // Printable ASCII is always a header value.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::{HeaderMap, add};
    use tidegate_engine::{Limiter, ManualClock, Quota};

    fn headers(name: &str, quota: Quota, cost: u64) -> [Option<String>; 3] {
        let limiter =
            Limiter::builder(quota).capacity(1).clock(ManualClock::new()).build().unwrap();
        let mut headers = HeaderMap::new();
        add(&mut headers, name, &quota, &limiter.check_n("k", cost));
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
    fn names_are_quoted_and_numbers_stay_in_range() {
        let quota = Quota::per_second(1_000_000_000).burst(1 << 56);
        let [policy, state, _] = headers("a\"b\\", quota, 1);
        assert_eq!(policy.unwrap(), "\"a\\\"b\\\\\";q=999999999999999;w=72057595");
        assert_eq!(state.unwrap(), "\"a\\\"b\\\\\";r=999999999999999;t=1");
    }
}
