//! The machine a report was made on.

use core::hint::black_box;
use std::time::Instant;
use std::{fs, thread};

use tidegate_engine::{Clock as _, TscClock};

/// One line: cores that may be used, the processor's name where the system tells, and how long a reading of the
/// time-stamp counter takes, which no check that reads it can be faster than. Takes some 50 ms.
#[must_use]
pub fn describe() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let model = fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let model = model.unwrap_or_else(|| "unknown processor".to_owned());
    let plural = if cores == 1 { "" } else { "s" };
    let (arch, reading) = (std::env::consts::ARCH, nanos_a_reading());
    format!("{cores} core{plural}, {model}, {arch}, {reading:.1} ns a reading of the counter")
}

/// The least of several rounds: whatever else runs only adds to it.
fn nanos_a_reading() -> f64 {
    const READINGS: u32 = 1_000_000;
    let clock = TscClock::new();
    let round = |_| {
        let start = Instant::now();
        for _ in 0..READINGS {
            black_box(clock.now());
        }
        start.elapsed().as_nanos() as f64 / f64::from(READINGS)
    };
    (0..5).map(round).fold(f64::INFINITY, f64::min)
}

/// How many threads were running or wanted to, averaged over the last minute, where the system
/// tells.
#[must_use]
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
