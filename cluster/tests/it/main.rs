//! The cluster through its public interface, in processes on loopback: one binary, so that it is
//! linked once.
//!
//! What needs a process of its own is another binary: `allocation` replaces the allocator, `chaos`
//! includes the simulator, and `recorder_models` the files that it explores, for loom.
#![allow(clippy::incompatible_msrv, reason = "tests are built with the workspace's Rust")]

mod failing;
mod limits;
mod loopback;
mod waiting;
