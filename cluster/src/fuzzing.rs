//! What is read from outside and private otherwise, for fuzz targets: part of this crate under
//! `--cfg fuzzing` alone.

use std::net::SocketAddr;

use crate::name::ClusterName;
use crate::protocol::Subject;
use crate::seed::{Seed, parse_file};

/// The seeds in the text of a file.
///
/// # Errors
/// What is wrong, and in which line.
pub fn seeds_of_file(text: &str) -> Result<Vec<Seed>, String> {
    parse_file(text)
}

/// The nodes of a cluster among the URIs of a certificate.
pub fn subject_of<'a>(name: &ClusterName, uris: impl Iterator<Item = &'a str>) -> Option<Subject> {
    name.subject_of(uris)
}

/// The URI by which a certificate names a node.
pub fn uri_of(name: &ClusterName, node: SocketAddr) -> String {
    name.uri_of(node)
}
