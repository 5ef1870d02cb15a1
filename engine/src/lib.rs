//! A rate limiter that decides in nanoseconds inside the process that asks: no lock, no I/O and
//! no allocation in a check, one 64-bit word of state a key.
//!
//! ```
//! use tidegate_engine::{Limiter, Quota};
//!
//! let limiter = Limiter::builder(Quota::per_second(100).burst(20)).capacity(1_000_000).build()?;
//! let decision = limiter.check("user:42");
//! if !decision.is_allowed() {
//!     println!("try again in {:?}", decision.retry_after());
//! }
//! # Ok::<(), tidegate_engine::BuildError>(())
//! ```
//!
//! [`Limiter`] states what is guaranteed; [`Quota`] how limits are written down.
//!
//! # Features
//! `std` (on unless turned off): clocks of the operating system, random seeds, leases. Without it the crate is
//! `no_std` and needs `alloc` and 64-bit atomics; a limiter is then made by
//! [`Limiter::builder_with`], from a clock and a seed of yours.
#![warn(missing_docs)]
#![cfg_attr(not(any(feature = "std", test, loom, interleave)), no_std)]

extern crate alloc;

mod builder;
mod clock;
mod counter;
mod decision;
mod gcra;
#[cfg(interleave)]
mod interleave;
mod key;
#[cfg(feature = "std")]
mod lease;
mod limiter;
mod observer;
mod overflow;
mod quota;
#[cfg(all(feature = "std", any(test, not(loom))))]
mod recent;
mod rule;
mod sync;
mod table;
#[cfg(feature = "std")]
mod tsc;
mod window;

pub use builder::{BuildError, DEFAULT_CAPACITY, LimiterBuilder, MAX_CAPACITY};
pub use clock::{Clock, ManualClock, Timestamp};
pub use counter::{
    CounterError, DEFAULT_SUB_WINDOWS, MAX_COUNTER_WINDOW, MAX_LOG_UNITS, MAX_SUB_WINDOWS,
    SlidingLog, SubWindowCounter,
};
#[cfg(feature = "std")]
pub use counter::{MAX_SHARDS, ShardedCounter};
pub use decision::Decision;
pub use key::{Key, KeyHash, KeyHasher};
#[cfg(feature = "std")]
pub use lease::MAX_LEASE_UNITS;
pub use limiter::Limiter;
pub use observer::Observer;
pub use overflow::{OverflowCounts, OverflowPolicy};
pub use quota::{MAX_BURST_TOLERANCE, Quota, QuotaError};
#[cfg(all(feature = "std", not(loom)))]
pub use recent::{MAX_UPKEEP_INTERVAL, MIN_UPKEEP_INTERVAL, RecentClock};
pub use rule::Rule;
#[cfg(feature = "std")]
pub use tsc::TscClock;
pub use window::{FixedWindow, MAX_WINDOW};
