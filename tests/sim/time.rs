//! Simulated time, and clocks that start anywhere and run too fast or too slow.

/// Nanoseconds: a duration, or a time since the run's start.
pub type Nanos = u64;

pub const MS: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000 * MS;

const MILLION: i64 = 1_000_000;

/// A node's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalClock {
    /// What it shows when the run starts.
    pub offset: Nanos,
    /// How much faster than true time it runs, in parts per million.
    pub ppm: i64,
}

impl LocalClock {
    /// What it shows at a true time. Exact up to a run of a month.
    pub fn local(self, at: Nanos) -> Nanos {
        let gained = at as i64 * self.ppm / MILLION;
        (self.offset + at).saturating_add_signed(gained)
    }

    /// The first true time at which it shows `local` or more.
    pub fn global(self, local: Nanos) -> Nanos {
        let shown = u128::from(local.saturating_sub(self.offset));
        let speed = (MILLION + self.ppm) as u128;
        let mut at = (shown * MILLION as u128 / speed) as Nanos;
        while self.local(at) < local {
            at += 1;
        }
        at
    }
}

/// A time or a duration in seconds, for people.
pub fn seconds(at: Nanos) -> f64 {
    at as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_due_when_the_clock_shows_it_and_not_before() {
        for ppm in [-1_000, -7, 0, 3, 1_000] {
            let clock = LocalClock { offset: 17 * SECOND + 1, ppm };
            for local in [clock.offset, clock.offset + 1, 18 * SECOND, 4_000 * SECOND + 123_457] {
                let at = clock.global(local);
                assert!(clock.local(at) >= local, "{ppm} {local}");
                assert!(at < 2 || clock.local(at - 2) < local, "{ppm} {local}");
            }
        }
    }
}
