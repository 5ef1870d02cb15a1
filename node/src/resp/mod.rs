//! The Redis protocol front-end.
//!
//! `connection` moves bytes, so much `work` at a time; `parser` and `inline` turn them into a
//! `command`; `commands` is the table of all, whose handlers are in `throttle` and `server`; they
//! work on the client's `session` and the `server_info` of all, and answer with `reply` and
//! `errors`.

mod command;
mod commands;
mod connection;
mod errors;
mod inline;
mod parser;
mod reply;
mod server;
mod server_info;
mod session;
mod throttle;
mod work;

pub use connection::RespFrontEnd;
#[cfg(fuzzing)]
pub use {
    command::{Command, MAX_ARG_BYTES, MAX_ARGS},
    parser::{Parser, ProtocolError},
    server_info::ServerInfo,
    session::Session,
};
