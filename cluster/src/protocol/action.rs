//! The actions that the protocol requests of its caller.

use std::net::SocketAddr;

use bytes::Bytes;

/// The id of a link, unique in one run of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) u64);

/// One of a link's two streams. Their order matters within, not between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Greetings, frames and acknowledgements.
    Main,
    /// State transfer.
    State,
}

/// An action for the caller to perform.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Open a link; answer with [`connected`](super::Core::connected) or
    /// [`closed`](super::Core::closed).
    Dial {
        /// The id of the new link.
        link: LinkId,
        /// The address to dial.
        addr: SocketAddr,
    },
    /// Close a link at once. [`closed`](super::Core::closed) need not be called.
    Close {
        /// The link.
        link: LinkId,
    },
    /// Send a datagram, which may be lost.
    Datagram {
        /// The link.
        link: LinkId,
        /// At most [`MAX_PACKET_BYTES`](super::MAX_PACKET_BYTES).
        bytes: Bytes,
    },
    /// Send a message on a stream; it arrives in order, or the link closes.
    Message {
        /// The link.
        link: LinkId,
        /// The stream.
        channel: Channel,
        /// At most [`MAX_MESSAGE_BYTES`](super::MAX_MESSAGE_BYTES).
        bytes: Bytes,
    },
}
