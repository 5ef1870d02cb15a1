//! Sleeping, on any runtime or none.

use core::future::Future;
use core::time::Duration;
#[cfg(feature = "std")]
use std::{
    sync::Arc,
    task::{Wake, Waker},
    thread::{self, Thread},
};

/// A timer for tasks: all that a limiter needs from a runtime.
///
/// After each sleep the limiter's clock is read, and the rest is slept again. So a timer that wakes
/// a task early starts nothing early; one that wakes late makes the start late.
///
/// On tokio:
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::wait::Timer;
/// use tidegate_engine::{Limiter, Quota};
///
/// struct Tokio;
///
/// impl Timer for Tokio {
///     type Sleep = tokio::time::Sleep;
///
///     fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
///         tokio::time::sleep(duration)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate_engine::BuildError> {
/// let limiter = Limiter::builder(Quota::per_second(1_000).burst(1)).capacity(100).build()?;
/// for _ in 0..3 {
///     let decision = limiter.acquire_on(&Tokio, "user:42", 1, Duration::from_secs(1)).await;
///     assert!(decision.is_allowed());
/// }
/// # Ok(())
/// # }
/// ```
pub trait Timer {
    /// Completes when the time has passed.
    type Sleep: Future<Output = ()>;

    /// Sleeps for `duration`, from this call on.
    fn sleep(&self, duration: Duration) -> Self::Sleep;
}

impl<T: Timer + ?Sized> Timer for &T {
    type Sleep = T::Sleep;

    fn sleep(&self, duration: Duration) -> T::Sleep {
        (**self).sleep(duration)
    }
}

/// A timer for any runtime: one thread, started by the first sleep and shared by the whole process,
/// wakes the tasks.
///
/// A sleep takes a heap allocation and a short lock of that thread's list. A runtime's own timers
/// cost less; see [`Timer`]. A single sleep ends after a day at the latest.
///
/// # Panics
/// When a sleep is polled and the operating system cannot start a thread for the timer.
#[cfg(feature = "acquire")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimer;

#[cfg(feature = "acquire")]
impl Timer for ThreadTimer {
    type Sleep = futures_timer::Delay;

    fn sleep(&self, duration: Duration) -> futures_timer::Delay {
        futures_timer::Delay::new(duration.min(LONGEST_SLEEP))
    }
}

/// The longest single sleep: a day, because timers fail to add long times to an instant. Longer
/// waits sleep again.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(86_400);

/// Sleeps for `rest`, measured only by the timer.
#[cfg(feature = "std")]
pub(crate) async fn sleep_for<T: Timer>(timer: &T, mut rest: Duration) {
    while !rest.is_zero() {
        let part = rest.min(LONGEST_SLEEP);
        timer.sleep(part).await;
        rest -= part;
    }
}

/// A waker that unparks the calling thread.
#[cfg(feature = "std")]
pub(crate) fn unpark_this_thread() -> Waker {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    Waker::from(Arc::new(Unpark(thread::current())))
}
