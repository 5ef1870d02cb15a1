//! A log whose callers are delayed between reading the clock and deciding.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tidegate_engine::Clock;
use tidegate_engine::clock::Timestamp;
use tidegate_engine::counter::SlidingLog;

const WINDOW: Duration = Duration::from_nanos(50);

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// Shows each of a list of times once, then the last one.
struct Script {
    times: &'static [u64],
    readings: AtomicU64,
}

impl Clock for Script {
    fn now(&self) -> Timestamp {
        let reading = self.readings.fetch_add(1, Ordering::Relaxed);
        let last = self.times.len() - 1;
        at(self.times[usize::try_from(reading).unwrap().min(last)])
    }
}

/// A full log of two units, of 200 and 210, under a clock that shows these times.
fn full(times: &'static [u64]) -> SlidingLog<Script> {
    let clock = Script { times, readings: AtomicU64::new(0) };
    let log = SlidingLog::with_clock(2, WINDOW, clock).unwrap();
    for time in [200, 210] {
        assert!(log.check_at(1, at(time)).is_allowed());
    }
    log
}

fn readings(log: &SlidingLog<Script>) -> u64 {
    log.clock().readings.load(Ordering::Relaxed)
}

#[test]
fn trap_time_runs_backwards_between_threads() {
    let log = full(&[100, 255]);
    let decision = log.check();
    assert!(decision.is_allowed());
    assert_eq!((decision.remaining(), decision.reset_after()), (0, WINDOW));
    assert_eq!(readings(&log), 2);
}

#[test]
fn a_denial_at_the_newest_unit_or_later_is_final() {
    let log = full(&[210, 300]);
    let wait = Duration::from_nanos(40);
    assert_eq!(log.check().retry_after(), Some(wait));
    assert_eq!(readings(&log), 1);
}

#[test]
fn a_time_that_the_caller_gives_is_not_read_again() {
    let log = full(&[300]);
    let wait = Duration::from_nanos(150);
    assert_eq!(log.check_at(1, at(100)).retry_after(), Some(wait));
    assert_eq!(readings(&log), 0);
}

/// No other call is admitted between the readings, so the clock has gone back: one more reading,
/// and an answer.
#[test]
fn trap_time_runs_backwards() {
    let log = full(&[100, 101, 102, 103]);
    let wait = Duration::from_nanos(149);
    assert_eq!(log.check().retry_after(), Some(wait));
    assert_eq!(readings(&log), 2);
}

#[test]
fn a_cost_that_never_fits_reads_the_clock_once() {
    let log = full(&[100, 300]);
    assert_eq!(log.check_n(3).retry_after(), None);
    assert_eq!(readings(&log), 1);
}

/// Delays its reader while others exhaust the log, a given number of times.
struct HeldUp {
    log: OnceLock<Weak<SlidingLog<Self>>>,
    readings: AtomicU64,
    times: u64,
}

impl Clock for HeldUp {
    fn now(&self) -> Timestamp {
        let reading = self.readings.fetch_add(1, Ordering::Relaxed) + 1;
        if reading <= self.times {
            let log = self.log.get().and_then(Weak::upgrade).unwrap();
            assert!(log.check_at(2, at(reading * 100 + 40)).is_allowed());
        }
        at(reading * 100)
    }
}

#[test]
fn a_thread_that_is_held_up_again_and_again_reads_as_often() {
    let clock = HeldUp { log: OnceLock::new(), readings: AtomicU64::new(0), times: 5 };
    let log = Arc::new(SlidingLog::with_clock(2, WINDOW, clock).unwrap());
    log.clock().log.set(Arc::downgrade(&log)).unwrap();
    assert!(log.check().is_allowed());
    assert_eq!(log.clock().readings.load(Ordering::Relaxed), 6);
}
