//! The memory that live keys take.
//!
//! What is measured is the growth of the process's resident memory (`Rss` of
//! `/proc/self/smaps_rollup`) from before a limiter is built until all keys are live: allocator
//! overhead, room kept for growth, and only such pages of a table as were touched. Each limiter is
//! measured in a fresh process, so that none inherits memory another one freed.

use std::env;
use std::fs;
use std::process::Command;

use crate::audit;
use crate::contenders::{Contender, GovernorString, Precise};
use crate::failure::Failure;
use crate::warm_up::warm_up;
use crate::workloads::Plan;

/// The flag under which this program measures one limiter and prints bytes; its value is the
/// limiter's name.
pub const CHILD_FLAG: &str = "memory-of";

/// Resident bytes that a limiter's live keys take.
#[derive(Clone, Copy, Debug)]
pub struct Footprints {
    /// Live keys.
    pub keys: usize,
    /// Ours.
    pub ours_bytes: u64,
    /// The peer's.
    pub peer_bytes: u64,
}

/// Measures both limiters, each in a process of its own.
///
/// # Errors
/// When a process fails; its reason is on standard error.
pub fn compare(keys: usize) -> Result<Footprints, Failure> {
    let ours_bytes = in_child(Precise::NAME)?;
    let peer_bytes = in_child(GovernorString::NAME)?;
    Ok(Footprints { keys, ours_bytes, peer_bytes })
}

/// Measures the limiter called `name` in this process, which must not have run anything else.
///
/// # Errors
/// When there is no such limiter, a key is denied or lost, or the system does not tell.
pub fn measure(name: &str, keys: usize) -> Result<u64, Failure> {
    match name {
        Precise::NAME => growth::<Precise>(keys),
        GovernorString::NAME => growth::<GovernorString>(keys),
        _ => Err(Failure::SetUp(format!("no limiter is called {name}"))),
    }
}

fn in_child(name: &str) -> Result<u64, Failure> {
    let failed = |what: String| Failure::SetUp(format!("memory of {name}: {what}"));
    let program = env::current_exe().map_err(|error| failed(error.to_string()))?;
    let output = Command::new(program)
        .arg(format!("--{CHILD_FLAG}={name}"))
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| failed(format!("can not read {text:?}")))
}

fn growth<C: Contender>(keys: usize) -> Result<u64, Failure> {
    let plan = Plan::allowing(keys, 1)?;
    let order: Vec<u32> = (0..keys as u32).collect();
    let before = resident_bytes()?;
    let contender = C::build(&plan)?;
    warm_up(&contender, &plan, &order)?;
    let after = resident_bytes()?;
    audit::live_keys(&contender, &plan)?;
    Ok(after.saturating_sub(before))
}

/// Exact, unlike `statm`, whose counters the kernel updates in batches.
fn resident_bytes() -> Result<u64, Failure> {
    const SOURCE: &str = "/proc/self/smaps_rollup";
    let text =
        fs::read_to_string(SOURCE).map_err(|error| Failure::SetUp(format!("{SOURCE}: {error}")))?;
    let kibibytes = parse_rss(&text);
    let kibibytes = kibibytes.ok_or_else(|| Failure::SetUp(format!("{SOURCE}: no line `Rss`")))?;
    Ok(kibibytes * 1024)
}

fn parse_rss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
