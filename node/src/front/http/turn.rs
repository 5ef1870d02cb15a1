//! How much is done for a client before others have their turn.

use hyper::body::Body;
use hyper::{Request, StatusCode};

use super::answer::Answer;

/// The work of a turn: as many small requests as hyper answers before it yields. That alone is not
/// enough: a task that is woken at once runs again before new input of others is looked for.
const TURN: u64 = 16;
/// The bytes of a body that take as much work as a small request.
const BODY_BYTES: u64 = 512;
/// The work of a body of unknown length.
const ANY_BODY: u64 = 4;
/// What a batch takes beyond its body: in each one a name that is meant may be looked for.
const BATCH: u64 = 3;

/// What was done for a connection since others had their turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    work: u64,
}

impl Turn {
    /// Adds the work of a request. Whether it is the first one of a new turn, before which others
    /// have theirs.
    pub const fn add_request(&mut self, work: u64) -> bool {
        let is_over = self.work > 0 && self.work.saturating_add(work) > TURN || work >= TURN;
        self.work = if is_over { work } else { self.work + work };
        is_over
    }

    /// Adds what answering it took beyond that.
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
    let body = || request.body().size_hint().upper().map_or(ANY_BODY, |bytes| bytes / BODY_BYTES);
    match request.uri().path() {
        // All that is known is written out.
        "/metrics" | "/v1/cluster" => TURN,
        "/v1/check-batch" => 1 + BATCH + body(),
        _ => 1 + body(),
    }
}

/// What an answer took beyond that. All limits are looked through for a name that is like an
/// unknown one, and a client can send any number of those.
pub fn work_for(answer: &Answer) -> u64 {
    if answer.status() == StatusCode::NOT_FOUND { TURN } else { 0 }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
