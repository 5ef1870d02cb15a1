//! Measuring in a child process.

use std::env;
use std::process::{Command, Stdio};

use crate::contenders::Label;
use crate::failure::Failure;

/// Runs this program with `arguments` in a child process, to measure the limiter of
/// this label; returns its output, trimmed.
///
/// # Errors
/// When the process fails; its reason is on standard error.
pub fn ask(label: &Label, arguments: &[String]) -> Result<String, Failure> {
    let failed = |what: String| Failure::SetUp(format!("a process for {label}: {what}"));
    let program = env::current_exe().map_err(|error| failed(error.to_string()))?;
    let output = Command::new(program)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
