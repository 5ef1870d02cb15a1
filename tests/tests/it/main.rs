//! Whole-system tests: one binary, so that it is linked once. `<file>::<test>` names a test, and
//! `<file>::` all tests of a file.

mod cli;
mod cluster;
mod drain;
mod http;
mod readme;
mod replay;
mod resp;
mod rotation;
mod seeds;
mod tower_axum;
mod tower_tonic;
mod traps;
mod turns;
