//! The header fields of an answer, written by the engine's `headers`.

use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_engine::headers::{LimitName, POLICY, RateLimitFields, STATE, seconds_up};
use tidegate_engine::{Decision, Quota};

/// Adds what a client needs to pace itself: `RateLimit-Policy`, `RateLimit` and, on a denial that
/// time ends, `Retry-After`.
pub fn add(headers: &mut HeaderMap, name: &str, quota: &Quota, decision: &Decision) {
    // Units that are never granted, or never taken, have no time in which they come back.
    let has_window = !quota.is_blocked() && !quota.is_unlimited();
    let window = has_window.then(|| quota.debt_of(quota.burst_size()));
    let mut fields = RateLimitFields::with_capacity(1);
    fields.push(&LimitName::new(name), window, decision);
    for (name, value) in [(POLICY, fields.policy()), (STATE, fields.state())] {
        // Printable ASCII is always a header value.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    if let (false, Some(wait)) = (decision.is_allowed(), decision.retry_after()) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds_up(wait)));
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
    fn without_a_rate_there_is_no_window() {
        let [policy, state, retry] = headers("a", Quota::blocked(), 1);
        assert_eq!(policy.unwrap(), "\"a\";q=0");
        assert_eq!(state.unwrap(), "\"a\";r=0;t=0");
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
}
