//! Decisions as JSON, written directly: no part of one is ever escaped.

use tidegate_engine::Decision;

use crate::units::millis_up;

/// The bytes that a decision takes with figures of usual length.
pub const DECISION_BYTES: usize = 96;

/// Appends a decision.
pub fn decision(out: &mut Vec<u8>, decision: &Decision) {
    let allowed = decision.is_allowed();
    out.extend_from_slice(if allowed { b"{\"allowed\":true" } else { b"{\"allowed\":false" });
    number(out, b",\"limit\":", decision.limit());
    number(out, b",\"remaining\":", decision.remaining());
    match decision.retry_after() {
        Some(wait) => number(out, b",\"retry_after_ms\":", millis_up(wait)),
        None => out.extend_from_slice(b",\"retry_after_ms\":null"),
    }
    number(out, b",\"reset_after_ms\":", millis_up(decision.reset_after()));
    out.push(b'}');
}

fn number(out: &mut Vec<u8>, name: &[u8], value: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidegate_engine::{Limiter, ManualClock, Quota};

    use super::{DECISION_BYTES, decision};

    #[test]
    fn a_decision_is_an_object_of_five_fields() {
        for (quota, cost, expected) in [
            (Quota::per_second(100).burst(200), 1, (true, 200, 199, json!(0), 10)),
            (Quota::per_day(1), 2, (false, 1, 1, Value::Null, 0)),
            (Quota::unlimited(), 1, (true, u64::MAX, u64::MAX, json!(0), 0)),
            (Quota::blocked(), 1, (false, 0, 0, Value::Null, 0)),
        ] {
            let limiter = Limiter::builder(quota).capacity(1).clock(ManualClock::new());
            let mut out = Vec::new();
            decision(&mut out, &limiter.build().unwrap().check_n("k", cost));
            let (allowed, limit, remaining, retry, reset) = expected;
            let expected = json!({
                "allowed": allowed,
                "limit": limit,
                "remaining": remaining,
                "retry_after_ms": retry,
                "reset_after_ms": reset,
            });
            assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), expected, "{quota}");
            assert!(limit == u64::MAX || out.len() <= DECISION_BYTES);
        }
    }
}
