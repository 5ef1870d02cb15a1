//! Load by a schedule: a request is sent when it is due, whatever became of those before it, and
//! its latency counts from then. So what keeps the server counts for each request that waits.

use core::time::Duration;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::Instant;

use super::PATIENCE;
use super::closed_loop::{Question, Tally};
use super::requests::Requests;
use super::wire::{Watch, Wire};

/// When requests are due.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// From one request to the next, on whichever connection.
    pub interval: Duration,
    /// How many are sent before those that count.
    pub warm_up: u32,
    /// How many count.
    pub requests: u32,
}

/// What became of the requests that count.
#[derive(Debug)]
pub struct Outcome {
    /// From when each was due to its reply, in ascending order.
    pub latencies: Vec<Duration>,
    /// All replies, those before the ones that count included.
    pub tally: Tally,
}

impl Outcome {
    /// What so large a share of the requests did not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (self.latencies.len() as f64 * share).ceil() as usize;
        self.latencies.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

struct Connection {
    wire: Wire,
    /// The numbers of the requests that it waits for.
    awaited: VecDeque<u32>,
}

/// Sends all requests of the schedule on this number of connections in turn and waits for the
/// replies; calls `begins` when the first that counts is due. It never sleeps, so that no waking of
/// its own is part of a latency.
///
/// # Errors
/// Where a connection ends, or the server says nothing for long.
pub fn run(
    question: &Question,
    connections: usize,
    schedule: &Schedule,
    mut begins: impl FnMut() -> io::Result<()>,
) -> io::Result<Outcome> {
    let mut requests = Requests::new(&question.request, 1, question.keys);
    let mut watch = Watch::new()?;
    let mut all = Vec::with_capacity(connections);
    for number in 0..connections {
        let wire = Wire::connect(question.address)?;
        watch.add_wire(&wire, number as u64)?;
        all.push(Connection { wire, awaited: VecDeque::new() });
    }
    let count = schedule.warm_up + schedule.requests;
    let mut latencies = Vec::with_capacity(schedule.requests as usize);
    let mut tally = Tally::default();
    let start = Instant::now() + Duration::from_millis(1);
    let due = |number: u32| start + schedule.interval * number;
    let (mut next, mut ready) = (0, Vec::new());
    while tally.replies < u64::from(count) {
        while next < count && due(next) <= Instant::now() {
            if next == schedule.warm_up {
                begins()?;
            }
            let connection = &mut all[next as usize % connections];
            connection.wire.send(requests.draw())?;
            connection.awaited.push_back(next);
            next += 1;
        }
        ready.clear();
        ready.extend(watch.wait(Some(Duration::ZERO))?);
        for number in &ready {
            let Connection { wire, awaited } = &mut all[*number as usize];
            wire.receive()?;
            let replies = tally.take(question.protocol, wire)?;
            let now = Instant::now();
            for _ in 0..replies {
                let number = awaited.pop_front();
                let number = number.ok_or_else(|| io::Error::other("a reply to no request"))?;
                if number >= schedule.warm_up {
                    latencies.push(now.saturating_duration_since(due(number)));
                }
            }
        }
        if next == count && due(count) + PATIENCE < Instant::now() {
            return Err(io::Error::new(ErrorKind::TimedOut, "the server does not answer"));
        }
    }
    latencies.sort_unstable();
    Ok(Outcome { latencies, tally })
}
