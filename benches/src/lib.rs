//! Every published figure, and the side-by-side runs against other limiters.
//!
//! The `compare` binary runs the same keys through our limiter and its peers alternately in one
//! process, and verifies the outcome that a figure is named after. [`Workload`] defines what is
//! run, [`Contender`] the interface of a limiter, [`roster`] the participants, [`runner`] the
//! timing, and [`audit`] the checks of the outcome. [`record`] is the format of recorded figures,
//! from which the `figure` binary makes what is published ([`figure`], [`markdown`]);
//! [`highlights`] are the rows that the README shows.
//!
//! The module `serve` measures servers on loopback; it needs the feature `serve`. Peers other than
//! governor need the feature `peers`.
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
pub mod highlights;
pub mod machine;
pub mod markdown;
pub mod marks;
pub mod memory;
pub mod pool;
pub mod published;
pub mod record;
pub mod reference;
pub mod report;
pub mod roster;
pub mod runner;
#[cfg(test)]
mod samples;
pub mod script;
#[cfg(feature = "serve")]
pub mod serve;
pub mod stress;
pub mod timed;
pub mod verdict;
pub mod warm_up;
pub mod workloads;

pub use contenders::{Audited, Contender};
pub use failure::Failure;
pub use workloads::{Plan, Workload};
