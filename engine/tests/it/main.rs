//! The engine through its public interface: one binary, so that it is linked once. `<file>::<test>`
//! names a test, and `<file>::` all tests of a file.
//!
//! Only what needs a process of its own is another binary: `allocation` and `denials` each replace
//! the allocator, and `models` builds and runs the models.
#![allow(clippy::incompatible_msrv, reason = "tests are built with the workspace's Rust")]

mod exact;
#[cfg(feature = "tower")]
mod layered;
mod pairs;
mod units;
mod waiting;

mod acquire;
#[cfg(feature = "acquire")]
mod acquire_runtimes;
mod address;
mod batches;
mod call_quota;
mod charge_denied;
#[cfg(feature = "acquire")]
mod concurrency;
mod counter_sets;
mod counters;
mod direct;
mod direct_live;
mod direct_sets;
mod dynamic;
mod follow;
mod give_up;
mod give_up_at_once;
mod headroom;
mod keys;
mod leases;
mod live_bounds;
mod live_calls;
mod live_change;
mod live_endless;
mod log_readings;
mod long_run;
mod observer;
mod oracle;
mod overflow;
mod owned;
mod queue;
mod refund;
mod reserve;
mod reserve_waiting;
mod set_acquire;
mod set_acquire_crowd;
mod sets;
mod shadow;
mod shadow_waiting;
mod sizes;
mod snapshot;
mod snapshot_bytes;
mod snapshot_counters;
mod snapshot_windows;
mod spray;
mod text;
#[cfg(feature = "serde")]
mod text_serde;
#[cfg(feature = "tower")]
mod tower;
#[cfg(feature = "tower")]
mod tower_keys;
#[cfg(feature = "tower")]
mod tower_quotas;
#[cfg(feature = "tower")]
mod tower_refusals;
#[cfg(feature = "tower")]
mod tower_shadow;
mod traps;
mod traps_sets;
mod traps_shared;
mod traps_windows;
mod up_to;
mod windows;
mod windows_bounds;
mod windows_calendar;
mod windows_oracle;
mod with_quota;
mod with_quota_sets;
