//! Rounds: each server in turn, again and again, so that what the machine does meanwhile befalls
//! all of them.

use core::time::Duration;
use std::io;
use std::time::Instant;

use super::closed_loop::{ClosedLoop, Question, Tally, ask_once};
use super::cores::Usage;
use super::open_loop::{self, Schedule};
use super::requests::Keys;
use super::rows::Row;
use super::servers::Server;

/// Connections of the load.
pub const CONNECTIONS: usize = 50;

/// Between requests of the row *latency*: 50,000 a second.
const INTERVAL: Duration = Duration::from_micros(20);

/// How a table is measured.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How often each server is measured.
    pub rounds: u32,
    /// For how long.
    pub window: Duration,
    /// For how long it is asked before that.
    pub warm_up: Duration,
    /// Of the keys that are drawn.
    pub seed: u64,
}

/// A server measured once.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Checks a second that were answered.
    pub rate: f64,
    /// Processor time of the server for each, in nanoseconds.
    pub cpu_nanos: f64,
    /// Processor time of the load for each, in nanoseconds.
    pub load_nanos: f64,
    /// The share of its core that the load used.
    pub load_share: f64,
    /// The greater share of time in which others had the core of the server, or of the load.
    pub others: f64,
    /// The latencies of half and of 99 of 100 requests; of the row *latency*.
    pub latency: Option<[Duration; 2]>,
}

/// What a row has of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The server's.
    pub name: &'static str,
    /// One of each round, or why there is none.
    pub rounds: Result<Vec<Measurement>, String>,
    /// Replies that were no answer, and the first of them.
    pub errors: Option<(u64, String)>,
}

/// Measures a row. What one server does not have, or fails in, keeps no other from being measured.
#[must_use]
pub fn measure(row: Row, servers: &[Server], settings: &Settings) -> Vec<Entry> {
    let mut entries = Vec::new();
    for server in servers {
        let Some(question) = server.question(row, Keys::Drawn { seed: settings.seed }) else {
            continue;
        };
        let rounds = match ask_once(&question) {
            Ok(Ok(reply)) => row.verify(&reply).map(|()| Vec::new()),
            Ok(Err(error)) => Err(error),
            Err(error) => Err(error.to_string()),
        };
        entries.push((server, Entry { name: server.name, rounds, errors: None }));
    }
    for round in 0..settings.rounds {
        for (server, entry) in &mut entries {
            // Every server is asked for the same keys, other ones each round.
            let keys = Keys::Drawn { seed: settings.seed.wrapping_add(round.into()) };
            let (Ok(rounds), Some(question)) = (&mut entry.rounds, server.question(row, keys))
            else {
                continue;
            };
            let measured = if row == Row::Latency {
                by_schedule(server, &question, settings)
            } else {
                at_full_speed(server, &question, row, settings)
            };
            match measured {
                Ok((measurement, tally)) => {
                    rounds.push(measurement);
                    if let Some(first) = tally.first_error {
                        entry.errors.get_or_insert((0, first)).0 += tally.errors;
                    }
                }
                Err(error) => entry.rounds = Err(error.to_string()),
            }
        }
    }
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// What was used up to a moment.
struct Moment {
    at: Instant,
    server: Usage,
    load: Usage,
}

impl Moment {
    fn now(server: &Server) -> io::Result<Self> {
        let (server, load) = (server.usage()?, Usage::of_this_thread()?);
        Ok(Self { at: Instant::now(), server, load })
    }

    /// What became of `checks` since.
    fn measure(&self, server: &Server, checks: u64) -> io::Result<Measurement> {
        let now = Self::now(server)?;
        let elapsed = now.at - self.at;
        let (server, load) = (now.server.since(self.server), now.load.since(self.load));
        // A wait that began earlier counts from then.
        let others = server.waited.max(load.waited).min(elapsed);
        Ok(Measurement {
            rate: checks as f64 / elapsed.as_secs_f64(),
            cpu_nanos: server.used.as_nanos() as f64 / checks as f64,
            load_nanos: load.used.as_nanos() as f64 / checks as f64,
            load_share: load.share_of(elapsed),
            others: others.as_secs_f64() / elapsed.as_secs_f64(),
            latency: None,
        })
    }
}

fn at_full_speed(
    server: &Server,
    question: &Question,
    row: Row,
    settings: &Settings,
) -> io::Result<(Measurement, Tally)> {
    let mut load = ClosedLoop::start(question, CONNECTIONS)?;
    let start = Instant::now();
    load.run_until(|_| start.elapsed() >= settings.warm_up)?;
    let (before, answered) = (Moment::now(server)?, load.tally().answers());
    load.run_until(|_| before.at.elapsed() >= settings.window)?;
    let answers = load.tally().answers() - answered;
    Ok((before.measure(server, answers * row.checks() as u64)?, load.tally().clone()))
}

fn by_schedule(
    server: &Server,
    question: &Question,
    settings: &Settings,
) -> io::Result<(Measurement, Tally)> {
    let requests = |time: Duration| (time.as_nanos() / INTERVAL.as_nanos()) as u32;
    let (warm_up, requests) = (requests(settings.warm_up), requests(settings.window));
    let schedule = Schedule { interval: INTERVAL, warm_up, requests };
    let mut before = Moment::now(server)?;
    let outcome = open_loop::run(question, CONNECTIONS, &schedule, || {
        before = Moment::now(server)?;
        Ok(())
    })?;
    let mut measurement = before.measure(server, requests.into())?;
    measurement.latency = Some([outcome.quantile(0.5), outcome.quantile(0.99)]);
    Ok((measurement, outcome.tally))
}
