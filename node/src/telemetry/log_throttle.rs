//! Lines of the log that clients can cause at will.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// Lets one line through a second, and counts the others.
#[derive(Debug, Default)]
pub struct LogThrottle {
    last: Option<Instant>,
    left_out: u64,
}

impl LogThrottle {
    pub const fn new() -> Self {
        Self { last: None, left_out: 0 }
    }

    /// Whether to say it: then with how many were left out since the last time.
    pub fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

/// The throttle of a line that all connections can cause.
#[derive(Debug)]
pub struct SharedLogThrottle(Mutex<LogThrottle>);

impl SharedLogThrottle {
    pub const fn new() -> Self {
        Self(Mutex::new(LogThrottle::new()))
    }

    /// See [`LogThrottle::admit`].
    pub fn admit(&self) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).admit(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_says_how_many_it_stands_for() {
        let (mut throttle, start) = (LogThrottle::default(), Instant::now());
        let mut at = |millis| throttle.admit(start + Duration::from_millis(millis));
        assert_eq!(
            [0, 10, 990, 1_000, 2_500].map(&mut at),
            [Some(0), None, None, Some(2), Some(0)]
        );
    }
}
