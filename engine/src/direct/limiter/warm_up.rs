//! A rate that grows from a share of itself to the whole.
//!
//! A limiter that warms up sees time pass more slowly. `t` after the start, of a warm-up of length
//! `D` from the share `p`, it sees
//!
//! ```text
//! W(t) = p * t + (1 - p) * t^2 / (2 * D)    up to D
//! W(t) = t - D + W(D)                       from then on
//! ```
//!
//! The slope of W grows evenly from `p` to 1. W is rounded down to a nanosecond; as its slope is at
//! most 1, `W(t) - W(s) <= t - s` still holds for whole nanoseconds. So the bound of any rule
//! holds, with the time of the rule in place of the time that has passed.

use core::time::Duration;

use crate::base::decision::Decision;
use crate::time::Timestamp;

/// The longest warm-up: 2^57 ns, about 4.5 years.
pub const MAX_WARM_UP: Duration = Duration::from_nanos(1 << 57);

/// All of the rate.
const WHOLE: u128 = 100;

#[derive(Clone, Copy, Debug)]
pub(super) struct WarmUp {
    start: Timestamp,
    /// D in nanoseconds: at least 1, at most [`MAX_WARM_UP`].
    length: u64,
    /// p in percent, below 100.
    percent: u8,
    /// How far the time of the rule is behind after the warm-up, `D - W(D)` in nanoseconds.
    behind: u64,
}

impl WarmUp {
    /// `None` where nothing would be slower.
    pub(super) fn new(start: Timestamp, length: Duration, percent: u8) -> Option<Self> {
        if length.is_zero() || u128::from(percent) >= WHOLE {
            return None;
        }
        let length = length.min(MAX_WARM_UP).as_nanos() as u64;
        let cold = Self { start, length, percent, behind: 0 };
        let end = (cold.scaled(length) / cold.scale()) as u64;
        Some(Self { behind: length - end, ..cold })
    }

    /// The rule's time.
    #[inline]
    pub(super) fn warped(&self, now: Timestamp) -> Timestamp {
        let since = now.as_nanos().saturating_sub(self.start.as_nanos());
        if since >= self.length {
            return Timestamp::from_nanos(now.as_nanos() - self.behind);
        }
        self.slowed(now, since)
    }

    /// [`WarmUp::warped`] during the warm-up; before it, time passes at its normal rate.
    #[cold]
    fn slowed(&self, now: Timestamp, since: u64) -> Timestamp {
        let start = now.min(self.start);
        start.saturating_add(Duration::from_nanos((self.scaled(since) / self.scale()) as u64))
    }

    /// The answer, with its durations stretched while the rate is growing.
    #[inline]
    pub(super) fn answer(&self, decision: Decision, now: Timestamp) -> Decision {
        let since = now.as_nanos().saturating_sub(self.start.as_nanos());
        if since >= self.length {
            return decision;
        }
        self.slowed_answer(decision, now)
    }

    #[cold]
    fn slowed_answer(&self, decision: Decision, now: Timestamp) -> Decision {
        let warped = self.warped(now).as_nanos();
        decision.map_times(|nanos| {
            self.when(warped.saturating_add(nanos)).saturating_sub(now.as_nanos())
        })
    }

    /// The first time at which the rule's time is at least `warped`.
    fn when(&self, warped: u64) -> u64 {
        let start = self.start.as_nanos();
        let Some(target) = warped.checked_sub(start) else { return warped };
        let target_scaled = u128::from(target) * self.scale();
        if self.scaled(self.length) < target_scaled {
            return warped.saturating_add(self.behind);
        }
        // The answer is in `low..=high`.
        let (mut low, mut high) = (0, self.length);
        while low < high {
            let middle = low.midpoint(high);
            if self.scaled(middle) < target_scaled { low = middle + 1 } else { high = middle }
        }
        start.saturating_add(low)
    }

    /// `W(since) * scale`, exactly: below 2^123, as `since` is at most the length.
    fn scaled(&self, since: u64) -> u128 {
        let (since, length) = (u128::from(since), u128::from(self.length));
        let percent = u128::from(self.percent);
        2 * length * percent * since + (WHOLE - percent) * since * since
    }

    /// Below 2^66.
    fn scale(&self) -> u128 {
        2 * WHOLE * u128::from(self.length)
    }
}
