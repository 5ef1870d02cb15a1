//! The HTTP front-end: `connection` serves HTTP/1 on a `socket`, whose writes are `coalesced`;
//! `router` dispatches by path and method what `gate` lets through, with what `routes` answer from.
//! `check` answers a check, with the fields of `headers`, and `batch` many at once: `body` reads
//! what clients send, `asked` is a check as they write it, `reply` writes decisions. `health`
//! answers probes, `answer` builds answers, `head` bounds how long a head may take, `turn` what is
//! done for a client before others have their turn.

mod answer;
mod asked;
mod batch;
mod body;
mod check;
mod coalesced;
mod connection;
mod gate;
mod head;
mod headers;
mod health;
mod refused;
mod reply;
mod router;
mod routes;
mod socket;
mod turn;

#[cfg(fuzzing)]
pub use batch::decide as decide_batch;
#[cfg(fuzzing)]
pub use check::decide;
pub use connection::HttpFrontEnd;
pub use gate::Gate;
