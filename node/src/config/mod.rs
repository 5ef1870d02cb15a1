//! What a user gives: flags, files, secrets.

pub mod bounds;
mod byte_size;
pub mod cli;
pub mod file;
pub mod origin;
pub mod password;
pub mod quota;
pub mod trust;
