//! The Redis protocol front-end.
//!
//! `connection` moves bytes within a `budget`, `parser` and `inline` turn them into commands, `session` looks a
//! command up in the table of `commands`, which leads to `throttle` and `server`; `reply` writes
//! the answers.

mod budget;
mod commands;
mod connection;
mod inline;
mod parser;
mod reply;
mod server;
mod session;
mod throttle;

pub use connection::RespFrontEnd;
#[cfg(fuzzing)]
pub use {
    parser::{Command, MAX_ARG_BYTES, MAX_ARGS, Parser, ProtocolError},
    server::ServerInfo,
    session::Session,
};
