//! Durations in whole units, rounded up: a client that waits as long has waited long enough.

use std::time::Duration;

pub use tidegate_engine::headers::seconds_up;

pub fn millis_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{millis_up, seconds_up};
    use std::time::Duration;

    #[test]
    fn any_remainder_counts_as_a_whole_unit() {
        assert_eq!(
            [0, 1, 1_000_000_000, 1_000_000_001].map(Duration::from_nanos).map(seconds_up),
            [0, 1, 1, 2]
        );
        assert_eq!(
            [0, 1, 1_000_000, 1_000_001].map(Duration::from_nanos).map(millis_up),
            [0, 1, 1, 2]
        );
    }
}
