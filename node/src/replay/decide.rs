//! Decides the requests of a log.

use std::fmt;
use std::time::Duration;

use tidegate_engine::clock::Timestamp;
use tidegate_engine::{BuildError, Limiter, ManualClock, Quota};

use super::log::{Log, LoggedRequest};

/// The largest time put to a limiter: the engine's clock saturates a little later.
const MAX_TIME: Duration = Duration::from_hours(13 * 365 * 24);

/// The decisions for one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    pub allowed: u64,
    pub denied: u64,
}

/// Decides every request in the order of time, ties in the order of the log; the counts of each
/// key, in the order of the log's keys.
///
/// # Errors
/// When the limiter cannot be built or the log spans too long a time.
pub fn decide(log: &Log, quota: &Quota) -> Result<Vec<KeyCounts>, ReplayError> {
    let eras = eras(&log.requests, quota)?;
    let mut capacity = log.keys.len().max(1);
    loop {
        if let Some(counts) = decide_within(capacity, log, &eras, quota)? {
            return Ok(counts);
        }
        capacity = capacity.saturating_mul(2);
    }
}

/// The counts of each key; `None` when `capacity` was not enough for all keys.
fn decide_within(
    capacity: usize,
    log: &Log,
    eras: &[Era],
    quota: &Quota,
) -> Result<Option<Vec<KeyCounts>>, ReplayError> {
    let mut counts = vec![KeyCounts::default(); log.keys.len()];
    for era in eras {
        let limiter = Limiter::builder(*quota).capacity(capacity).clock(ManualClock::new());
        let limiter = limiter.build().map_err(ReplayError::Build)?;
        for (time, key) in era {
            let time = Timestamp::ORIGIN.saturating_add(*time);
            let decision = limiter.check_at(log.keys[*key], 1, time);
            let counter = &mut counts[*key];
            if decision.is_allowed() {
                counter.allowed += 1;
            } else {
                counter.denied += 1;
            }
        }
        // An evicted key may have been allowed too much.
        if limiter.evicted() > 0 {
            return Ok(None);
        }
    }
    Ok(Some(counts))
}

/// Requests with the time since the start of the era, at which every key is fresh.
type Era = Vec<(Duration, usize)>;

/// The requests in the order of time, in eras that are each short enough for one limiter.
///
/// A pause in which every key becomes fresh is shortened to that length, which changes no decision,
/// and a new era may begin after it: so a log may span any number of years.
fn eras(requests: &[LoggedRequest], quota: &Quota) -> Result<Vec<Era>, ReplayError> {
    let fresh = quota.debt_of(quota.burst_size());
    let mut requests = requests.to_vec();
    requests.sort_by_key(|request| request.time);
    let mut eras = Vec::new();
    let mut era = Era::new();
    // Where the era can be split: at the first request after its last pause.
    let mut cut = None;
    let mut now = Duration::ZERO;
    let mut last = requests.first().map_or(0, |request| request.time);
    for LoggedRequest { time, key } in requests {
        let pause = Duration::from_secs(time.abs_diff(last));
        last = time;
        now = now.saturating_add(pause.min(fresh));
        if pause >= fresh && !era.is_empty() {
            cut = Some(era.len());
        }
        era.push((now, key));
        if now > MAX_TIME {
            let rest = era.split_off(cut.take().ok_or(ReplayError::TooLong)?);
            eras.push(std::mem::replace(&mut era, rest));
            let begin = era.first().map_or(Duration::ZERO, |(time, _)| *time);
            for (time, _) in &mut era {
                *time = time.saturating_sub(begin);
            }
            now = now.saturating_sub(begin);
            if now > MAX_TIME {
                return Err(ReplayError::TooLong);
            }
        }
    }
    eras.push(era);
    Ok(eras)
}

/// Why a log cannot be replayed.
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
