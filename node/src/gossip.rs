//! The node's side of the cluster: what it tells, and what it asks.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{Cluster, Config, Limits, Secret};
pub use tidegate_cluster::{LimitId, Member, MemberState, Stats};
use tidegate_engine::KeyHash;

use crate::service::Limiters;

/// How long a node that joins waits for what the cluster knows before it serves anybody.
const JOIN_PATIENCE: Duration = Duration::from_secs(5);

/// A handle on the cluster, or on nothing for a node that stands alone.
#[derive(Clone, Default)]
pub struct Gossip(Option<Cluster>);

/// What this node believes about the cluster.
#[derive(Debug)]
pub struct View {
    /// The id of this node, which is among the members.
    pub this: String,
    pub members: Vec<Member>,
    /// Whether the state of the cluster is here.
    pub joined: bool,
}

impl Gossip {
    /// A node that stands alone.
    pub const fn alone() -> Self {
        Self(None)
    }

    /// Meets other nodes at `address`, and joins it if there is somebody to join.
    ///
    /// # Errors
    /// One line that names the flag.
    pub async fn start(
        address: SocketAddr,
        join: &[SocketAddr],
        secret: Secret,
        limiters: &Limiters,
    ) -> Result<Self, String> {
        if address.ip().is_unspecified() {
            return Err(format!("--cluster {address}: other nodes can not reach this address"));
        }
        let mut limits = Limits::new();
        limits.add(LimitId::INLINE, Arc::clone(&limiters.inline));
        for (name, limiter) in &limiters.named {
            limits.add(LimitId::named(name), Arc::clone(limiter));
        }
        let mut config = Config::new(address, secret);
        config.join = join.to_vec();
        config.join_patience = JOIN_PATIENCE;
        let cluster = Cluster::start(config, limits).await;
        cluster
            .map(|cluster| Self(Some(cluster)))
            .map_err(|error| format!("--cluster {address}: {error}"))
    }

    /// Where other nodes reach this one; `None` when it stands alone.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.as_ref().map(Cluster::local_addr)
    }

    /// Tells the cluster about an admission. Never waits.
    #[inline]
    pub fn record(&self, limit: LimitId, key: KeyHash, debt: impl FnOnce() -> Duration) {
        if let Some(cluster) = &self.0 {
            cluster.record(limit, key, debt());
        }
    }

    /// What this node believes about the cluster; `None` when it stands alone.
    pub fn view(&self) -> Option<View> {
        let cluster = self.0.as_ref()?;
        let members = cluster.members();
        Some(View {
            // This node comes first.
            this: members.first().map(|member| member.id.clone()).unwrap_or_default(),
            joined: cluster.has_joined(),
            members,
        })
    }

    /// What was told and heard; `None` when this node stands alone.
    pub fn stats(&self) -> Option<Stats> {
        self.0.as_ref().map(Cluster::stats)
    }

    /// Whether the state of the cluster is here; so it is when there is no cluster to join.
    pub fn has_joined(&self) -> bool {
        self.0.as_ref().is_none_or(Cluster::has_joined)
    }

    /// Whether the state of the cluster is still waited for: at most for [`JOIN_PATIENCE`].
    pub fn is_joining(&self) -> bool {
        self.0.as_ref().is_some_and(Cluster::is_joining)
    }

    /// Leaves the cluster in good order, if that takes no longer than `within`.
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

/// The states a member can be in, with the names they go by.
pub const STATES: [(MemberState, &str); 4] = [
    (MemberState::Alive, "alive"),
    (MemberState::Suspect, "suspect"),
    (MemberState::Down, "down"),
    (MemberState::Left, "left"),
];

/// The name of a member's state.
pub fn state_name(state: MemberState) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("unknown", |(_, name)| name)
}
