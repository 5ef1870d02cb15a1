//! The oracle of limits on the units of a window, which keeps every admission; and the checks for
//! both.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_engine::Decision;

/// A decision in figures: allowed, remaining, nanoseconds to retry, nanoseconds to reset.
pub type Answer = (bool, u64, Option<u64>, u64);

pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

pub fn answer(decision: &Decision) -> Answer {
    let retry = decision.retry_after().map(nanos);
    (decision.is_allowed(), decision.remaining(), retry, nanos(decision.reset_after()))
}

/// Every admission, with the time at which it stops counting.
pub struct Oracle {
    pub limit: u64,
    /// When an admission at a time stops counting.
    pub expiry: Box<dyn Fn(u64) -> u64>,
    pub latest: u64,
    pub admitted: Vec<(u64, u64)>,
}

impl Oracle {
    pub fn sub_windows(limit: u64, window: u64, count: u64) -> Self {
        let width = window.div_ceil(count);
        let expiry = Box::new(move |now: u64| (now / width + count + 1) * width);
        Self { limit, expiry, latest: 0, admitted: Vec::new() }
    }

    pub fn log(limit: u64, window: u64) -> Self {
        let expiry = Box::new(move |now: u64| now + window);
        Self { limit, expiry, latest: 0, admitted: Vec::new() }
    }

    /// What is left. Expired units count again when time goes back, and are not charged to the
    /// limiter twice.
    fn left(&self, now: u64) -> u64 {
        self.limit.saturating_sub(self.used(now))
    }

    pub fn used(&self, now: u64) -> u64 {
        self.admitted.iter().filter(|(expiry, _)| *expiry > now).map(|(_, cost)| cost).sum()
    }

    fn reset_after(&self, now: u64) -> u64 {
        self.admitted.iter().map(|(expiry, _)| expiry.saturating_sub(now)).max().unwrap_or(0)
    }

    pub fn check(&mut self, cost: u64, now: u64) -> Answer {
        if cost > self.limit {
            return (false, self.left(now), None, self.reset_after(now));
        }
        if cost == 0 || self.used(now) + cost <= self.limit {
            if cost > 0 {
                self.latest = self.latest.max(now);
                self.admitted.push(((self.expiry)(self.latest), cost));
            }
            return (true, self.left(now), Some(0), self.reset_after(now));
        }
        let mut times: Vec<_> = self.admitted.iter().map(|(expiry, _)| *expiry).collect();
        times.sort_unstable();
        let fits = |at: &&u64| **at > now && self.used(**at) + cost <= self.limit;
        let retry = times.iter().find(fits).unwrap() - now;
        (false, self.left(now), Some(retry), self.reset_after(now))
    }
}

/// The most units admitted in an interval of `window`, from `(time, cost)`s in any order.
pub fn most_within(window: u64, mut admitted: Vec<(u64, u64)>) -> u64 {
    admitted.sort_unstable();
    let (mut from, mut sum, mut most) = (0, 0, 0);
    for &(now, cost) in &admitted {
        sum += cost;
        while admitted[from].0 + window <= now {
            sum -= admitted[from].1;
            from += 1;
        }
        most = most.max(sum);
    }
    most
}

/// A gap in nanoseconds before a check, and its cost.
fn steps(window: u64) -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![
        4 => Just(0), 4 => 0..=window / 8 + 1, 1 => 0..=3 * window,
        1 => Just(window), 1 => Just(window.saturating_sub(1)),
    ];
    let cost = prop_oneof![8 => Just(1_u64), 4 => 0_u64..6, 1 => any::<u64>()];
    prop::collection::vec((gap, cost), 1..150)
}

pub fn any_steps() -> impl Strategy<Value = (u64, Vec<(u64, u64)>)> {
    prop_oneof![1_000_u64..2_000, 100_000_u64..1_000_000_000]
        .prop_flat_map(|window| (Just(window), steps(window)))
}
