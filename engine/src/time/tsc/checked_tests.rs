use core::cell::Cell;
use std::time::Duration;

use super::*;

const SECOND: u64 = 1_000_000_000;
const YEAR: u64 = 365 * 24 * 3_600 * SECOND;
/// The two readings of a comparison may differ by the time that reading the system's clock takes.
const NEAR: u64 = 2_000;

/// A counter and a system's clock that are moved by hand.
#[derive(Debug)]
struct Machine {
    /// Real time in nanoseconds.
    real: Cell<u64>,
    /// The counter's ticks at real time 0, and per second.
    first_tick: Cell<u64>,
    hertz: u64,
    /// Parts in a million by which the counter is too fast.
    drift: i64,
    /// Nanoseconds the system's clock has been stopped for.
    suspended: Cell<u64>,
    /// Nanoseconds of real time that a reading of the system's clock takes, how many of the next
    /// readings are interrupted, and how many there were.
    look: Cell<u64>,
    interruptions: Cell<u32>,
    looks: Cell<u64>,
}

const INTERRUPTION: u64 = 30_000_000;

impl Machine {
    fn new(hertz: u64, drift: i64) -> Self {
        Self {
            real: Cell::new(YEAR),
            first_tick: Cell::new(0),
            hertz,
            drift,
            suspended: Cell::new(0),
            look: Cell::new(20),
            interruptions: Cell::new(0),
            looks: Cell::new(0),
        }
    }

    fn pass(&self, nanos: u64) {
        self.real.set(self.real.get() + nanos);
    }

    fn step(&self, nanos: i64) {
        let ticks = i128::from(nanos) * i128::from(self.hertz) / i128::from(SECOND);
        self.first_tick.set(self.first_tick.get().wrapping_add(ticks as u64));
    }

    /// The rate that an exact calibration finds.
    fn rate(&self) -> Rate {
        let nanos = (u128::from(SECOND) << Rate::TICKS_BITS) / u128::from(self.hertz);
        Rate::new(u64::try_from(nanos).unwrap()).unwrap()
    }

    fn clock(&self) -> Checked<&Self> {
        Checked::new(self, Some(self.rate()))
    }
}

impl TickSource for &Machine {
    fn ticks(&self) -> u64 {
        let real = u128::from(self.real.get());
        let nanos = real + real * u128::from(self.drift.unsigned_abs()) / 1_000_000;
        let nanos = if self.drift < 0 { 2 * real - nanos } else { nanos };
        let ticks = nanos * u128::from(self.hertz) / u128::from(SECOND);
        self.first_tick.get().wrapping_add(ticks as u64)
    }

    fn system_nanos(&self) -> u64 {
        self.looks.set(self.looks.get() + 1);
        let interruptions = self.interruptions.get();
        self.interruptions.set(interruptions.saturating_sub(1));
        // Alternately before and after the clock is read.
        let (before, after) = match (interruptions, self.looks.get() % 2) {
            (0, _) => (0, 0),
            (_, 0) => (INTERRUPTION, 0),
            _ => (0, INTERRUPTION),
        };
        self.pass(before + self.look.get() / 2);
        let now = self.real.get() - self.suspended.get();
        self.pass(after + self.look.get() / 2);
        now
    }
}

fn assert_near(found: u64, expected: u64, tolerance: u64) {
    assert!(found.abs_diff(expected) <= tolerance, "{found} is not near {expected}");
}

#[test]
fn a_good_counter_is_read_and_seldom_compared() {
    for hertz in [24_000_000, 1_000_000_000, 2_600_000_000, 6_000_000_000] {
        let machine = Machine::new(hertz, 0);
        let clock = machine.clock();
        let (start, looks) = (machine.real.get(), machine.looks.get());
        for _ in 0..10_000 {
            machine.pass(SECOND / 1_000);
            assert_near(clock.now(), machine.real.get() - start, NEAR);
        }
        assert!(!clock.is_fallback());
        let looks = machine.looks.get() - looks;
        assert!((70..=80).contains(&looks), "{looks} comparisons in 10 s");
    }
}

/// Every gap between readings from a microsecond to a year, at no drift, and at 50 parts in a
/// million either way, which crystals have.
#[test]
fn ten_years_at_a_crystals_drift_raise_no_alarm() {
    for drift in [0, 50, -50] {
        let machine = Machine::new(2_600_000_000, drift);
        let clock = machine.clock();
        let start = machine.real.get();
        let (mut gap, mut last) = (1_000, 0);
        while machine.real.get() - start < 10 * YEAR {
            machine.pass(gap);
            // Gaps grow slowly, and begin again when they reach half a year.
            gap = if gap < YEAR / 2 { gap + gap / 64 } else { SECOND / 7 };
            let now = clock.now();
            assert!(now >= last);
            last = now;
            let elapsed = machine.real.get() - start;
            assert_near(now, elapsed, NEAR + elapsed / 19_999);
            if elapsed > 9 * YEAR {
                machine.pass(YEAR / 2_000);
            }
        }
        // As often as a busy clock compares.
        for _ in 0..1_000_000 {
            machine.pass(INTERVAL_NANOS / 2);
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(!clock.is_fallback(), "at {drift} parts in a million");
    }
}

#[test]
fn readings_are_exact_to_a_part_in_ten_to_the_fifteenth() {
    for hertz in [24_000_000_u64, 999_999_999, 1_000_000_000, 2_599_999_937, 5_700_000_000] {
        let rate = Machine::new(hertz, 0).rate();
        for seconds in [1, 3_600, 50 * 365 * 86_400_u64] {
            let nanos = rate.nanos(hertz * seconds);
            let exact = seconds * SECOND;
            assert_near(nanos, exact, exact / 10_u64.pow(15) + 1);
        }
    }
}

#[test]
fn a_step_forward_is_found_before_it_is_reported() {
    for step in [3 * SECOND / 1_000, SECOND, 3_600 * SECOND, 100 * YEAR] {
        let machine = Machine::new(2_600_000_000, 0);
        let (clock, start) = (machine.clock(), machine.real.get());
        machine.pass(10 * SECOND);
        let before = clock.now();
        machine.step(step.cast_signed());
        let mut last = before;
        for _ in 0..1_000 {
            machine.pass(SECOND / 1_000);
            let now = clock.now();
            assert!(now >= last, "back from {last} to {now}");
            let elapsed = machine.real.get() - start;
            let ahead = now.saturating_sub(elapsed);
            assert!(ahead <= INTERVAL_NANOS.min(step) + NEAR, "{ahead} ns ahead after {step}");
            last = now;
        }
        assert!(clock.is_fallback(), "after {step}");
    }
}

#[test]
fn trap_time_runs_backwards() {
    for step in [3 * SECOND / 1_000, SECOND, 3_600 * SECOND, 5 * YEAR] {
        let machine = Machine::new(2_600_000_000, 0);
        let (clock, start) = (machine.clock(), machine.real.get());
        machine.pass(7_200 * SECOND);
        let before = clock.now();
        assert_near(before, machine.real.get() - start, NEAR);
        machine.step(-step.cast_signed());
        let mut least = u64::MAX;
        for _ in 0..1_000 {
            machine.pass(SECOND / 1_000);
            least = least.min(clock.now());
        }
        assert!(clock.is_fallback(), "after {step}");
        assert!(least >= before, "{least} after {before}");
        assert_near(clock.now(), machine.real.get() - start, NEAR);
    }
}

#[test]
fn small_steps_are_found_when_they_add_up() {
    let machine = Machine::new(2_600_000_000, 0);
    let clock = machine.clock();
    let mut steps = 0;
    while !clock.is_fallback() {
        machine.pass(INTERVAL_NANOS);
        machine.step(900_000);
        clock.now();
        steps += 1;
        assert!(steps <= 3, "{steps} steps of 0.9 ms went unnoticed");
    }
}

#[test]
fn a_wrong_calibration_is_found() {
    for drift in [600, -600, 5_000, -300_000] {
        let machine = Machine::new(2_600_000_000, drift);
        let clock = machine.clock();
        let mut last = 0;
        for _ in 0..100 {
            machine.pass(SECOND / 5);
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(clock.is_fallback(), "at {drift} parts in a million");
    }
}

#[test]
fn a_counter_that_goes_on_in_suspend_is_left_without_a_leap() {
    let machine = Machine::new(2_600_000_000, 0);
    let (clock, start) = (machine.clock(), machine.real.get());
    machine.pass(SECOND);
    let before = clock.now();
    machine.pass(30 * 86_400 * SECOND);
    machine.suspended.set(30 * 86_400 * SECOND);
    let after = clock.now();
    assert!(clock.is_fallback());
    assert!(after >= before && after - before <= INTERVAL_NANOS + NEAR);
    machine.pass(SECOND);
    let elapsed = machine.real.get() - start - machine.suspended.get();
    assert_near(clock.now(), elapsed, INTERVAL_NANOS + NEAR);
}

#[test]
fn a_counter_that_starts_anew_is_left() {
    let machine = Machine::new(2_600_000_000, 0);
    let (clock, start) = (machine.clock(), machine.real.get());
    machine.pass(3_600 * SECOND);
    let before = clock.now();
    let ticks = (&machine).ticks();
    machine.first_tick.set(machine.first_tick.get().wrapping_sub(ticks));
    assert!(clock.now() >= before);
    assert!(clock.is_fallback());
    assert_near(clock.now(), machine.real.get() - start, NEAR);
}

#[test]
fn a_counter_that_wraps_goes_on() {
    let machine = Machine::new(2_600_000_000, 0);
    machine.first_tick.set(0_u64.wrapping_sub((&machine).ticks()).wrapping_sub(5 * 2_600_000_000));
    let (clock, start) = (machine.clock(), machine.real.get());
    for _ in 0..1_000 {
        machine.pass(SECOND / 100);
        assert_near(clock.now(), machine.real.get() - start, NEAR);
    }
    assert!((&machine).ticks() < 6 * 2_600_000_000, "it has not wrapped");
    assert!(!clock.is_fallback());
}

/// Another processor's counter is a microsecond behind: before the origin, and before the last
/// comparison.
#[test]
fn a_processor_slightly_behind_raises_no_alarm() {
    let machine = Machine::new(2_600_000_000, 0);
    let clock = machine.clock();
    machine.step(-1_000);
    assert_eq!(clock.now(), 0);
    for step in 0..10_000_u32 {
        machine.pass(SECOND / 100);
        machine.step(if step % 2 == 0 { 1_000 } else { -1_000 });
        clock.now();
    }
    assert!(!clock.is_fallback());
}

/// Two processors read alternately, one of which is behind by more than the tolerance: this is
/// detected, and until then no reading is before another one by more than documented.
#[test]
fn processors_that_differ_are_found_out() {
    const MOST: u64 = INTERVAL_NANOS + STEP_NANOS.unsigned_abs();
    for apart in [2, 10, 50, 100, 130] {
        let apart = apart * 1_000_000;
        let machine = Machine::new(2_600_000_000, 0);
        let clock = machine.clock();
        // Short of the next comparison.
        machine.pass(INTERVAL_NANOS - 3_000_000);
        let (mut latest, mut back, mut readings) = (clock.now(), 0, 0);
        let mut read = || {
            readings += 1;
            machine.pass(100_000);
            machine.step(if readings % 2 == 1 { -apart } else { apart });
            let now = clock.now();
            back = back.max(latest - now.min(latest));
            latest = latest.max(now);
            now
        };
        while !clock.is_fallback() {
            assert!(read() < SECOND, "not detected");
        }
        let mut before = read();
        for _ in 0..10_000 {
            let now = read();
            assert!(now >= before, "{now} after {before}");
            before = now;
        }
        assert!(back > 0 && back <= MOST, "back by {back}, apart by {apart}");
    }
}

#[test]
fn interruptions_raise_no_alarm() {
    let machine = Machine::new(2_600_000_000, 0);
    machine.interruptions.set(5);
    let (clock, start) = (machine.clock(), machine.real.get());
    for step in 0..2_000 {
        machine.pass(INTERVAL_NANOS);
        // Sometimes every try of a comparison is interrupted.
        machine.interruptions.set(if step % 100 == 0 { 20 } else { step % 3 });
        let before = machine.real.get() - start;
        let now = clock.now();
        let after = machine.real.get() - start;
        // The clock was created while every reading was interrupted.
        assert!((before - INTERRUPTION..=after + INTERRUPTION).contains(&now));
    }
    assert!(!clock.is_fallback());
}

#[test]
fn without_a_rate_the_systems_clock_is_used() {
    let machine = Machine::new(2_600_000_000, 0);
    let clock = Checked::new(&machine, None);
    assert!(clock.is_fallback());
    machine.step(-10 * SECOND.cast_signed());
    let before = clock.now();
    machine.pass(SECOND);
    assert_near(clock.now() - before, SECOND, NEAR);
}

#[test]
fn impossible_rates_are_refused() {
    for nanos in [0, 1, 1 << 40, 1 << 63, u64::MAX] {
        assert_eq!(Rate::new(nanos), None, "{nanos}");
    }
}

#[test]
fn clones_fall_back_together() {
    let machine = Machine::new(2_600_000_000, 0);
    let clock = machine.clock();
    let clone = clock.clone();
    machine.step(Duration::from_secs(5).as_nanos() as i64);
    clock.now();
    assert!(clone.is_fallback());
    let now = clock.now();
    assert_near(clone.now(), now, NEAR);
}
