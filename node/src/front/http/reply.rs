//! Decisions as JSON, written directly: no part of one is ever escaped.

use tidegate_engine::Decision;

use crate::front::units::millis_up;

/// The bytes that a decision takes with figures of usual length.
pub const DECISION_BYTES: usize = 96;
/// The most that one takes: four integers of 16 digits, and what is around them.
const MAX_DECISION_BYTES: usize = 192;

/// The largest integer that every client reads exactly: numbers of JavaScript are doubles.
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Appends a decision. Its figures are at most [`MAX_INTEGER`].
pub fn decision(out: &mut Vec<u8>, decision: &Decision) {
    let allowed = decision.is_allowed();
    let mut text = Text { bytes: [0; MAX_DECISION_BYTES], len: 0 };
    text.push(if allowed { b"{\"allowed\":true" } else { b"{\"allowed\":false" });
    text.number(b",\"limit\":", decision.limit());
    text.number(b",\"remaining\":", decision.remaining());
    match decision.retry_after() {
        Some(wait) => text.number(b",\"retry_after_ms\":", millis_up(wait)),
        None => text.push(b",\"retry_after_ms\":null"),
    }
    text.number(b",\"reset_after_ms\":", millis_up(decision.reset_after()));
    text.push(b"}");
    out.extend_from_slice(&text.bytes[..text.len]);
}

/// A short text: unlike a vector it never grows.
struct Text {
    bytes: [u8; MAX_DECISION_BYTES],
    len: usize,
}

impl Text {
    #[inline]
    fn push(&mut self, part: &[u8]) {
        let end = self.len + part.len();
        self.bytes[self.len..end].copy_from_slice(part);
        self.len = end;
    }

    #[inline]
    fn number(&mut self, name: &[u8], value: u64) {
        self.push(name);
        self.push(itoa::Buffer::new().format(value.min(MAX_INTEGER)).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidegate_engine::{Limiter, ManualClock, Quota};

    use super::{DECISION_BYTES, MAX_INTEGER, decision};

    #[test]
    fn a_decision_is_an_object_of_five_fields() {
        for (quota, cost, expected) in [
            (Quota::per_second(100).burst(200), 1, (true, 200, 199, json!(0), 10)),
            (Quota::per_day(1), 2, (false, 1, 1, Value::Null, 0)),
            (Quota::unlimited(), 1, (true, MAX_INTEGER, MAX_INTEGER, json!(0), 0)),
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
            assert!(limit == MAX_INTEGER || out.len() <= DECISION_BYTES);
        }
    }
}
