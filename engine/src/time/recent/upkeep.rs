//! The recent clock and the thread that keeps it up.

use std::cell::Cell;
use std::io;
use std::sync::Weak;
use std::thread;
use std::time::Duration;

use crate::base::sync::Arc;
use crate::time::TscClock;
use crate::time::{Clock, Timestamp};

use super::dial::Dial;

/// A shared word that shows the time of the last reading of the time-stamp counter. Each `interval`
/// an upkeep thread requests a new reading, which the next reader takes. Clones read the same word;
/// the thread ends within an interval after the last clone is dropped.
///
/// Reading the time-stamp counter waits for outstanding loads, so between checks that miss the
/// cache it costs many times its own time; this clock costs nothing there.
///
/// A reading is late by at most the *staleness*. Its exact cost to a limiter: admitted in `[s, t]`
/// is at most `burst + rate * (t - s + staleness)`. The staleness is about an interval unless the
/// operating system wakes the upkeep thread late. Then readers do its work: every 251st reading of
/// a thread checks whether the interval is over. After a pause, however long, the first reader
/// reads the counter.
///
/// Readings of one thread never go back, nor do those of threads that synchronize in between.
#[derive(Clone, Debug)]
pub struct RecentClock {
    shared: Arc<SharedDial>,
}

#[derive(Debug)]
struct SharedDial {
    dial: Dial,
    source: TscClock,
    /// Nanoseconds.
    interval: u64,
}

/// The shortest interval between readings of the counter.
pub const MIN_UPKEEP_INTERVAL: Duration = Duration::from_micros(10);
/// The longest interval between readings of the counter.
pub const MAX_UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A reading of the counter costs up to 170 ns between checks that miss the cache, which is below 1
/// % of the cost of this many checks. A prime, so that a thread that reads several clocks in
/// rotation looks after each of them.
const READINGS_PER_LOOK: u32 = 251;

thread_local! {
    /// Readings of this thread until it checks whether upkeep is late.
    static UNTIL_LOOK: Cell<u32> = const { Cell::new(READINGS_PER_LOOK) };
}

impl RecentClock {
    /// Starts a clock and its upkeep thread. `interval` is brought into
    /// [`MIN_UPKEEP_INTERVAL`]`..=`[`MAX_UPKEEP_INTERVAL`].
    ///
    /// # Errors
    /// When the operating system cannot start a thread.
    pub fn start(interval: Duration) -> io::Result<Self> {
        let interval = interval.clamp(MIN_UPKEEP_INTERVAL, MAX_UPKEEP_INTERVAL);
        let source = TscClock::new();
        let dial = Dial::new(source.now());
        let shared = Arc::new(SharedDial { dial, source, interval: interval.as_nanos() as u64 });
        let upkept = Arc::downgrade(&shared);
        let thread = thread::Builder::new().name("tidegate-upkeep".to_owned());
        thread.spawn(move || upkeep(&upkept, interval))?;
        Ok(Self { shared })
    }

    /// The longest time by which any reading so far can have been late: the staleness of the bound
    /// above. Never below what a reader saw; above it by as much as the next reading of the counter
    /// came late.
    #[must_use]
    pub fn staleness(&self) -> Duration {
        let SharedDial { dial, source, .. } = &*self.shared;
        Duration::from_nanos(dial.staleness(source))
    }
}

impl Clock for RecentClock {
    #[inline]
    fn waits_for_loads(&self) -> bool {
        false
    }

    #[inline]
    fn now(&self) -> Timestamp {
        // Counted down in any case, in one instruction; a reading resets it.
        let until_look = UNTIL_LOOK.get();
        UNTIL_LOOK.set(until_look.wrapping_sub(1));
        match self.shared.dial.glance() {
            Some(now) if until_look > 0 => now,
            _ => self.shared.read(),
        }
    }
}

impl SharedDial {
    #[cold]
    #[inline(never)]
    fn read(&self) -> Timestamp {
        UNTIL_LOOK.set(READINGS_PER_LOOK);
        self.dial.read_within(self.interval, &self.source)
    }
}

fn upkeep(upkept: &Weak<SharedDial>, interval: Duration) {
    while let Some(shared) = upkept.upgrade() {
        shared.dial.close(&shared.source);
        drop(shared);
        thread::sleep(interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_forward_and_states_its_staleness() {
        let clock = RecentClock::start(Duration::ZERO).unwrap();
        let start = clock.now();
        let mut last = start;
        while last.since(start) < Duration::from_millis(2) {
            let now = clock.now();
            assert!(now >= last);
            last = now;
            thread::yield_now();
        }
        assert!(clock.staleness() > Duration::ZERO);
    }

    /// Only the reader moves this clock.
    #[test]
    fn readers_do_the_work_of_late_upkeep() {
        let source = TscClock::new();
        let shared = SharedDial { dial: Dial::new(source.now()), source, interval: 1 };
        let late = RecentClock { shared: Arc::new(shared) };
        let start = late.now();
        let readings = (0..1_000_000).take_while(|_| late.now() == start).count();
        assert!(readings <= READINGS_PER_LOOK as usize, "{readings}");
        let mut last = late.now();
        for _ in 0..10_000 {
            let now = late.now();
            assert!(now >= last);
            last = now;
        }
        assert!(last > start);
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
