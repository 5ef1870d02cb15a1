//! The HTTP front-end: `connection` serves HTTP/1, `gathered` sends the answers, `router`
//! dispatches by path and method what `gate` lets through, with what `routes` answer from. `check`
//! answers a check, with the fields of `headers`, and `batch` many at once: `body` reads what
//! clients send, `asked` is a check as they write it, `reply` writes decisions. `health` answers
//! probes, `answer` builds answers, `timer` ends what takes too long.

mod answer;
mod asked;
mod batch;
mod body;
mod check;
mod connection;
mod gate;
mod gathered;
mod headers;
mod health;
mod reply;
mod router;
mod routes;
mod timer;

#[cfg(fuzzing)]
pub use batch::decide as decide_batch;
#[cfg(fuzzing)]
pub use check::decide;
pub use connection::HttpFrontEnd;
pub use gate::Gate;
