//! The ground floor, which all other folders use and which knows of no limit: keys, decisions,
//! words, atomics.

pub(crate) mod address;
pub(crate) mod backoff;
pub(crate) mod cold;
pub(crate) mod decision;
pub mod headers;
pub(crate) mod key;
pub(crate) mod shards;
pub(crate) mod source;
#[cfg(feature = "std")]
pub(crate) mod stripe;
pub(crate) mod sync;
#[cfg(feature = "serde")]
pub(crate) mod text;
pub(crate) mod word;
