//! The bounds of sizes and counts, and of versions.

use super::time::Nanos;

/// The version of the protocol, and the newest one that this build speaks.
pub(super) const VERSION: u16 = 4;
/// The oldest one that it still speaks.
pub(crate) const OLDEST_VERSION: u16 = 3;
/// The version after [`VERSION`], which builds for tests speak as well: a mark follows each
/// message.
#[cfg(test)]
pub(crate) const NEXT_VERSION: u16 = VERSION + 1;
/// The newest version of all builds of this code.
pub(super) const NEWEST_VERSION: u16 = if cfg!(test) { VERSION + 1 } else { VERSION };

/// The largest membership packet, in bytes. Any new QUIC path takes a datagram of this size: its
/// initial MTU is 1200 less packet and frame headers.
pub const MAX_PACKET_BYTES: usize = 1_150;
/// The largest message on a stream, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 128 * 1024;
/// The least cap of the bytes a second that a node spends on sending: with its quarter of that, a
/// part of a state takes no longer than the node that joins waits for it.
pub const MIN_BYTE_CAP: u64 = 64 * 1024;
/// What a delta takes on the wire, at most.
pub(super) const DELTA_BYTES: u64 = 28;
/// Deltas in a batch and entries in a chunk of state, at most: 28 bytes each on the wire.
pub(super) const MAX_BATCH_DELTAS: usize = 2_048;
/// Other nodes that a node dials and sends deltas to, at most.
pub const MAX_PEERS: usize = 256;
/// Of these, addresses that the operator lists (seeds), at most.
pub const MAX_SEEDS: usize = MAX_PEERS / 2;
/// Links opened by other nodes, at most.
pub const MAX_INBOUND: usize = 2 * MAX_PEERS;
/// Keys to hash by that a node takes over at once, its own included, at most: another one takes a
/// meeting of clusters.
pub const MAX_HASH_KEYS: usize = 64;
/// After this long one more is taken over: a member may announce as many as it likes, and a node
/// that took over none any more could not return to its cluster.
pub(super) const HASH_KEY_EVERY: Nanos = 60_000_000_000;
/// Known members, this node and down ones included, at most.
pub(super) const MAX_MEMBERS: usize = 1_024;
/// Entries of the version vector, one an origin, at most.
pub(super) const MAX_ORIGINS: usize = 512;
/// Levels that are sent with one batch, at most.
pub(super) const MAX_LEVELS: usize = 512;
/// Shifts that are sent with one batch, and wait to be sent, at most.
pub(super) const MAX_SHIFTS: usize = 256;
