//! What fuzz targets share.
#![warn(missing_docs)]

pub mod memory;
