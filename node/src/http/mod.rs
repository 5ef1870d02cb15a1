//! The HTTP front-end: `connection` serves HTTP/1, `gathered` sends the answers, `router` dispatches
//! by path and method what `gate` lets through, `check` parses and answers a check with the fields of `headers`, `health`
//! answers probes, `answer` builds answers.

mod answer;
mod check;
mod connection;
mod gate;
mod gathered;
mod headers;
mod health;
mod router;

#[cfg(fuzzing)]
pub use check::decide;
pub use connection::HttpFrontEnd;
pub use gate::Gate;
