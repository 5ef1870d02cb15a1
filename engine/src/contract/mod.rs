//! What limits have in common, whatever their algorithm: sets of limits, reservations, waiting,
//! snapshots, observers and shadows.

pub(crate) mod counts;
pub(crate) mod grant;
pub(crate) mod limit;
mod object;
pub(crate) mod observer;
pub(crate) mod outcome;
pub(crate) mod reserve;
pub(crate) mod set;
pub(crate) mod shadow;
pub(crate) mod snapshot;
pub(crate) mod wait;
