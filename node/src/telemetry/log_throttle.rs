//! Lines of the log that clients can cause at will.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

/// Between two lines.
const EVERY: Duration = Duration::from_secs(1);
/// How long after a line it is said by itself how many were left out, where no other line follows.
const FLUSH_AFTER: Duration = Duration::from_secs(10);

/// Lets one line through a second, and counts the others.
#[derive(Debug)]
struct LogThrottle {
    last: Option<Instant>,
    left_out: u64,
    /// Whether a task waits to say how many were left out.
    is_waited_for: bool,
}

impl LogThrottle {
    const fn new() -> Self {
        Self { last: None, left_out: 0, is_waited_for: false }
    }

    /// Whether to say it: then with how many were left out since the last time.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }

    /// How many were left out, if it is time to say so by itself; else until when to wait.
    fn flush(&mut self, now: Instant) -> Result<u64, Instant> {
        match self.last.map(|last| last + FLUSH_AFTER) {
            Some(end) if now < end => Err(end),
            _ => {
                self.is_waited_for = false;
                Ok(std::mem::take(&mut self.left_out))
            }
        }
    }
}

/// The throttle of a line that all connections can cause.
#[derive(Debug)]
pub struct SharedLogThrottle {
    /// What the lines are about, in the plural.
    about: &'static str,
    throttle: Mutex<LogThrottle>,
}

impl SharedLogThrottle {
    pub const fn new(about: &'static str) -> Self {
        Self { about, throttle: Mutex::new(LogThrottle::new()) }
    }

    /// Whether to say it: then with how many were left out since the last time. Where that is never
    /// said with a line, it is by itself after a while.
    pub fn admit(&'static self) -> Option<u64> {
        Self::admit_by(&self)
    }

    /// The same of one that is no static.
    pub fn admit_shared(self: &Arc<Self>) -> Option<u64> {
        Self::admit_by(self)
    }

    fn admit_by(this: &(impl Deref<Target = Self> + Clone + Send + 'static)) -> Option<u64> {
        let mut throttle = this.lock();
        let admitted = throttle.admit(Instant::now());
        if throttle.left_out > 0
            && !throttle.is_waited_for
            && let Ok(runtime) = Handle::try_current()
        {
            throttle.is_waited_for = true;
            runtime.spawn(Self::flush(this.clone()));
        }
        admitted
    }

    /// Says how many were left out, once no line has followed for a while.
    async fn flush(this: impl Deref<Target = Self>) {
        let left_out = loop {
            let flushed = this.lock().flush(Instant::now());
            match flushed {
                Ok(left_out) => break left_out,
                Err(end) => sleep_until(end).await,
            }
        };
        if left_out > 0 {
            tracing::warn!(left_out, "left out of the log: {}", this.about);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogThrottle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::testing::Captured;

    #[test]
    fn one_line_a_second_says_how_many_it_stands_for() {
        let (mut throttle, start) = (LogThrottle::new(), Instant::now());
        let mut at = |millis| throttle.admit(start + Duration::from_millis(millis));
        assert_eq!(
            [0, 10, 990, 1_000, 2_500].map(&mut at),
            [Some(0), None, None, Some(2), Some(0)]
        );
    }

    /// As of a burst that nothing follows.
    #[tokio::test(start_paused = true)]
    async fn how_many_were_left_out_is_said_although_nothing_follows() {
        let throttle = Arc::new(SharedLogThrottle::new("tests"));
        let log = Captured::start();
        assert_eq!([(); 3].map(|()| throttle.admit_shared()), [Some(0), None, None]);
        tokio::time::sleep(FLUSH_AFTER / 2).await;
        // The time begins anew with each line, which says it first.
        assert_eq!([(); 3].map(|()| throttle.admit_shared()), [Some(2), None, None]);
        tokio::time::sleep(FLUSH_AFTER * 9 / 10).await;
        assert_eq!(log.text(), "");
        tokio::time::sleep(2 * EVERY).await;
        let text = log.text();
        assert!(text.ends_with("left out of the log: tests left_out=2\n"), "{text}");
        // Nothing is said twice, nor where nothing was left out.
        assert_eq!(throttle.admit_shared(), Some(0));
        tokio::time::sleep(2 * FLUSH_AFTER).await;
        assert_eq!(log.text(), text);
        assert_eq!([(); 2].map(|()| throttle.admit_shared()), [Some(0), None]);
        tokio::time::sleep(2 * FLUSH_AFTER).await;
        assert_eq!(log.text().lines().count(), 2, "{}", log.text());
    }
}
