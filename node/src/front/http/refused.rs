//! Requests and checks that are refused: counted by code, and logged where a limit is unknown.

use super::answer::{Answer, Code};
use crate::service::Service;
use crate::telemetry::log_throttle::SharedLogThrottle;

/// What is logged of what a client sends, in characters.
const MAX_LOGGED_CHARS: usize = 100;

/// The lines of the log about checks by limits that do not exist.
static UNKNOWN: SharedLogThrottle = SharedLogThrottle::new("checks by limits that do not exist");

/// Counts an answer that is an error.
pub fn count(service: &Service, answer: &Answer) {
    if let Some(code) = answer.extensions().get::<Code>() {
        service.metrics().errors().count_http(code.name(), 1);
    }
}

/// Logs that a check was refused, as no limit has this name.
pub fn log_unknown_limit(service: &Service, name: &str) {
    log_unknown(&UNKNOWN, service, name);
}

fn log_unknown(throttle: &'static SharedLogThrottle, service: &Service, name: &str) {
    if let Some(left_out) = throttle.admit() {
        let nearest = service.nearest_limit(name);
        let limit = logged(name.as_bytes());
        let problem = "a check is refused: no limit has this name";
        tracing::warn!(frontend = "http", limit, nearest, left_out, "{problem}");
    }
}

/// The beginning of what a client has sent, in printable characters.
pub fn logged(text: &[u8]) -> String {
    text.escape_ascii().take(MAX_LOGGED_CHARS).map(char::from).collect()
}

#[cfg(test)]
#[path = "refused_tests.rs"]
mod tests;
