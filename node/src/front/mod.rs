//! Listeners, and the protocols that they speak.

pub mod addresses;
pub mod budget;
pub mod deadline;
pub mod http;
pub mod linger;
pub mod net;
pub mod permits;
mod refusals;
pub mod resp;
mod stall;
pub mod turns;
pub mod units;
pub mod unsent;
