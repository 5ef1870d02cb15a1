//! How a node is started, and why it does not start.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::Duration;
use std::{fmt, io};

use crate::address::dialled;
use crate::name::ClusterName;
use crate::protocol::{MIN_BYTE_CAP, Options};
use crate::seed::Seed;
use crate::trust::Trust;

/// The shortest [`Config::flush_interval`].
pub const MIN_FLUSH_INTERVAL: Duration = Duration::from_millis(1);

/// How a node takes part in a cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The UDP address to bind. Port 0 takes a free one.
    pub bind: SocketAddr,
    /// The address that peers dial, by which they know this node and of which its certificate is;
    /// that of `bind` by default. For nodes behind an address translation, and in containers. Port
    /// 0 stands for the one that is bound. It is the address of one host (not `0.0.0.0`, nor for
    /// multicast or broadcast, nor a link-local one of IPv6: peers get no scope), and of the family
    /// of `bind`, unless that is `[::]`. IPv4 addresses that are written as IPv6
    /// (`::ffff:192.0.2.1`) are IPv4 addresses.
    pub advertise: Option<SocketAddr>,
    /// Nodes of the cluster (seeds): all of them, or some. Every node may be given the same list,
    /// itself included; one that answers is enough. A node that is given no other one, nor any
    /// [`Config::seeds`], founds a cluster. At most [`MAX_SEEDS`](crate::protocol::MAX_SEEDS) (128)
    /// are used. One node sends what it admits to [`MAX_PEERS`](crate::protocol::MAX_PEERS) (256)
    /// others, seeds included; further ones are members, but not dialled:
    /// [`Stats::peers_undialled`](crate::Stats::peers_undialled).
    pub join: Vec<SocketAddr>,
    /// Where further nodes of the cluster are found: names, services and files, as well as
    /// addresses. They are looked up every 1 to 4 s until the node has joined, all of them are
    /// found and one of them is another node; from then on every 30 s, and by
    /// [`Cluster::look_up_seeds`](crate::Cluster::look_up_seeds). Together with [`Config::join`] at
    /// most [`MAX_SEEDS`](crate::protocol::MAX_SEEDS) (128) addresses are used, 64 of each name, of
    /// 128 names.
    ///
    /// What is not found is not an error: it is looked up again, and logged at most once a minute.
    /// Until then it counts as a node that has not answered, so this node founds a cluster only
    /// after [`Config::found_after`]; as it does where only itself is found. What was found is kept
    /// while a look-up fails. A file without seeds is one that is not found yet. An address that is
    /// no longer found is not dialled any more, unless it is that of a node.
    ///
    /// Names have to be those of nodes: not of a load balancer in front of them. Addresses of names
    /// that this node cannot dial are left out: those that [`Config::bind`] cannot reach, as IPv6
    /// from an IPv4 address, and those of no host, as `0.0.0.0`. Listed ones are logged, and count
    /// as nodes that do not answer.
    ///
    /// Look-ups by the system's resolver, and reads of files, are done on threads of their own, at
    /// most eight of either at a time, which they block for as long as they take; the node waits
    /// for 3 s.
    pub seeds: Vec<Seed>,
    /// Which DNS servers are asked about names of [`Config::seeds`]. Without one, the system's
    /// resolver (`getaddrinfo`) is asked about addresses, and the servers in `/etc/resolv.conf`
    /// about services (SRV records). With some, these alone are asked about both, for complete
    /// names: as for an agent of a service registry that has a port of its own.
    pub name_servers: Vec<SocketAddr>,
    /// The cluster's name; `tidegate` by default. Nodes that use another stay apart.
    pub name: ClusterName,
    /// How nodes prove that they belong to the cluster.
    pub trust: Trust,
    /// The newest version of the wire format to speak; that of this build by default, which is also
    /// the most. Nodes speak the newest version that both ends of a link do, so nodes of two
    /// successive versions make one cluster without it.
    pub newest_version: u16,
    /// How long admissions are collected before they are sent; 10 ms by default, at least 1 ms
    /// ([`MIN_FLUSH_INTERVAL`]), sensibly up to 1 s. It is most of the remote staleness: in that
    /// time each node may admit a key's burst. A shorter interval costs packets: at most one frame
    /// a peer and interval (five while another node takes over this one's state), none while
    /// nothing is to be sent.
    pub flush_interval: Duration,
    /// How long the use of a key that is far from its limit may wait to be sent; 1 s by default,
    /// and never longer than half of the limit's burst tolerance. It says how long another node's
    /// `remaining` may not know of it: decisions do not depend on it, as use near a limit does not
    /// wait. Shorter costs packets; at most [`Config::flush_interval`] everything is sent at once.
    pub max_send_delay: Duration,
    /// Bytes a second that this node sends at most of changes and of its state, to all other nodes
    /// together, without what QUIC and UDP add; at least
    /// [`MIN_BYTE_CAP`](crate::protocol::MIN_BYTE_CAP) (65,536). `None` by default: a cap trades
    /// accuracy for bytes, as in the time for which others do not know of use they may admit as
    /// much again, and without one a node sends no more than its limits need.
    ///
    /// What exceeds it waits, and is sent later as one change a key: nothing is lost. Keys near
    /// their limit go first, then those far from it, then states, which have a quarter of the cap
    /// to themselves. Acknowledgements, clocks and membership neither wait nor count, and nothing
    /// waits when the node leaves. [`Stats::capped_for`](crate::Stats::capped_for) and
    /// [`Stats::capped_keys`](crate::Stats::capped_keys) say what waits.
    pub byte_cap: Option<u64>,
    /// After which time the node founds a cluster, if no node answers that has joined one
    /// ([`JoinKind::FoundedAlone`](crate::JoinKind::FoundedAlone)); 5 s by default. The clients of
    /// a node that starts while it can reach no other node wait for that time. Sensibly longer than
    /// it takes to start the other nodes: one that founds on its own gives away up to a burst a
    /// key. It goes on dialling. The time begins anew where the node was stopped, or has lost a
    /// node that has joined.
    pub found_after: Duration,
}

impl Config {
    /// A node that founds a cluster; set [`Config::join`] or [`Config::seeds`] to join one.
    #[must_use]
    pub fn new(bind: SocketAddr, trust: impl Into<Trust>) -> Self {
        Self {
            bind,
            advertise: None,
            join: Vec::new(),
            seeds: Vec::new(),
            name_servers: Vec::new(),
            name: ClusterName::default(),
            trust: trust.into(),
            newest_version: Options::default().newest_version,
            flush_interval: Duration::from_millis(10),
            max_send_delay: Duration::from_secs(1),
            byte_cap: None,
            found_after: Duration::from_secs(5),
        }
    }
}

impl Config {
    /// Whether [`Config::advertise`] can be this address of a node that binds [`Config::bind`], as
    /// far as its form says: for one that is chosen among several, as those of a name.
    #[must_use]
    pub fn can_advertise(&self, addr: SocketAddr) -> bool {
        dialled(self.bind, Some(addr)).is_ok()
    }

    /// The address that peers dial; port 0 where that is the bound one.
    ///
    /// # Errors
    /// When peers cannot dial it.
    pub(crate) fn dialled(&self) -> Result<SocketAddr, StartError> {
        let dialled = dialled(self.bind, self.advertise);
        dialled.map_err(|(addr, problem)| StartError::Undialable { addr, problem })
    }

    /// The flush interval.
    ///
    /// # Errors
    /// When it is less than [`MIN_FLUSH_INTERVAL`].
    pub(crate) fn checked_flush_interval(&self) -> Result<Duration, StartError> {
        let interval = self.flush_interval;
        let checked = Some(interval).filter(|interval| *interval >= MIN_FLUSH_INTERVAL);
        checked.ok_or(StartError::FlushInterval { interval })
    }

    /// The cap of bytes, if there is one.
    ///
    /// # Errors
    /// When it is less than [`MIN_BYTE_CAP`].
    pub(crate) fn checked_byte_cap(&self) -> Result<Option<NonZeroU64>, StartError> {
        let Some(cap) = self.byte_cap else { return Ok(None) };
        let checked = NonZeroU64::new(cap).filter(|cap| cap.get() >= MIN_BYTE_CAP);
        checked.map(Some).ok_or(StartError::ByteCap { cap })
    }
}

/// Why a node did not start. Nothing keeps running.
///
/// The text is one complete line without the address, which the caller knows and can put in front.
/// [`source`](std::error::Error::source) is the cause of the error that the text contains, so a
/// report of the whole chain repeats nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be bound.
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// Peers cannot dial the address that this node would show them: [`Config::advertise`], or
    /// that of [`Config::bind`].
    Undialable {
        /// The address.
        addr: SocketAddr,
        /// What is wrong with it, as `is unspecified`.
        problem: &'static str,
    },
    /// The node's thread, or the runtime on it, cannot be started.
    Thread(io::Error),
    /// [`Config::byte_cap`] is less than [`MIN_BYTE_CAP`](crate::protocol::MIN_BYTE_CAP).
    ByteCap {
        /// The cap, in bytes a second.
        cap: u64,
    },
    /// [`Config::flush_interval`] is less than [`MIN_FLUSH_INTERVAL`].
    FlushInterval {
        /// The interval.
        interval: Duration,
    },
    /// There is no certificate that this node could show: that of the operator does not fit, or the
    /// system's randomness failed.
    Certificate(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { source, .. } => write!(f, "cannot bind: {source}"),
            Self::Undialable { problem, .. } => {
                write!(f, "peers dial this address, and it {problem}")
            }
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::ByteCap { cap } => {
                write!(f, "a cap of {cap} bytes a second: it is at least {MIN_BYTE_CAP}")
            }
            Self::FlushInterval { interval } => {
                write!(f, "a flush interval of {interval:?}: it is at least {MIN_FLUSH_INTERVAL:?}")
            }
            Self::Certificate(error) => write!(f, "certificate: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { source, .. } => source.source(),
            Self::Undialable { .. } | Self::ByteCap { .. } | Self::FlushInterval { .. } => None,
            Self::Thread(error) => error.source(),
            Self::Certificate(error) => error.source(),
        }
    }
}
