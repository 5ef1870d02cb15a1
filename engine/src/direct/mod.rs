//! Limits without keys, which need no table: shared by reference, no hashing.
//!
//! This module holds what goes with a [`DirectLimiter`](crate::DirectLimiter).

#[cfg(feature = "std")]
mod any;
#[cfg(feature = "std")]
pub(crate) mod concurrency;
pub(crate) mod counter;
pub(crate) mod limiter;
pub(crate) mod queue;

// Behind the others, so that its methods come last on the page of each type.
mod reserve;

pub use limiter::{DirectLimiterBuilder, MAX_WARM_UP};
