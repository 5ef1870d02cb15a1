//! The machine of a report.

use core::hint::black_box;
use std::time::Instant;
use std::{fs, thread};

use tidegate_engine::Clock as _;
use tidegate_engine::clock::TscClock;

/// One line: available cores, the processor's name if known, and the time of a reading of the
/// time-stamp counter, a lower bound for every check that reads it. Takes some 50 ms.
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

/// The minimum of several rounds: other load only adds to it.
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

/// The average number of runnable threads over the last minute, if the system reports it.
#[must_use]
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
