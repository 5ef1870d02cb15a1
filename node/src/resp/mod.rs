//! The Redis protocol front-end.
//!
//! `connection` moves bytes within a `budget`; `parser` and `inline` turn them into a `command`;
//! `commands` is the table of all, a `spec` each, whose handlers are in `throttle`, `transaction`
//! and `server`; they work on the client's `session`, with the `queue` of its transaction, and the
//! `server_info` of all, and answer with `reply` and `errors`.

mod budget;
mod command;
mod commands;
mod connection;
mod errors;
mod inline;
mod parser;
mod queue;
mod reply;
mod server;
mod server_info;
mod session;
mod spec;
mod throttle;
mod transaction;

pub use connection::RespFrontEnd;
#[cfg(fuzzing)]
pub use {
    command::{Command, MAX_ARG_BYTES, MAX_ARGS},
    parser::{Parser, ProtocolError},
    server_info::ServerInfo,
    session::Session,
};
