//! The node's handle on the cluster.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{Cluster, ClusterName, Config, Limits, Secret};
pub use tidegate_cluster::{LimitId, LinkState, Member, MemberState, PeerStats, Stats, Steps};
use tidegate_engine::KeyHash;

use crate::limiters::Limiters;

/// How long a joining node waits for the state of the cluster before it serves clients.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A handle on the cluster; empty for a node without one.
#[derive(Clone, Default)]
pub struct Gossip(Option<Cluster>);

/// The cluster as this node sees it.
#[derive(Debug)]
pub struct View {
    /// The id of this node, which is one of the members.
    pub this: String,
    pub members: Vec<Member>,
    /// The nodes that this one dials.
    pub peers: Vec<PeerStats>,
    /// Whether this node has joined.
    pub joined: bool,
}

impl Gossip {
    /// A node without a cluster.
    pub const fn alone() -> Self {
        Self(None)
    }

    /// Serves other nodes at `address`, and joins those in `join`; without any, founds a cluster.
    ///
    /// # Errors
    /// One line that names the flag.
    pub async fn start(
        address: SocketAddr,
        join: &[SocketAddr],
        name: ClusterName,
        secret: Secret,
        limiters: &Limiters,
    ) -> Result<Self, String> {
        if address.ip().is_unspecified() {
            return Err(format!("--cluster {address}: other nodes cannot reach this address"));
        }
        let mut limits = Limits::new();
        limits.add(LimitId::INLINE, Arc::clone(&limiters.inline));
        for (name, limiter) in &limiters.named {
            limits.add(LimitId::named(name), Arc::clone(limiter));
        }
        let mut config = Config::new(address, secret);
        config.join = join.to_vec();
        config.name = name;
        config.join_timeout = JOIN_TIMEOUT;
        let cluster = Cluster::start(config, limits).await;
        cluster
            .map(|cluster| Self(Some(cluster)))
            .map_err(|error| format!("--cluster {address}: {error}"))
    }

    /// The address that other nodes dial; `None` without a cluster.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.as_ref().map(Cluster::local_addr)
    }

    /// The hash of a key on all nodes of the cluster; `None` without one.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> Option<KeyHash> {
        self.0.as_ref().map(|cluster| cluster.hash(key))
    }

    /// Records an admission, to be sent to the cluster. Never waits.
    #[inline]
    pub fn record(&self, limit: LimitId, key: KeyHash, debt: impl FnOnce() -> Duration) {
        if let Some(cluster) = &self.0 {
            cluster.record(limit, key, debt());
        }
    }

    /// The cluster as this node sees it; `None` without one.
    pub fn view(&self) -> Option<View> {
        let cluster = self.0.as_ref()?;
        let members = cluster.members();
        Some(View {
            // This node is the first.
            this: members.first().map(|member| member.id.clone()).unwrap_or_default(),
            joined: cluster.has_joined(),
            peers: cluster.peers(),
            members,
        })
    }

    /// Counters and gauges of the cluster; `None` without one.
    pub fn stats(&self) -> Option<Stats> {
        self.0.as_ref().map(Cluster::stats)
    }

    /// Whether this node has joined; true without a cluster.
    pub fn has_joined(&self) -> bool {
        self.0.as_ref().is_none_or(Cluster::has_joined)
    }

    /// Whether this node waits for the state of the cluster: for at most [`JOIN_TIMEOUT`].
    pub fn is_joining(&self) -> bool {
        self.0.as_ref().is_some_and(Cluster::is_joining)
    }

    /// Leaves the cluster, within `within`: see [`Cluster::leave`].
    pub async fn leave(&self, within: Duration) {
        if let Some(cluster) = &self.0 {
            cluster.leave(within).await;
        }
    }
}

impl fmt::Debug for Gossip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gossip").field(&self.address()).finish()
    }
}

/// Reads the secret that the nodes of a cluster share.
///
/// # Errors
/// One line that names the flag and the file.
pub fn secret(path: &Path) -> Result<Secret, String> {
    let secret = Secret::from_file(path);
    secret.map_err(|error| format!("--cluster-secret-file {}: {error}", path.display()))
}

/// The states of a member, with their names.
pub const STATES: [(MemberState, &str); 4] = [
    (MemberState::Alive, "alive"),
    (MemberState::Suspect, "suspect"),
    (MemberState::Down, "down"),
    (MemberState::Left, "left"),
];

/// The state of a link as a number: the higher, the further.
pub fn link_number(link: LinkState) -> f64 {
    match link {
        LinkState::Waiting => 0.0,
        LinkState::Dialling => 1.0,
        LinkState::Open => 2.0,
        LinkState::Flowing => 3.0,
    }
}

/// The name of a member's state.
pub fn state_name(state: MemberState) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("unknown", |(_, name)| name)
}
