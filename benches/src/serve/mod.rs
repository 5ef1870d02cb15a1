//! Servers on loopback, measured by a lean client: what `serve` is made of. Needs Linux.
//!
//! The server runs on one core and the load on another. [`closed_loop`] asks as fast as replies
//! come, [`open_loop`] by a schedule. [`ceiling`] is a server that answers the same bytes as a node
//! and decides nothing: what this machine's sockets allow any server. [`servers`] starts it, the
//! node and its peers, [`rows`] says what each row asks, [`rounds`] measures them in turn, and
//! [`table`] writes what came out. [`memory`] measures what a node holds.

pub mod ceiling;
pub mod closed_loop;
pub mod cores;
pub mod framing;
pub mod memory;
pub mod open_loop;
pub mod replies;
pub mod requests;
pub mod rounds;
pub mod rows;
pub mod servers;
pub mod table;
pub mod wire;

#[cfg(test)]
mod tests;

/// How long anything may take that usually takes no time at all.
const PATIENCE: core::time::Duration = core::time::Duration::from_secs(10);
