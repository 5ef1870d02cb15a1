//! The memory of a node: as it starts, for live keys, after a spray of keys, for idle connections.
//!
//! Measured is resident memory, each time of a node of its own, so that none reuses what another
//! load has left.

use std::io;

use super::closed_loop::{ClosedLoop, Question, connect_and_ask};
use super::requests::Keys;
use super::rounds::CONNECTIONS;
use super::rows::{Row, command};
use super::servers::Server;

/// Keys that are live at once.
pub const LIVE_KEYS: u32 = 1_000_000;
/// Keys of the spray, each asked once.
pub const SPRAYED_KEYS: u32 = 50_000_000;
/// Connections that have been answered once, and are idle.
pub const IDLE_CONNECTIONS: usize = 500;

/// One check a day, so that a key is live for as long as anything is measured.
const PER_DAY: [&str; 3] = ["0", "1", "86400"];

/// What a node holds, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Once it has started and answered.
    pub at_start: u64,
    /// What it grows by for each of [`LIVE_KEYS`].
    pub of_a_key: f64,
    /// In all, after [`SPRAYED_KEYS`].
    pub sprayed: u64,
    /// What it grows by for each of [`IDLE_CONNECTIONS`] over the Redis protocol.
    pub of_a_resp_connection: f64,
    /// The same over HTTP.
    pub of_an_http_connection: f64,
}

/// Measures a node that `start` starts, anew for each figure.
///
/// # Errors
/// Where a node does not start, or does not answer.
pub fn measure(start: impl Fn() -> io::Result<Server>) -> io::Result<Memory> {
    let asked = || {
        let server = start()?;
        for row in [Row::Resp1, Row::Http1] {
            let _ = idle(&server, row, 1)?;
        }
        Ok::<_, io::Error>(server)
    };
    let server = asked()?;
    let at_start = server.resident_bytes()?;
    check_each(&server, LIVE_KEYS, 1)?;
    let of_a_key = growth(&server, at_start)? / f64::from(LIVE_KEYS);

    let server = asked()?;
    check_each(&server, SPRAYED_KEYS, CONNECTIONS)?;
    let sprayed = server.resident_bytes()?;

    let of_a_connection = |row| {
        let server = asked()?;
        let before = server.resident_bytes()?;
        let connections = idle(&server, row, IDLE_CONNECTIONS)?;
        let growth = growth(&server, before)?;
        Ok::<_, io::Error>(growth / connections.len() as f64)
    };
    Ok(Memory {
        at_start,
        of_a_key,
        sprayed,
        of_a_resp_connection: of_a_connection(Row::Resp1)?,
        of_an_http_connection: of_a_connection(Row::Http1)?,
    })
}

fn growth(server: &Server, before: u64) -> io::Result<f64> {
    Ok(server.resident_bytes()?.saturating_sub(before) as f64)
}

/// Checks one key after another, `keys` of them and what is under way then.
fn check_each(server: &Server, keys: u32, connections: usize) -> io::Result<()> {
    let question = question(server, Row::Resp100, Keys::Counted)?;
    let request = command("CL.THROTTLE", PER_DAY);
    let mut load = ClosedLoop::start(&Question { request, ..question }, connections)?;
    load.run_until(|tally| tally.replies >= u64::from(keys))?;
    match &load.tally().first_error {
        None => Ok(()),
        Some(error) => Err(io::Error::other(error.clone())),
    }
}

/// Connections that have each been answered once.
fn idle(server: &Server, row: Row, count: usize) -> io::Result<Vec<impl Sized + use<>>> {
    let question = question(server, row, Keys::Drawn { seed: 0 })?;
    let connect = |_| {
        let (wire, reply) = connect_and_ask(&question)?;
        reply.map_err(io::Error::other)?;
        Ok(wire)
    };
    (0..count).map(connect).collect()
}

fn question(server: &Server, row: Row, keys: Keys) -> io::Result<Question> {
    let missing = || io::Error::other(format!("{} does not answer {row:?}", server.name));
    server.question(row, keys).ok_or_else(missing)
}
