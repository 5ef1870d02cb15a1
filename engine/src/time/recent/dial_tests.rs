use core::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::time::ManualClock;

fn nanos(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// A dial and its source, both at `start`.
fn dial(start: u64) -> (Dial, ManualClock) {
    let source = ManualClock::new();
    source.set(nanos(start));
    (Dial::new(nanos(start)), source)
}

#[test]
fn the_first_reader_after_a_pause_reads_the_source() {
    let (dial, source) = dial(100);
    source.set(nanos(5_000_000));
    assert_eq!(dial.glance(), None);
    assert_eq!(dial.read(&source), nanos(5_000_000));
    source.set(nanos(5_000_700));
    assert_eq!(dial.glance(), Some(nanos(5_000_000)), "the next ones read the word");
    assert_eq!(dial.staleness(&source), 700, "a gap that still lasts counts");
    dial.close(&source);
    source.set(nanos(9_000_000));
    assert_eq!(dial.glance(), None);
    assert_eq!(dial.staleness(&source), 700, "no reader saw the longer gap");
    assert_eq!(dial.read(&source), nanos(9_000_000));
    assert_eq!(dial.staleness(&source), 700);
}

#[test]
fn ticks_that_no_reader_sees_do_not_count() {
    let (dial, source) = dial(0);
    for _ in 0..10 {
        source.advance(Duration::from_secs(1));
        dial.close(&source);
    }
    assert_eq!(dial.staleness(&source), 0);
}

#[test]
fn a_reader_does_late_upkeeps_work() {
    let (dial, source) = dial(0);
    source.set(nanos(10));
    assert_eq!(dial.read(&source), nanos(10));
    source.set(nanos(110));
    assert_eq!(dial.read_within(100, &source), nanos(10), "not late yet");
    source.set(nanos(111));
    assert_eq!(dial.read_within(100, &source), nanos(111));
    assert_eq!(dial.staleness(&source), 101);
}

#[test]
fn a_source_that_steps_back_stands_still() {
    let (dial, source) = dial(0);
    source.set(nanos(1_000));
    assert_eq!(dial.read(&source), nanos(1_000));
    dial.close(&source);
    source.set(nanos(400));
    for _ in 0..3 {
        assert_eq!(dial.read(&source), nanos(1_000));
        assert_eq!(dial.glance(), None, "it does not open before the time has passed");
        dial.close(&source);
    }
    source.set(nanos(1_001));
    assert_eq!(dial.read(&source), nanos(1_001));
    assert_eq!(dial.staleness(&source), 0);
}

#[test]
fn the_end_of_time_is_stood_upon() {
    let (dial, source) = dial(u64::MAX - 5);
    source.set(nanos(u64::MAX));
    let end = nanos(u64::MAX >> PHASE_BITS);
    assert_eq!((dial.read(&source), dial.read_within(1, &source)), (end, end));
    dial.close(&source);
    assert_eq!(dial.read(&source), end);
}

/// A source whose reading runs another thread's steps first: at the one place where a thread can be
/// stopped between two loads of the word.
struct Interrupted<'a, F> {
    source: &'a ManualClock,
    interrupt: RefCell<Option<F>>,
}

impl<'a, F: FnOnce()> Interrupted<'a, F> {
    fn new(source: &'a ManualClock, interrupt: F) -> Self {
        Self { source, interrupt: RefCell::new(Some(interrupt)) }
    }
}

impl<F: FnOnce()> Clock for Interrupted<'_, F> {
    fn now(&self) -> Timestamp {
        let now = self.source.now();
        let interrupt = self.interrupt.borrow_mut().take();
        if let Some(interrupt) = interrupt {
            interrupt();
        }
        now
    }
}

#[test]
fn an_interrupted_reader_does_not_turn_the_dial_back() {
    let (dial, source) = dial(0);
    source.set(nanos(100));
    let interrupted = Interrupted::new(&source, || {
        source.set(nanos(900));
        assert_eq!(dial.read(&source), nanos(900));
        dial.close(&source);
        source.set(nanos(950));
    });
    // Its own reading of 100 has been overtaken, so it reads again.
    assert_eq!(dial.read(&interrupted), nanos(950));
    assert_eq!(dial.glance(), Some(nanos(950)));
}

#[test]
fn interrupted_upkeep_leaves_the_gap_to_the_next_reader() {
    let (dial, source) = dial(0);
    source.set(nanos(100));
    assert_eq!(dial.read(&source), nanos(100));
    source.set(nanos(250));
    // Upkeep has closed the dial, read the source, and stops before it records the gap.
    let interrupted = Interrupted::new(&source, || {
        source.set(nanos(300));
        assert_eq!(dial.staleness(&source), 200, "the gap that is being closed counts");
        assert_eq!(dial.read(&source), nanos(300));
        assert_eq!(dial.staleness(&source), 200);
        source.set(nanos(310));
    });
    dial.close(&interrupted);
    assert_eq!(dial.staleness(&source), 200, "late upkeep finds its work done");
    assert_eq!(dial.read(&source), nanos(310));
}

/// Real threads: each reader records by how much it was late at most, measured before its reading,
/// and none may have been later than the dial says.
#[test]
fn no_reader_is_later_than_it_says() {
    const READINGS: u64 = 200_000;
    struct Steps(AtomicU64);
    impl Clock for Steps {
        fn now(&self) -> Timestamp {
            // Read and moved in one step, as time moves on while it is read.
            nanos(self.0.fetch_add(1, Ordering::SeqCst))
        }
    }
    let source = Steps(AtomicU64::new(1));
    let (dial, over) = (Dial::new(nanos(0)), AtomicBool::new(false));
    let (dial, source, over) = (&dial, &source, &over);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                dial.close(source);
                std::thread::yield_now();
            }
        });
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    let (mut latest, mut last) = (0, nanos(0));
                    for reading in 0..READINGS {
                        let before = source.now().as_nanos();
                        let now = if reading % 64 == 0 {
                            dial.read_within(100, source)
                        } else {
                            dial.glance().unwrap_or_else(|| dial.read(source))
                        };
                        assert!(now >= last, "{now:?} after {last:?}");
                        last = now;
                        latest = latest.max(before.saturating_sub(now.as_nanos()));
                        assert!(dial.staleness(source) >= latest);
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> =
            readers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        for outcome in outcomes {
            outcome.expect("a reader failed");
        }
    });
}
