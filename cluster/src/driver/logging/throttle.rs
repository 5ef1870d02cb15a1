//! How often lines of one kind are logged.

use std::time::Duration;

use tokio::time::Instant;

/// Between two lines of what others can cause as often as they like.
const THROTTLED_EVERY: Duration = Duration::from_secs(1);

/// A token bucket of lines: some at once, then one each time that a period has passed.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    /// When as many periods will have passed as lines were let through.
    until: Option<Instant>,
}

impl Allowance {
    /// Whether one more line is within `most` at once and one each `every`; if so, it is counted.
    pub(super) fn take(&mut self, every: Duration, most: u32, now: Instant) -> bool {
        let until = self.until.map_or(now, |until| until.max(now)) + every;
        let is_within = until.saturating_duration_since(now) <= every * most;
        if is_within {
            self.until = Some(until);
        }
        is_within
    }
}

/// Lets one line through a second, and counts the others.
#[derive(Debug, Default)]
pub(in crate::driver) struct LogThrottle {
    allowance: Allowance,
    left_out: u64,
}

impl LogThrottle {
    /// Whether to log it: then with how many were left out since the last time.
    pub(in crate::driver) fn admit(&mut self, now: Instant) -> Option<u64> {
        self.admit_each(THROTTLED_EVERY, now)
    }

    pub(super) fn admit_each(&mut self, every: Duration, now: Instant) -> Option<u64> {
        if !self.allowance.take(every, 1, now) {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_and_a_count_of_the_others() {
        let mut throttle = LogThrottle::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let said: Vec<_> = [0, 1, 500, 999, 1_000, 1_500, 3_000]
            .into_iter()
            .filter_map(|millis| throttle.admit(at(millis)).map(|left_out| (millis, left_out)))
            .collect();
        assert_eq!(said, [(0, 0), (1_000, 3), (3_000, 1)]);
    }
}
