//! Nodes connected by a simulated network: all choices are drawn from a seed, faults come first,
//! then the network heals.

mod asker;
mod harness;
mod heal;
mod leaving;
mod network;
mod receiver;
mod scenarios;
mod words;
mod world;
