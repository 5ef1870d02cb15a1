//! The memory of live keys.
//!
//! Measured is the growth of the process's resident memory (`Rss` of `/proc/self/smaps_rollup`)
//! from before a limiter is built until all keys are live: it includes allocator overhead and spare
//! room, but only the touched pages of a table. Each limiter is measured in a fresh process, so
//! that none reuses memory freed by another.

use std::fs;

use crate::audit;
use crate::child;
use crate::contenders::{Contender, Label};
use crate::failure::Failure;
use crate::warm_up::warm_up;
use crate::workloads::Plan;

/// The flag under which this program measures one limiter and prints bytes; its value is the
/// limiter's label.
pub const CHILD_FLAG: &str = "memory-of";

/// Resident bytes of a limiter's live keys, measured in a child process.
///
/// # Errors
/// When the process fails; its reason is on standard error.
pub fn in_child(label: &Label) -> Result<u64, Failure> {
    let text = child::ask(label, &[format!("--{CHILD_FLAG}={label}")])?;
    text.parse().map_err(|_| Failure::SetUp(format!("memory of {label}: cannot read {text:?}")))
}

/// The growth of resident memory while a limiter is built and `keys` keys become live.
///
/// # Errors
/// When a key is denied or lost, or the system does not report its memory.
pub fn growth<C: Contender>(keys: usize) -> Result<u64, Failure> {
    let plan = Plan::allowing(keys, 1)?;
    let order: Vec<u32> = (0..keys as u32).collect();
    let before = resident_bytes("self")?;
    let contender = C::build(&plan)?;
    warm_up(&contender, &plan, &order)?;
    let after = resident_bytes("self")?;
    audit::live_keys(&contender, &plan)?;
    Ok(after.saturating_sub(before))
}

/// The resident memory of a process, which is named as in `/proc`. Exact, unlike `statm`, whose
/// counters the kernel updates in batches.
///
/// # Errors
/// When the system does not report it.
pub fn resident_bytes(process: &str) -> Result<u64, Failure> {
    let source = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&source)
        .map_err(|error| Failure::SetUp(format!("{source}: {error}")))?;
    let kibibytes = parse_rss(&text);
    let kibibytes = kibibytes.ok_or_else(|| Failure::SetUp(format!("{source}: no line `Rss`")))?;
    Ok(kibibytes * 1024)
}

fn parse_rss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
