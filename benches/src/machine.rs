//! The machine a report was made on.

use std::fs;
use std::thread;

/// One line: cores that may be used, and the processor's name where the system tells.
#[must_use]
pub fn describe() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let model = fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let model = model.unwrap_or_else(|| "unknown processor".to_owned());
    let plural = if cores == 1 { "" } else { "s" };
    format!("{cores} core{plural}, {model}, {}", std::env::consts::ARCH)
}

/// How many threads were running or wanted to, averaged over the last minute, where the system
/// tells.
#[must_use]
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
