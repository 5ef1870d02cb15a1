//! Waiting without a real clock or a runtime: a timer driven by a manual clock, and an executor
//! that records which tasks woke, and how often.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tidegate_engine::clock::Timestamp;
use tidegate_engine::wait::Timer;
use tidegate_engine::{Clock, ManualClock};

pub mod line;

/// Completes sleeps when its clock is moved.
#[derive(Clone)]
pub struct ManualTimer {
    pub clock: ManualClock,
    sleeps: Arc<Mutex<BTreeMap<(Timestamp, u64), Waker>>>,
    begun: Arc<AtomicU64>,
}

impl ManualTimer {
    pub fn new() -> Self {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_nanos(1_000_000_000));
        Self { clock, sleeps: Arc::default(), begun: Arc::default() }
    }

    /// Moves the clock and wakes the sleeps that have ended.
    pub fn advance(&self, duration: Duration) {
        self.clock.advance(duration);
        let now = self.clock.now();
        let due = {
            let mut sleeps = self.sleeps.lock().unwrap();
            let later = sleeps.split_off(&(now.saturating_add(Duration::from_nanos(1)), 0));
            std::mem::replace(&mut *sleeps, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// Sleeps that have not ended.
    pub fn sleeping(&self) -> usize {
        self.sleeps.lock().unwrap().len()
    }

    /// Sleeps begun so far.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }
}

impl Timer for ManualTimer {
    type Sleep = ManualSleep;

    fn sleep(&self, duration: Duration) -> ManualSleep {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let until = self.clock.now().saturating_add(duration);
        ManualSleep { timer: self.clone(), at: (until, number) }
    }
}

pub struct ManualSleep {
    timer: ManualTimer,
    at: (Timestamp, u64),
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut sleeps = self.timer.sleeps.lock().unwrap();
        if self.timer.clock.now() >= self.at.0 {
            sleeps.remove(&self.at);
            return Poll::Ready(());
        }
        sleeps.insert(self.at, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        self.timer.sleeps.lock().unwrap().remove(&self.at);
    }
}

/// Wakes not yet followed by a poll, and all wakes.
#[derive(Default)]
struct Wakes {
    pending: AtomicU64,
    all: AtomicU64,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.pending.fetch_add(1, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that is polled by hand.
pub struct Task<'t, T> {
    future: Pin<Box<dyn Future<Output = T> + 't>>,
    wakes: Arc<Wakes>,
}

impl<'t, T> Task<'t, T> {
    pub fn new(future: impl Future<Output = T> + 't) -> Self {
        Self { future: Box::pin(future), wakes: Arc::default() }
    }

    /// The task after its first poll, which does not finish it.
    pub fn begun(future: impl Future<Output = T> + 't) -> Self {
        let mut task = Self::new(future);
        assert!(task.poll().is_none(), "it does not wait");
        task
    }

    pub fn poll(&mut self) -> Option<T> {
        self.wakes.pending.store(0, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.wakes));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Polls if it has been woken since the last poll.
    pub fn poll_if_woken(&mut self) -> Option<T> {
        if self.is_woken() { self.poll() } else { None }
    }

    pub fn is_woken(&self) -> bool {
        self.wakes.pending.load(Ordering::SeqCst) > 0
    }

    pub fn wakes(&self) -> u64 {
        self.wakes.all.load(Ordering::SeqCst)
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A minimal executor.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}
