//! The oracle: the theoretical arrival time as a whole number of 1/count nanoseconds, in 128 bits,
//! so nothing is rounded.

pub mod windows;

use std::time::Duration;

use tidegate_engine::{Decision, Quota};

/// GCRA over rationals: all times in units of 1/count nanoseconds.
pub struct Oracle {
    pub count: i128,
    interval: i128,
    tau: i128,
    burst: u64,
    pub tat: i128,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    allowed: bool,
    remaining: u64,
    retry_after: Option<Duration>,
    reset_after: Duration,
}

impl Oracle {
    pub fn new(quota: &Quota) -> Self {
        let interval = i128::try_from(quota.period().as_nanos()).unwrap();
        let burst = quota.burst_size();
        let tau = interval * i128::from(burst);
        Self { count: i128::from(quota.count()), interval, tau, burst, tat: 0 }
    }

    /// Nanoseconds in the oracle's units.
    pub fn at(&self, nanos: i128) -> i128 {
        nanos * self.count
    }

    pub fn missing(&self, now: u64, cost: u64) -> i128 {
        let debt = (self.tat - self.at(i128::from(now))).max(0);
        debt + i128::from(cost) * self.interval - self.tau
    }

    pub fn admit(&mut self, now: u64, cost: u64) {
        self.tat = self.tat.max(self.at(i128::from(now))) + i128::from(cost) * self.interval;
    }

    pub fn check(&mut self, now: u64, cost: u64) -> Answer {
        let missing = self.missing(now, cost);
        let allowed = missing <= 0;
        if allowed {
            self.admit(now, cost);
        }
        let debt = (self.tat - self.at(i128::from(now))).max(0);
        let nanos = |units: i128| {
            Duration::from_nanos(u64::try_from((units + self.count - 1) / self.count).unwrap())
        };
        Answer {
            allowed,
            remaining: u64::try_from((self.tau - debt).max(0) / self.interval).unwrap(),
            retry_after: if allowed {
                Some(Duration::ZERO)
            } else {
                (cost <= self.burst).then(|| nanos(missing))
            },
            reset_after: nanos(debt),
        }
    }
}

pub fn answer(decision: &Decision) -> Answer {
    Answer {
        allowed: decision.is_allowed(),
        remaining: decision.remaining(),
        retry_after: decision.retry_after(),
        reset_after: decision.reset_after(),
    }
}
