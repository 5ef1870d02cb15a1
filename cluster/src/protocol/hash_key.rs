//! The key under which the nodes of a cluster hash the keys of their limits.

use std::fmt;

use bincode::{Decode, Encode};

/// The key under which the nodes of a cluster hash keys, and since when.
///
/// The node that founds a cluster draws it; every node takes it over with its first link and keeps
/// it, so it is not part of the secret and outlives its rotation. Of two keys the lesser one wins,
/// in the order of the fields: one that is in use before one that is not, one that others than its
/// founder have used before one of a single node, the older before the younger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct HashKey {
    /// No node has joined under it yet.
    candidate: bool,
    /// The generation of the node that drew it, and [`SINGLE`].
    stamp: u64,
    bytes: [u8; 16],
}

/// Set in the stamp of a key in use while no other node has joined its founder. A founder whose
/// wall clock is behind, as on a machine that starts without a network, is no reason for a whole
/// cluster to start over. Generations are nanoseconds since 1970, which need no such bit.
const SINGLE: u64 = 1 << 63;

impl HashKey {
    /// A key drawn by a node at its start.
    pub(super) const fn candidate(stamp: u64, bytes: [u8; 16]) -> Self {
        Self { candidate: true, stamp: stamp & !SINGLE, bytes }
    }

    /// A key drawn by a node that founds at once if it is `alone`.
    pub(super) const fn of_start(stamp: u64, bytes: [u8; 16], alone: bool) -> Self {
        let candidate = Self::candidate(stamp, bytes);
        if alone { candidate.founded() } else { candidate }
    }

    /// The same, in use by more than one node.
    pub(super) const fn in_use(self) -> Self {
        Self { candidate: false, stamp: self.stamp & !SINGLE, ..self }
    }

    /// The same, in use by a node that founds: by it alone, unless others have used it.
    pub(super) const fn founded(self) -> Self {
        let stamp = if self.candidate { self.stamp | SINGLE } else { self.stamp };
        Self { candidate: false, stamp, ..self }
    }

    /// Whether both are the same key as it was drawn, whatever use has been made of it since.
    pub(super) fn is_same_drawn(self, other: Self) -> bool {
        self.bytes == other.bytes && self.stamp & !SINGLE == other.stamp & !SINGLE
    }

    /// The key itself.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.bytes
    }
}

impl fmt::Debug for HashKey {
    /// Keeps the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { candidate, stamp, .. } = self;
        f.debug_struct("HashKey").field("candidate", candidate).field("stamp", stamp).finish()
    }
}
