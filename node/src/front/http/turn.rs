//! How much is done for a client before others have their turn.

use hyper::body::Body;
use hyper::{Request, StatusCode};

use super::answer::Answer;

/// The work of a turn: as many small requests as hyper answers before it yields. That alone is not
/// enough: a task that is woken at once runs again before new input of others is looked for.
const TURN: u64 = 16;
/// The bytes of a body that take as much work as a small request.
const BODY_BYTES: u64 = 512;

/// What was done for a connection since others had their turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    work: u64,
}

impl Turn {
    /// Adds the work of a request. Whether it is that of a new turn.
    pub const fn begins_with(&mut self, work: u64) -> bool {
        let is_over = self.work >= TURN || work >= TURN;
        self.work = if is_over { work } else { self.work + work };
        is_over
    }

    /// Adds work.
    pub const fn add(&mut self, work: u64) {
        self.work = self.work.saturating_add(work);
    }

    /// Nothing more of the client has arrived. One that waits for each answer begins anew, unless
    /// the last one was a whole turn.
    pub const fn pause(&mut self) {
        if self.work < TURN {
            self.work = 0;
        }
    }
}

/// The work of a request.
pub fn work_of<B: Body>(request: &Request<B>) -> u64 {
    match request.uri().path() {
        // All that is known is written out.
        "/metrics" | "/v1/cluster" => TURN,
        _ => request.body().size_hint().upper().map_or(TURN, |bytes| 1 + bytes / BODY_BYTES),
    }
}

/// What an answer takes beyond that. A name that is meant is looked for among all limits, and
/// nobody has to be wrong often.
pub fn work_for(answer: &Answer) -> u64 {
    if answer.status() == StatusCode::NOT_FOUND { TURN } else { 0 }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
