//! loom models of the dial: every interleaving within the stated bounds.
//!
//! Real time is a counter that each reading advances. The fences around a reading stand for what
//! physical time provides and memory orderings do not: a thread that reads a later time also sees
//! what was done at an earlier one.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use crate::explore::explore;
use crate::time::{Clock, Timestamp};

use super::dial::Dial;

#[derive(Clone)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1)))
    }

    /// Makes gaps longer than the readings alone would.
    fn pass(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Clock for Time {
    fn now(&self) -> Timestamp {
        fence(Ordering::SeqCst);
        let now = self.0.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Timestamp::from_nanos(now)
    }
}

/// Two readers and upkeep, within 3 preemptions a run: readings increase for each thread, and none
/// is older than the staleness admits.
#[test]
fn no_reader_is_later_than_the_dial_says() {
    explore(Some(3), || {
        let (dial, time) = (Arc::new(Dial::new(Timestamp::ORIGIN)), Time::new());
        let upkeep = {
            let (dial, time) = (Arc::clone(&dial), time.clone());
            thread::spawn(move || dial.close(&time))
        };
        let reader = {
            let (dial, time) = (Arc::clone(&dial), time.clone());
            thread::spawn(move || read_twice(&dial, &time))
        };
        read_twice(&dial, &time);
        upkeep.join().unwrap();
        reader.join().unwrap();
    });
}

/// A reader does the work of late upkeep while upkeep does it too.
#[test]
fn two_that_close_a_dial_record_its_gap() {
    explore(Some(4), || {
        let (dial, time) = (Arc::new(Dial::new(Timestamp::ORIGIN)), Time::new());
        let opened = dial.read(&time);
        time.pass(100);
        let upkeep = {
            let (dial, time) = (Arc::clone(&dial), time.clone());
            thread::spawn(move || dial.close(&time))
        };
        let before = time.now();
        let late = dial.glance().map(|seen| before.since(seen));
        if let Some(late) = late {
            assert!(u128::from(dial.staleness(&time)) >= late.as_nanos());
        }
        let now = dial.read_within(0, &time);
        assert!(now >= opened);
        if let Some(late) = late {
            assert!(u128::from(dial.staleness(&time)) >= late.as_nanos());
        }
        upkeep.join().unwrap();
        if let Some(late) = late {
            assert!(u128::from(dial.staleness(&time)) >= late.as_nanos());
        }
    });
}

fn read_twice(dial: &Dial, time: &Time) {
    let mut last = Timestamp::ORIGIN;
    for _ in 0..2 {
        let before = time.now();
        let now = dial.glance().unwrap_or_else(|| dial.read(time));
        assert!(now >= last);
        last = now;
        let late = before.since(now).as_nanos();
        assert!(u128::from(dial.staleness(time)) >= late);
    }
}
