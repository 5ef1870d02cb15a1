//! Whole-system tests: one binary, so that it is linked once. `<file>::<test>` names a test, and
//! `<file>::` all tests of a file.

mod batch;
mod bounds;
mod browser;
mod certificates;
mod cli;
mod clients;
mod cluster;
mod drain;
mod faults;
mod files;
mod habits;
mod http;
mod readiness;
mod readme;
mod replay;
mod resp;
mod rotation;
mod seeds;
mod signals;
mod slow;
mod tower_axum;
mod tower_tonic;
mod transactions;
mod traps;
mod turns;
