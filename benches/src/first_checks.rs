//! The price of a key that the limiter has never seen.
//!
//! Every round of every limiter runs in a process of its own, with a new limiter, so that no round
//! finds memory that another one has taken into use and freed. The limiter is told how many keys
//! will come if it can be told, and is not timed until it is built: taking memory into use and
//! growing are part of the price of a first check, reserving room in advance is not.

use crate::child;
use crate::entrant::{Entry, Round};
use crate::failure::Failure;
use crate::script::Script;
use crate::workloads::{Plan, Workload};

/// The flag under which this program measures one round of one limiter and prints it as JSON; its
/// value is the limiter's label. Threads, checks and seed are given as everywhere.
pub const CHILD_FLAG: &str = "first-checks-of";

/// How much is run in one round.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Threads, at least 1.
    pub threads: usize,
    /// Keys that each thread checks, all different.
    pub checks: u32,
}

/// One round of the entry in a process of its own, started with `arguments` for the same amount.
///
/// # Errors
/// When the process fails; its reason is on standard error.
pub fn in_child(entry: &Entry, mut arguments: Vec<String>) -> Result<Round, Failure> {
    arguments.push(format!("--{CHILD_FLAG}={}", entry.label));
    let text = child::ask(entry, &arguments)?;
    serde_json::from_str(&text)
        .map_err(|_| Failure::SetUp(format!("a round of {}: can not read {text:?}", entry.label)))
}

/// One round of the entry in this process.
///
/// # Errors
/// When a check is denied, or what happened is something else than first checks.
pub fn measure(entry: &Entry, amount: Amount) -> Result<Round, Failure> {
    let Amount { threads, checks } = amount;
    let plan = Plan::allowing(threads * checks as usize, 1)?;
    let mut scripts = Vec::with_capacity(threads);
    for thread in 0..threads {
        let mut script = Script::new(Workload::NewKey, plan.keys, checks, 0, thread)?;
        script.redraw(|_, _| ());
        scripts.push(script);
    }
    (entry.first_checks)(&plan, &scripts)
}
