//! Deadlines of clients.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// A time that is noticed as late as this passed while the node did not run: as much more is given
/// then.
pub const NOTICED_LATE: Duration = Duration::from_millis(100);

/// When a client must have sent something. Where that is noticed late it is put off once, and not
/// again: what has come meanwhile is read first.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    is_put_off: bool,
}

impl Deadline {
    /// One in this time.
    pub fn within(time: Duration) -> Self {
        Self { at: Instant::now() + time, is_put_off: false }
    }

    pub const fn at(&self) -> Instant {
        self.at
    }

    /// Puts it off by [`NOTICED_LATE`] if it has been over for as long, for the first time: whether
    /// it is.
    pub fn put_off(&mut self) -> bool {
        let puts_off = !self.is_put_off && self.is_late();
        if puts_off {
            *self = Self { is_put_off: true, ..Self::within(NOTICED_LATE) };
        }
        puts_off
    }

    fn is_late(&self) -> bool {
        self.at.elapsed() >= NOTICED_LATE
    }
}

/// Ends at a time, or somewhat later where that is noticed late: a node that was stopped, or whose
/// machine was, notices first how late it is, and only then what has come meanwhile.
pub async fn passed(deadline: Instant) {
    sleep_until(deadline).await;
    if deadline.elapsed() >= NOTICED_LATE {
        sleep(NOTICED_LATE).await;
    }
}

/// A timer of a task that is woken by much else: a poll before its time costs two comparisons.
#[derive(Debug)]
pub struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// What is woken at its time.
    waker: Option<Waker>,
}

impl Alarm {
    pub fn new() -> Self {
        Self { sleep: Box::pin(sleep(Duration::ZERO)), waker: None }
    }

    /// As [`passed`]. Cancel-safe: it may be called anew.
    pub async fn passed(&mut self, deadline: Instant) {
        self.until(deadline).await;
        if deadline.elapsed() >= NOTICED_LATE {
            self.until(Instant::now() + NOTICED_LATE).await;
        }
    }

    async fn until(&mut self, deadline: Instant) {
        self.sleep.as_mut().reset(deadline);
        self.waker = None;
        poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_set = |waker: &Waker| waker.will_wake(context.waker());
        if !self.sleep.is_elapsed() && self.waker.as_ref().is_some_and(is_set) {
            return Poll::Pending;
        }
        self.waker = Some(context.waker().clone());
        // Else, with no budget left, it might be pending and have registered nothing.
        pin!(unconstrained(self.sleep.as_mut())).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_noticed_late_is_put_off_once() {
        let mut deadline = Deadline::within(NOTICED_LATE);
        advance(NOTICED_LATE * 19 / 10).await;
        assert!(!deadline.put_off(), "it is over, and noticed in time");
        advance(NOTICED_LATE / 10).await;
        assert!(deadline.put_off());
        assert_eq!(deadline.at(), Instant::now() + NOTICED_LATE);
        advance(10 * NOTICED_LATE).await;
        assert!(deadline.is_late() && !deadline.put_off(), "again");
    }
}
