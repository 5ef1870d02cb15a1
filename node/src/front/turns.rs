//! Which connection runs next.

use std::num::NonZero;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

/// Connections that have used up their turn, for each processor, that may be in the runtime's queue
/// at a time: enough for none of its threads to wait for one.
const QUEUED: usize = 2;

/// A line of its own for connections that have used up their turn, or ask for much, and have
/// something to do, first come, first served. A few of them at a time stand in the runtime's queue.
/// So a client that sends now and then waits for a turn of these, and not for one of each that
/// never pauses.
#[derive(Debug)]
pub struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self(Semaphore::new(QUEUED * processors))
    }
}

impl Turns {
    /// Lets others run, until this connection is next.
    ///
    /// Cancel-safe: dropping the future gives up its place.
    pub async fn next(&self) {
        // Held while it stands in the runtime's queue, and no longer: the next one may be a
        // connection whose client then stalls.
        let permit = self.0.acquire().await;
        tokio::task::yield_now().await;
        drop(permit);
    }

    /// Lets no connection be next for as long as the result lives.
    #[cfg(test)]
    pub async fn stop(&self) -> impl Drop + '_ {
        let all = self.0.available_permits();
        self.0.acquire_many(all as u32).await.expect("it is never closed")
    }
}
