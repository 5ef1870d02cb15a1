//! The HTTP front-end: `router` finds what is asked for, `check` reads and answers a check,
//! `headers` writes what the IETF draft on rate limit headers asks for.

mod check;
mod connection;
mod headers;
mod router;

#[cfg(fuzzing)]
pub use check::decide;
pub use connection::HttpFrontEnd;
