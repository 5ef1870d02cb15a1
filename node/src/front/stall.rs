//! How long a client's socket may take nothing of the replies that wait for it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::front::linger::LINGER;

/// How long the socket may take nothing of a connection that holds more than its part while room is
/// scarce.
pub const SCARCE_TIMEOUT: Duration = Duration::from_secs(2);

/// A socket that takes nothing.
#[derive(Debug)]
pub struct Stall {
    since: Instant,
    /// It is looked at again when that is over, as room may have become scarce, or no longer be.
    timer: Pin<Box<Sleep>>,
    /// The begin of a drain, if it may come.
    drain: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Since when the client of a node that drains need not be waited for.
    drained: Option<Instant>,
}

impl Stall {
    /// One that begins now.
    pub fn new(drain: Option<&CancellationToken>) -> Self {
        Self {
            since: Instant::now(),
            timer: Box::pin(sleep(SCARCE_TIMEOUT)),
            drain: drain.map(|drain| Box::pin(drain.clone().cancelled_owned())),
            drained: None,
        }
    }

    /// What the client has sent by the time of a drain is still being read: it has its time from
    /// now on.
    pub fn postpone_drain(&mut self) {
        if let Some(drained) = &mut self.drained {
            *drained = Instant::now();
        }
    }

    /// Ready once it has lasted too long: `timeout`; [`SCARCE_TIMEOUT`] where the connection
    /// `exceeds_its_part`; [`LINGER`] once the node drains.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        timeout: Duration,
        exceeds_its_part: impl Fn() -> bool,
    ) -> Poll<()> {
        loop {
            let drain = self.drain.as_mut();
            if drain.is_some_and(|drain| drain.as_mut().poll(context).is_ready()) {
                (self.drain, self.drained) = (None, Some(Instant::now()));
            }
            let now = Instant::now();
            let mut end = self.since + timeout;
            if let Some(drained) = self.drained {
                end = end.min(drained + LINGER);
            }
            if exceeds_its_part() {
                end = end.min(self.since + SCARCE_TIMEOUT);
            }
            if now >= end {
                return Poll::Ready(());
            }
            let look = end.min(now + SCARCE_TIMEOUT);
            if look < self.timer.deadline() || self.timer.is_elapsed() {
                self.timer.as_mut().reset(look);
            }
            ready!(self.timer.as_mut().poll(context));
        }
    }
}
