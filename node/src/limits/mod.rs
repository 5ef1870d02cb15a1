//! Limiters, alone or in a cluster.

pub mod gossip;
pub mod key_count;
pub mod limiters;
