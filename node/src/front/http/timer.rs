//! The timer by which hyper bounds the time of a head.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

use crate::front::deadline;

#[derive(Clone, Copy, Debug)]
pub struct DeadlineTimer;

struct DeadlineSleep(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl Timer for DeadlineTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(DeadlineSleep(Box::pin(deadline::passed(deadline.into()))))
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Future for DeadlineSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl Sleep for DeadlineSleep {}
