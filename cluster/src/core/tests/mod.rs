//! Cores connected by a simulated network: everything drawn from a seed, broken first, then healed.

mod asker;
mod bench;
mod heal;
mod network;
mod receiver;
mod scenarios;
mod words;
mod world;
