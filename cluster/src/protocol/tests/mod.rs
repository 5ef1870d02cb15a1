//! Nodes connected by a simulated network: all choices are drawn from a seed, faults come first,
//! then the network heals.

mod agreement;
mod asker;
mod capped;
mod change;
mod events;
mod founding;
mod harness;
mod heal;
mod hostile;
mod identity;
mod joining;
mod key_agreement;
mod leaving;
mod network;
mod receiver;
mod replay;
mod report;
mod resets;
mod run_delay;
mod scenarios;
mod seeds;
mod shares;
mod stale;
mod steps;
mod torn;
mod transfer;
mod versions;
mod words;
mod world;
