//! How long steps of the driver's task take.

use std::time::Duration;

/// A step that takes longer keeps others waiting.
pub(crate) const STEP_BUDGET: Duration = Duration::from_millis(5);
/// For how long the longest step is remembered, at least; twice as long at most.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Durations of steps, counted by length. A step is one call of the protocol: for a message, a
/// datagram, a deadline, a flush. It is measured by the clock on the wall, so what the operating
/// system runs meanwhile is part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// How many steps took no longer than each of [`Steps::BOUNDS`], and not within the one before;
    /// the last is of those that took longer than all of them.
    pub counts: [u64; Steps::BOUNDS.len() + 1],
    /// What all of them took together.
    pub total: Duration,
    /// Steps above 5 ms.
    pub above_budget: u64,
    /// The longest of the last one to two minutes.
    pub longest: Duration,
    /// The longest of the minute under way, and when that began, since the node's start.
    present: Duration,
    since: Duration,
}

impl Steps {
    /// Upper bounds of lengths.
    pub const BOUNDS: [Duration; 9] = [
        Duration::from_micros(10),
        Duration::from_micros(30),
        Duration::from_micros(100),
        Duration::from_micros(300),
        Duration::from_millis(1),
        Duration::from_micros(2_500),
        STEP_BUDGET,
        Duration::from_millis(20),
        Duration::from_millis(100),
    ];

    /// Counts a step that has ended at `at`, since the node's start.
    pub(crate) fn add(&mut self, at: Duration, took: Duration) {
        let place = Self::BOUNDS.iter().position(|bound| took <= *bound);
        self.counts[place.unwrap_or(Self::BOUNDS.len())] += 1;
        self.total += took;
        self.above_budget += u64::from(took > STEP_BUDGET);
        *self = self.as_of(at);
        self.present = self.present.max(took);
        self.longest = self.longest.max(took);
    }

    /// The same without what is too long ago.
    pub(crate) fn as_of(mut self, at: Duration) -> Self {
        let passed = at.saturating_sub(self.since);
        if passed >= REMEMBERED {
            self.longest = if passed < 2 * REMEMBERED { self.present } else { Duration::ZERO };
            (self.present, self.since) = (Duration::ZERO, at);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_step_is_forgotten_after_a_while() {
        let mut steps = Steps::default();
        let second = Duration::from_secs(1);
        steps.add(second, Duration::from_millis(7));
        steps.add(2 * second, Duration::from_millis(1));
        assert_eq!((steps.longest, steps.above_budget), (Duration::from_millis(7), 1));
        steps.add(61 * second, Duration::from_millis(2));
        assert_eq!(steps.longest, Duration::from_millis(7));
        steps.add(122 * second, Duration::from_micros(20));
        assert_eq!(steps.longest, Duration::from_millis(2));
        assert_eq!(steps.as_of(181 * second).longest, Duration::from_millis(2));
        assert_eq!(steps.as_of(242 * second).longest, Duration::ZERO, "without another step");
        assert_eq!(steps.counts.iter().sum::<u64>(), 4);
        assert_eq!((steps.counts[1], steps.counts[7]), (1, 1));
    }
}
