//! Limits without keys, which need no table: shared by reference, no hashing.
//!
//! This module holds what goes with a [`DirectLimiter`](crate::DirectLimiter).

#[cfg(feature = "std")]
mod any;
#[cfg(feature = "std")]
pub(crate) mod concurrency;
pub(crate) mod counter;
mod lend;
pub(crate) mod limiter;
pub(crate) mod queue;

pub use limiter::{DirectLimiterBuilder, MAX_WARM_UP};
