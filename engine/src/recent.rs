//! A clock that is read for the price of a load.

use std::io;
use std::sync::Weak;
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::clock::{Clock, Timestamp, TscClock};
use crate::sync::{Arc, AtomicU64, Ordering};

/// A shared word that an upkeep thread sets to the time, every `interval` or as close to it as the
/// operating system wakes it. Clones read the same word; the thread ends within an interval of
/// the last clone's end.
///
/// Reading the time-stamp counter waits for loads that are under way, so beside checks that miss
/// the cache it costs many times its own price; this clock costs nothing there.
///
/// A reading is late by at most the time between two updates, the *staleness*. It costs a limiter
/// exactly this: admitted in `[s, t]` is at most `burst + rate * (t - s + staleness)`.
#[derive(Clone, Debug)]
pub struct RecentClock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Nanoseconds of the source; on a line that only upkeep writes.
    now: CachePadded<AtomicU64>,
    /// Nanoseconds.
    staleness: AtomicU64,
}

/// The shortest interval between updates.
pub const MIN_UPKEEP_INTERVAL: Duration = Duration::from_micros(10);
/// The longest interval between updates.
pub const MAX_UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

impl RecentClock {
    /// Starts a clock and its upkeep thread. `interval` is brought into
    /// [`MIN_UPKEEP_INTERVAL`]`..=`[`MAX_UPKEEP_INTERVAL`].
    ///
    /// # Errors
    /// When the operating system has no thread to give.
    pub fn start(interval: Duration) -> io::Result<Self> {
        let interval = interval.clamp(MIN_UPKEEP_INTERVAL, MAX_UPKEEP_INTERVAL);
        let source = TscClock::new();
        let start = source.now();
        let now = CachePadded::new(AtomicU64::new(start.as_nanos()));
        let shared = Arc::new(Shared { now, staleness: AtomicU64::new(0) });
        let upkept = Arc::downgrade(&shared);
        let thread = thread::Builder::new().name("tidegate-upkeep".to_owned());
        thread.spawn(move || upkeep(&upkept, &source, start, interval))?;
        Ok(Self { shared })
    }

    /// The longest time between two updates so far, the start included: what to put into the bound
    /// above. Zero until the first update.
    #[must_use]
    pub fn staleness(&self) -> Duration {
        // Relaxed: a statistic.
        Duration::from_nanos(self.shared.staleness.load(Ordering::Relaxed))
    }
}

impl Clock for RecentClock {
    const STALLS: bool = false;

    #[inline]
    fn now(&self) -> Timestamp {
        // Relaxed: the time guards no other memory. Coherence makes it monotone for each reader,
        // since its only writer never goes back.
        Timestamp::from_nanos(self.shared.now.load(Ordering::Relaxed))
    }
}

fn upkeep(upkept: &Weak<Shared>, source: &TscClock, start: Timestamp, interval: Duration) {
    let mut last = start;
    while let Some(shared) = upkept.upgrade() {
        // A counter that steps back stands still instead.
        let now = source.now().max(last);
        let gap = now.since(last).as_nanos() as u64;
        shared.staleness.fetch_max(gap, Ordering::Relaxed);
        shared.now.store(now.as_nanos(), Ordering::Relaxed);
        last = now;
        drop(shared);
        thread::sleep(interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_forward_and_tells_its_staleness() {
        let clock = RecentClock::start(Duration::ZERO).unwrap();
        let start = clock.now();
        let mut last = start;
        while last.since(start) < Duration::from_millis(2) {
            let now = clock.now();
            assert!(now >= last);
            last = now;
            thread::yield_now();
        }
        // Whether it was one gap or many, one of them is at least as long as the interval.
        while clock.staleness() < MIN_UPKEEP_INTERVAL {
            thread::yield_now();
        }
    }

    #[test]
    fn upkeep_ends_with_the_last_clone() {
        let clock = RecentClock::start(Duration::ZERO).unwrap();
        let shared = Arc::downgrade(&clock.shared);
        let clone = clock.clone();
        drop(clock);
        assert!(shared.upgrade().is_some());
        drop(clone);
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
