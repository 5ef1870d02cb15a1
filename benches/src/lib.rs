//! Every published figure, and the side-by-side runs against other limiters.
//!
//! The `compare` binary runs the same keys through our limiter and a peer in one process, in turn,
//! and checks that what a figure is named after is what happened. [`Workload`] says what is run,
//! [`Contender`] what a limiter has to offer to take part, [`runner`] how it is timed, and
//! [`audit`] what is demanded of the outcome.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod audit;
pub mod contenders;
pub mod draw;
pub mod failure;
pub mod machine;
pub mod memory;
pub mod report;
pub mod runner;
pub mod stress;
pub mod warm_up;
pub mod workloads;

pub use contenders::{Audited, Contender};
pub use failure::Failure;
pub use workloads::{Plan, Workload};
