//! loom models of the checked counter: every interleaving of two threads.

use loom::thread;

use crate::explore::explore;

use super::checked::{Checked, INTERVAL_NANOS, Rate, TickSource};

/// What both clocks show at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Moment {
    counter: u64,
    system: u64,
}

const ORIGIN: Moment = Moment { counter: 0, system: 0 };
const SECOND: u64 = 1_000_000_000;

impl TickSource for Moment {
    fn ticks(&self) -> u64 {
        self.counter
    }

    fn system_nanos(&self) -> u64 {
        self.system
    }
}

/// A clock whose ticks are nanoseconds.
fn clock() -> Checked<Moment> {
    Checked::new(ORIGIN, Rate::new(1 << Rate::TICKS_BITS))
}

/// The readings of two threads at two moments.
fn readings(clock: &Checked<Moment>, moments: [Moment; 2]) -> [u64; 2] {
    moments
        .map(|moment| {
            let clock = clock.at(moment);
            thread::spawn(move || clock.now())
        })
        .map(|thread| thread.join().unwrap())
}

/// The counter has leapt: whichever thread notices, both continue where the next comparison was
/// due, which is the latest time that can have been returned from the counter.
#[test]
fn a_fallback_is_seen_with_its_lag() {
    explore(None, || {
        let clock = clock();
        let leapt = Moment { counter: 1_000 * SECOND, system: INTERVAL_NANOS / 2 };
        assert_eq!(readings(&clock, [leapt; 2]), [INTERVAL_NANOS; 2]);
        assert!(clock.is_fallback());
    });
}

/// After a long rest the clocks have drifted apart by seconds, as they may. A thread that compares
/// shortly after another one does not take this for a step, even if it reads the old lag.
#[test]
fn a_comparison_is_no_step_for_the_next() {
    explore(None, || {
        let clock = clock();
        let rested = Moment { counter: 36_000 * SECOND, system: 36_010 * SECOND };
        let later = 2 * INTERVAL_NANOS;
        let then = Moment { counter: rested.counter + later, system: rested.system + later };
        assert_eq!(readings(&clock, [rested, then]), [rested.counter, then.counter]);
        assert!(!clock.is_fallback());
    });
}

/// A thread finds that the counter has stopped, while another one, after a long rest, finds the
/// clocks ten seconds apart, as they may be. However long the first one was stopped in between,
/// time continues from what the second one read.
#[test]
fn a_late_fallback_goes_on_from_the_last_comparison() {
    explore(None, || {
        let clock = clock();
        let stopped = Moment { counter: SECOND, system: 5 * SECOND };
        let rested = Moment { counter: 36_010 * SECOND, system: 36_000 * SECOND };
        let [_, read] = readings(&clock, [stopped, rested]);
        assert!(clock.is_fallback());
        let system = rested.system + SECOND;
        let next = clock.at(Moment { counter: 0, system }).now();
        assert!(next >= read, "back from {read} to {next}");
        assert!(next <= rested.counter + SECOND, "{next} is ahead of both clocks");
    });
}
