//! The `tidegate` node: limits Redis clients and HTTP callers, alone or in a cluster.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate::run(std::env::args_os())
}
