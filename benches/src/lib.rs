//! Every published figure, and the side-by-side runs against other limiters.
//!
//! The `compare` binary runs the same keys through our limiter and its peers in one process, in
//! turn, and checks that what a figure is named after is what happened. [`Workload`] says what is
//! run, [`Contender`] what a limiter has to offer to take part, [`roster`] who does, [`runner`] how
//! it is timed, and [`audit`] what is demanded of the outcome. [`record`] is how figures are kept;
//! the `figure` binary makes of them what the README shows ([`figure`], [`markdown`]).
//!
//! Peers beyond governor are built with the feature `peers` only.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod algorithms;
pub mod audit;
pub mod child;
pub mod contenders;
pub mod date;
pub mod draw;
pub mod entrant;
pub mod failure;
pub mod figure;
pub mod first_checks;
pub mod machine;
pub mod markdown;
pub mod marks;
pub mod memory;
pub mod published;
pub mod record;
pub mod reference;
pub mod report;
pub mod roster;
pub mod runner;
#[cfg(test)]
mod samples;
pub mod script;
pub mod stress;
pub mod timed;
pub mod verdict;
pub mod warm_up;
pub mod workloads;

pub use contenders::{Audited, Contender};
pub use failure::Failure;
pub use workloads::{Plan, Workload};
