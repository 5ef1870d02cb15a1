//! The Redis protocol front-end.
//!
//! `connection` moves bytes, a bounded amount of `work` at a time; `parser` and `inline` turn them
//! into a `command`; `commands` is the table of all, a `spec` each, whose handlers are in
//! `throttle`, `transaction`, `server`, `auth`, `client`, `info` and `parameters`; `describe` says
//! what they take. They work on the client's `session`, with the `checks` that are to be decided
//! together and the `queue` of its transaction, and on the `server_info` of all, with the `clients`
//! that are connected, and answer with `reply` and `errors`.

mod auth;
mod checks;
mod client;
mod clients;
mod command;
mod commands;
mod connection;
mod describe;
mod errors;
mod expiry;
mod info;
mod inline;
mod outbox;
mod parameters;
mod parser;
mod queue;
mod reply;
mod server;
mod server_info;
mod session;
mod spec;
mod spelling;
#[cfg(test)]
mod testing;
mod throttle;
mod transaction;
mod work;

pub use connection::RespFrontEnd;
pub use server_info::RespBounds;
#[cfg(fuzzing)]
pub use {
    command::{Command, MAX_ARG_BYTES, MAX_ARGS},
    parser::{Parser, ProtocolError},
    server_info::ServerInfo,
    session::Session,
};
