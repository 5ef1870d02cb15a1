//! Listeners, and the protocols that they speak.

pub mod addresses;
pub mod budget;
pub mod http;
pub mod net;
pub mod patience;
pub mod places;
pub mod resp;
pub mod units;
pub mod unsent;
