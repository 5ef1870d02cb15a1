//! The cost of a key that the limiter has never seen.
//!
//! Every round of every limiter runs in a separate process, with a new limiter, so that no round
//! reuses memory that another one has touched and freed. The limiter gets the number of keys if it
//! supports that, and is timed only once built: page faults and growing are part of the cost of a
//! first check, reserving room in advance is not.

use crate::child;
use crate::entrant::{Entry, Round};
use crate::failure::Failure;
use crate::script::Script;
use crate::workloads::{Plan, Workload};

/// The flag under which this program measures one round of one limiter and prints it as JSON; its
/// value is the limiter's label. Threads, checks and seed have their usual flags.
pub const CHILD_FLAG: &str = "first-checks-of";

/// The amount of work in one round.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Threads, at least 1.
    pub threads: usize,
    /// Keys per thread, all distinct.
    pub checks: u32,
}

/// One round of the entry in a child process, started with `arguments` for the same amount.
///
/// # Errors
/// When the process fails; its reason is on standard error.
pub fn in_child(entry: &Entry, mut arguments: Vec<String>) -> Result<Round, Failure> {
    arguments.push(format!("--{CHILD_FLAG}={}", entry.label));
    let text = child::ask(&entry.label, &arguments)?;
    serde_json::from_str(&text)
        .map_err(|_| Failure::SetUp(format!("a round of {}: cannot read {text:?}", entry.label)))
}

/// One round of the entry in this process.
///
/// # Errors
/// When a check is denied, or the audit finds anything but first checks.
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
