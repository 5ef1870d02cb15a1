//! Putting the requests of a log to a limiter.

use std::fmt;
use std::time::Duration;

use tidegate_engine::{BuildError, Limiter, ManualClock, Quota, Timestamp};

use super::log::{Log, Request};

/// The limiter's time must end before this: the engine's clock stands still a little later.
const MAX_TIME: Duration = Duration::from_hours(13 * 365 * 24);

/// What was decided for one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub allowed: u64,
    pub denied: u64,
}

/// Decides every request in the order of time, ties in the order of the log; the counts of each
/// key, in the order of the log's keys.
///
/// # Errors
/// When the limiter can not be had or the log spans too long a time.
pub fn decide(log: &Log, quota: &Quota) -> Result<Vec<Counts>, ReplayError> {
    let requests = timed(&log.requests, quota)?;
    let mut capacity = log.keys.len().max(1);
    loop {
        let limiter = Limiter::builder(*quota).capacity(capacity).clock(ManualClock::new());
        let limiter = limiter.build().map_err(ReplayError::Build)?;
        let mut counts = vec![Counts::default(); log.keys.len()];
        for (time, key) in &requests {
            let decision = limiter.check_at(log.keys[*key].as_str(), 1, *time);
            let counter = &mut counts[*key];
            if decision.is_allowed() {
                counter.allowed += 1;
            } else {
                counter.denied += 1;
            }
        }
        // A key that was forgotten to make room may have been allowed too much.
        if limiter.evicted() == 0 {
            return Ok(counts);
        }
        capacity = capacity.saturating_mul(2);
    }
}

/// The requests in the order of time, the first at the limiter's origin.
///
/// A pause in which every key becomes as good as new is cut to that length, which changes no
/// decision and lets a log span any number of years.
fn timed(requests: &[Request], quota: &Quota) -> Result<Vec<(Timestamp, usize)>, ReplayError> {
    let fresh = quota.debt_of(quota.burst_size());
    let mut requests = requests.to_vec();
    requests.sort_by_key(|request| request.time);
    let mut now = Duration::ZERO;
    let mut last = requests.first().map_or(0, |request| request.time);
    let mut timed = Vec::with_capacity(requests.len());
    for Request { time, key } in requests {
        let pause = Duration::from_secs(time.abs_diff(last));
        last = time;
        now = now.saturating_add(pause.min(fresh));
        if now > MAX_TIME {
            return Err(ReplayError::TooLong);
        }
        timed.push((Timestamp::ORIGIN.saturating_add(now), key));
    }
    Ok(timed)
}

/// Why a log can not be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayError {
    Build(BuildError),
    TooLong,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => write!(f, "{error}"),
            Self::TooLong => f.write_str(
                "the log spans more than 13 years without a pause in which the burst refills",
            ),
        }
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
