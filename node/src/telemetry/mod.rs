//! What operators see: metrics and log lines.

pub mod blocking_writer;
pub mod errors;
pub mod exposition;
pub mod log;
pub mod log_throttle;
pub mod meter;
pub mod metrics;
mod over_admission;
mod peer_metrics;
#[cfg(test)]
pub mod testing;
