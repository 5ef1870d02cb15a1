//! Cores connected by a simulated network: everything drawn from a seed, broken first, then healed.

mod heal;
mod network;
mod scenarios;
mod world;
