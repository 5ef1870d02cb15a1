//! How a node is started, and why it is not.

use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, io};

use crate::limits::LimitId;
use crate::secret::Secret;

/// How a node takes part in a cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The UDP address to bind, which is also where peers are told to reach this node; so it must
    /// not be unspecified (`0.0.0.0`). Port 0 takes a free one.
    pub bind: SocketAddr,
    /// Nodes of the cluster to join; one that answers is enough. Empty founds a cluster. At most
    /// [`MAX_PEERS`](crate::core::MAX_PEERS) (128) are used. That is also how many other nodes one
    /// node tells what it admits, those it has joined by included; further ones it learns of are
    /// members, but not dialled: [`Stats::peers_undialled`](crate::Stats::peers_undialled).
    pub join: Vec<SocketAddr>,
    /// The cluster's secret.
    pub secret: Secret,
    /// How long admissions are gathered before they are told; 10 ms unless set, sensibly 1 ms to
    /// 1 s. It is most of what other nodes do not know yet: in that time a key may be admitted its
    /// burst on each node. Shorter costs packets: at most one frame a peer and interval, and none
    /// while nothing is admitted.
    pub flush_interval: Duration,
    /// How long [`Cluster::is_joining`](crate::Cluster::is_joining) stays true when none of `join`
    /// answers; 5 s unless set. The attempt goes on in the background.
    pub join_patience: Duration,
}

impl Config {
    /// A node on its own; add [`Config::join`] to make it join.
    #[must_use]
    pub fn new(bind: SocketAddr, secret: Secret) -> Self {
        Self {
            bind,
            join: Vec::new(),
            secret,
            flush_interval: Duration::from_millis(10),
            join_patience: Duration::from_secs(5),
        }
    }
}

/// Why a node did not start. Nothing is left behind.
///
/// The text is one line, complete by itself, and leaves out the address, which the caller knows and
/// will want to begin with. [`source`](std::error::Error::source) is what lies behind what the text
/// tells already, so a report of the whole chain repeats nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The address can not be bound.
    Bind {
        /// The address.
        addr: SocketAddr,
        /// What the operating system says.
        source: io::Error,
    },
    /// The address is unspecified, so it can not be told to peers.
    Unspecified {
        /// The address.
        addr: SocketAddr,
    },
    /// A limiter does not hash with the secret's [`key_hasher`](Secret::key_hasher), so its keys
    /// would not be those of the other nodes.
    Hasher {
        /// The limit.
        limit: LimitId,
    },
    /// The certificates could not be made: the system's randomness failed.
    Certificate(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { source, .. } => write!(f, "can not bind: {source}"),
            Self::Unspecified { .. } => {
                f.write_str("peers are told this address, so name one they can reach")
            }
            Self::Hasher { limit } => {
                write!(f, "the limiter of {limit:?} does not hash with the secret's key hasher")
            }
            Self::Certificate(error) => write!(f, "can not make a certificate: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { source, .. } => source.source(),
            Self::Unspecified { .. } | Self::Hasher { .. } => None,
            Self::Certificate(error) => error.source(),
        }
    }
}
