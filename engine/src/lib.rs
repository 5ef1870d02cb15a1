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
//! [`Limiter`] states what is guaranteed; [`Quota`] how limits are written down, and [`Rule`] what else a
//! limiter can enforce.
//!
//! # Features
//! `std` (on unless turned off): clocks of the operating system, random seeds, leases, [`Concurrency`], blocking and
//! jitter. Without it the crate is
//! `no_std` and needs `alloc` and 64-bit atomics; a limiter is then made by
//! [`Limiter::builder_with`], from a clock and a seed of yours.
//!
//! `acquire` (on unless turned off; needs `std`): waiting without a timer of yours, by [`ThreadTimer`].
#![warn(missing_docs)]
#![cfg_attr(not(any(feature = "std", test, loom, interleave)), no_std)]

extern crate alloc;

mod acquire;
mod address;
mod builder;
mod clock;
#[cfg(feature = "std")]
mod concurrency;
mod counter;
mod counts;
mod decision;
mod denied;
mod gcra;
#[cfg(interleave)]
mod interleave;
mod key;
#[cfg(feature = "std")]
mod lease;
mod limit;
mod limiter;
#[cfg(feature = "std")]
mod live;
mod observer;
mod overflow;
mod queue;
mod quota;
#[cfg(all(feature = "std", any(test, not(loom))))]
mod recent;
mod reserve;
mod rule;
mod set;
mod shards;
mod single;
mod snapshot;
mod sync;
mod table;
#[cfg(all(feature = "tower", not(loom)))]
pub mod tower;
#[cfg(feature = "std")]
mod tsc;
mod window;

#[cfg(feature = "acquire")]
pub use acquire::ThreadTimer;
pub use acquire::{DEFAULT_MAX_WAITERS, Line, Timer, Turn, Wait};
pub use address::{IpKey, MAX_IPV6_PREFIX};
pub use builder::{BuildError, DEFAULT_CAPACITY, LimiterBuilder, MAX_CAPACITY};
pub use clock::{Clock, ManualClock, Timestamp};
#[cfg(feature = "std")]
pub use concurrency::{Concurrency, MAX_CONCURRENCY, OwnedPermit, Permit};
pub use counter::{
    CounterError, DEFAULT_SUB_WINDOWS, MAX_COUNTER_WINDOW, MAX_LOG_UNITS, MAX_SUB_WINDOWS,
    SlidingLog, SubWindowCounter,
};
#[cfg(feature = "std")]
pub use counter::{MAX_SHARDS, ShardedCounter};
pub use counts::{Counts, DecisionCounts};
pub use decision::Decision;
pub use key::{Key, KeyHash, KeyHasher};
#[cfg(feature = "std")]
pub use lease::MAX_LEASE_UNITS;
pub use limit::Limit;
pub use limiter::Limiter;
#[cfg(feature = "std")]
pub use live::{Inheritance, LiveQuota};
pub use observer::Observer;
pub use overflow::{OverflowCounts, OverflowPolicy};
pub use queue::Queue;
pub use quota::{MAX_BURST_TOLERANCE, Quota, QuotaError};
#[cfg(all(feature = "std", not(loom)))]
pub use recent::{MAX_UPKEEP_INTERVAL, MIN_UPKEEP_INTERVAL, RecentClock};
pub use reserve::Reservation;
pub use rule::Rule;
pub use set::{Ask, Blocked, LimitSet, SetDecision, SetReservation};
pub use single::{MAX_WARM_UP, Single, SingleBuilder};
pub use snapshot::{
    Fingerprint, RestoreError, Restored, SNAPSHOT_VERSION, SavedKey, SavedKeys, Snapshot,
    SnapshotError,
};
#[cfg(feature = "std")]
pub use tsc::TscClock;
pub use window::{CalendarWindow, FixedWindow, MAX_UTC_OFFSET, MAX_WINDOW, SlidingWindow};
