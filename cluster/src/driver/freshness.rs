//! Whether the node's words are recent enough to decide from, for threads that decide.
//!
//! A process that was stopped goes on with all of its threads at once, so a thread cannot rely on
//! the driver having noticed: what it reads is not whether the node is current, but until when.
//!
//! | site | ordering | partner | what breaks if weaker | mutation that shows it |
//! |---|---|---|---|---|
//! | C1 the time is stored | release | C2: a thread that reads a later time sees what the driver has applied to the words before | a decision from a word as old as the stop | - |
//! | C2 the time is loaded | acquire | C1 | as C1 | - |
//! | C3 the time is loaded by the driver | relaxed | it has stored it itself | - | - |

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tidegate_engine::wait::{ThreadTimer, Timer as _};
use tokio::sync::Notify;

use crate::protocol::{CATCH_UP_WITHIN, Nanos};

/// A caller waits for this long, at most: longer than the driver waits for peers.
pub(super) const WAIT_WITHIN: Duration =
    Duration::from_nanos(CATCH_UP_WITHIN + CATCH_UP_WITHIN / 2);

/// Until when the node is current, on the protocol's clock. The driver stores it after each look at
/// the protocol, so it passes when the driver does not run.
#[derive(Debug)]
pub(super) struct Freshness {
    until: AtomicU64,
    /// Wakes the tasks that wait.
    is_current: Notify,
}

impl Freshness {
    /// Of a node to which no other node sends changes yet.
    pub(super) fn new() -> Self {
        Self { until: AtomicU64::new(Nanos::MAX), is_current: Notify::new() }
    }

    /// The present, and until when the node is current from now on; only the driver calls it.
    pub(super) fn set(&self, now: Nanos, until: Nanos) {
        let was = self.until.load(Ordering::Relaxed); // C3
        if was == until {
            return;
        }
        self.until.store(until, Ordering::Release); // C1
        if was <= now && now < until {
            self.is_current.notify_waiters();
        }
    }

    #[inline]
    pub(super) fn is_current(&self, now: impl FnOnce() -> Nanos) -> bool {
        let until = self.until.load(Ordering::Acquire); // C2
        until == Nanos::MAX || now() < until
    }

    /// Waits until the node is current, or a time has passed: by a timer that needs no runtime, as
    /// callers may be on any executor.
    pub(super) async fn wait(&self, within: Duration, now: impl Fn() -> Nanos) {
        if self.is_current(&now) {
            return;
        }
        let mut wait = pin!(async {
            loop {
                // It is woken by what is set after its creation, so what was set before is seen
                // here.
                let set = self.is_current.notified();
                if self.is_current(&now) {
                    return;
                }
                set.await;
            }
        });
        let mut passed = pin!(ThreadTimer.sleep(within));
        poll_fn(|context| match wait.as_mut().poll(context) {
            Poll::Pending => passed.as_mut().poll(context),
            Poll::Ready(()) => Poll::Ready(()),
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::task::{Context, Wake, Waker};
    use std::thread::{self, Thread};

    use super::*;

    #[test]
    fn a_time_that_passes_without_the_driver_ends_it() {
        let freshness = Freshness::new();
        assert!(freshness.is_current(|| Nanos::MAX), "the node receives nothing");
        freshness.set(5, 10);
        assert!(freshness.is_current(|| 9) && !freshness.is_current(|| 10));
        freshness.set(11, 0);
        assert!(!freshness.is_current(|| 0), "it is stale");
    }

    #[tokio::test]
    async fn waiters_go_on_when_the_node_is_current() {
        let (freshness, now) = (Freshness::new(), Cell::new(20));
        freshness.set(5, 10);
        let set_later = async {
            tokio::task::yield_now().await;
            freshness.set(20, 0);
            tokio::task::yield_now().await;
            now.set(30);
            freshness.set(30, 40);
        };
        tokio::join!(freshness.wait(Duration::MAX, || now.get()), set_later);
        assert!(freshness.is_current(|| now.get()));
    }

    /// Nor needs a runtime.
    #[test]
    fn no_caller_waits_for_ever() {
        let freshness = Freshness::new();
        freshness.set(5, 0);
        let mut wait = pin!(freshness.wait(Duration::from_millis(1), || 20));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        while wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            thread::park();
        }
        assert!(!freshness.is_current(|| 20));
    }

    /// Unparks a thread.
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
}
