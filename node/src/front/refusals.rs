//! Clients that are being refused, of whom the oldest makes way to the next one.
//!
//! A client that sends its request at once, as a probe does, is answered in a moment, and one that
//! sends nothing is waited for. Each has a place until as many others as there are places have
//! come: clients that hold theirs keep none from being answered.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

type Refusal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a task finds its refusal; there is none once that has made way.
type Slot = Arc<Mutex<Option<Refusal>>>;

/// The refusals of a front-end for one reason, the oldest first.
#[derive(Clone, Debug)]
pub struct Refusals {
    /// How many there may be at a time; each has a file.
    most: usize,
    places: Arc<Mutex<VecDeque<Place>>>,
}

struct Place {
    slot: Slot,
    task: AbortHandle,
}

impl Refusals {
    pub fn new(most: usize) -> Self {
        Self { most, places: Arc::default() }
    }

    /// Refuses one more client, on one of these tasks. Where that makes too many, the oldest
    /// refusal is dropped before this returns, and its socket is closed.
    pub fn start(&self, refusal: impl Future<Output = ()> + Send + 'static, tasks: &TaskTracker) {
        if self.most == 0 {
            return;
        }
        let slot: Slot = Arc::new(Mutex::new(Some(Box::pin(refusal))));
        let oldest = {
            // Until it is released, the new task cannot have ended.
            let mut places = lock(&self.places);
            let oldest = if places.len() < self.most { None } else { places.pop_front() };
            let task = tasks.spawn(run(Arc::clone(&slot), self.clone())).abort_handle();
            places.push_back(Place { slot, task });
            oldest
        };
        if let Some(Place { slot, task }) = oldest {
            *lock(&slot) = None;
            // Nothing else wakes it.
            task.abort();
        }
    }

    fn leave(&self, slot: &Slot) {
        lock(&self.places).retain(|place| !Arc::ptr_eq(&place.slot, slot));
    }
}

/// Runs a refusal until it ends or has made way.
async fn run(slot: Slot, refusals: Refusals) {
    let held = Held { slot, refusals };
    poll_fn(|context| match &mut *lock(&held.slot) {
        Some(refusal) => refusal.as_mut().poll(context),
        None => Poll::Ready(()),
    })
    .await;
}

/// A refusal's place, which it leaves however its task ends, also by a panic.
struct Held {
    slot: Slot,
    refusals: Refusals,
}

impl Drop for Held {
    fn drop(&mut self) {
        *lock(&self.slot) = None;
        self.refusals.leave(&self.slot);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A refusal that panicked is not polled again, and no panic leaves a list half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("task", &self.task).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn the_oldest_makes_way_and_those_that_have_ended_need_not() {
        let (refusals, tasks) = (Refusals::new(2), TaskTracker::new());
        // Each ends when notified; whether it is still there is seen at its end of the channel.
        let start = || {
            let (end, ended) = oneshot::channel::<()>();
            refusals.start(async { drop(ended.await) }, &tasks);
            end
        };
        let (first, second) = (start(), start());
        assert!(!first.is_closed() && !second.is_closed());
        let third = start();
        assert!(first.is_closed() && !second.is_closed() && !third.is_closed());
        third.send(()).unwrap();
        // Its task ends in its turn.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let fourth = start();
        assert!(!second.is_closed() && !fourth.is_closed());
        second.send(()).unwrap();
        fourth.send(()).unwrap();
        tasks.close();
        // Also that of the one which has made way.
        tasks.wait().await;
        assert!(lock(&refusals.places).is_empty());
    }

    #[tokio::test]
    async fn without_a_place_a_client_is_closed_at_once() {
        let (end, ended) = oneshot::channel::<()>();
        let tasks = TaskTracker::new();
        Refusals::new(0).start(async { drop(ended.await) }, &tasks);
        assert!(end.is_closed() && tasks.is_empty());
    }
}
