//! The node's handle on the cluster.

use std::fmt;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tidegate_cluster::{Cluster, LimitId, Recording, StartError, Trust};
pub use tidegate_cluster::{
    Config, JoinKind, LinkState, Member, MemberState, OverAdmission, PeerStats, Stats, Steps,
};
use tidegate_engine::clock::TscClock;
use tidegate_engine::{KeyHash, KeyHasher, Quota};

/// A limiter that records what it charges in the cluster, if there is one.
pub type Limiter = tidegate_engine::Limiter<Quota, TscClock, Option<Recording>>;

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

    /// Serves other nodes, and joins those that it is given or founds a cluster: see [`Config`].
    ///
    /// # Errors
    /// One line that names the flag.
    pub async fn start(config: Config) -> Result<Self, String> {
        let (bind, advertise, by) = (config.bind, config.advertise, trust_flag(&config.trust));
        let cluster = Cluster::start(config).await;
        cluster
            .map(|cluster| Self(Some(cluster)))
            .map_err(|error| start_error(bind, advertise, by, &error))
    }

    /// The address that other nodes dial; `None` without a cluster.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.as_ref().map(Cluster::local_addr)
    }

    /// The hasher of keys; `None` without a cluster.
    pub fn key_hasher(&self) -> Option<KeyHasher> {
        self.0.as_ref().map(Cluster::key_hasher)
    }

    /// The observer of the limiter of a limit; `None` without a cluster.
    pub fn recording(&self, limit: LimitId) -> Option<Recording> {
        self.0.as_ref().map(|cluster| cluster.recording(limit))
    }

    /// What other nodes send of the limit counts in this limiter from here on.
    ///
    /// # Errors
    /// One line, where two limits have one id.
    pub fn attach(&self, limit: LimitId, limiter: &Arc<Limiter>) -> Result<(), String> {
        let attached = self.0.as_ref().map_or(Ok(()), |cluster| cluster.attach(limit, limiter));
        attached.map_err(|error| format!("limits cannot be made: {error}"))
    }

    /// Records admissions, of keys with their costs in units, under a quota that came with the
    /// checks.
    #[inline]
    pub fn record_inline(&self, quota: &Quota, admitted: impl IntoIterator<Item = (KeyHash, u64)>) {
        let Some(cluster) = &self.0 else { return };
        // Checks that are decided together mostly cost the same.
        let mut last: Option<(u64, LimitId, i64)> = None;
        for (key, cost) in admitted.into_iter().filter(|(_, cost)| *cost > 0) {
            let (_, limit, by) = match last {
                Some(known @ (of, ..)) if of == cost => known,
                _ => charged(quota, cost),
            };
            last = Some((cost, limit, by));
            cluster.record(limit, key, by);
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

    /// What all nodes admitted beyond a limit; `None` without a cluster.
    pub fn over_admission(&self, limit: LimitId) -> Option<OverAdmission> {
        self.0.as_ref().map(|cluster| cluster.over_admission(limit))
    }

    /// Counters and gauges of the cluster; `None` without one.
    pub fn stats(&self) -> Option<Stats> {
        self.0.as_ref().map(Cluster::stats)
    }

    /// Until when other nodes accept this node's certificate: see [`Cluster::certificate_expiry`].
    pub fn certificate_expiry(&self) -> Option<SystemTime> {
        self.0.as_ref().and_then(Cluster::certificate_expiry)
    }

    /// Whether this node decides alone though it knows of other nodes, or seeds name some.
    pub fn is_alone(&self) -> bool {
        self.stats().is_some_and(|stats| stats.is_alone)
    }

    /// Whether this node is in its cluster, or in none: see [`Cluster::has_joined`].
    pub fn has_joined(&self) -> bool {
        self.0.as_ref().is_none_or(Cluster::has_joined)
    }

    /// Waits until this node is in its cluster: how it came there; `None` without a cluster. One
    /// that ends before never is.
    pub async fn joined(&self) -> Option<JoinKind> {
        let Some(cluster) = &self.0 else { return None };
        match cluster.joined().await {
            Some(entry) => Some(entry),
            None => pending().await,
        }
    }

    /// Whether this node takes part in its cluster no more: see [`Cluster::has_ended`].
    pub fn has_ended(&self) -> bool {
        self.0.as_ref().is_some_and(Cluster::has_ended)
    }

    /// Waits until [`Gossip::has_ended`]; for ever without a cluster.
    pub async fn ended(&self) {
        match &self.0 {
            Some(cluster) => cluster.ended().await,
            None => pending().await,
        }
    }

    /// Waits until what this node knows of the others is recent enough to decide from; see
    /// [`Cluster::is_current`]. At once without a cluster.
    #[inline]
    pub async fn current(&self) {
        if let Some(cluster) = &self.0
            && !cluster.is_current()
        {
            // Futures that hold this one are small where it does not wait.
            Box::pin(cluster.current()).await;
        }
    }

    /// Changes how this node proves its identity and which nodes it trusts: see
    /// [`Cluster::rotate`].
    ///
    /// # Errors
    /// One line; nothing changes then.
    pub async fn rotate(&self, trust: Trust) -> Result<(), String> {
        let Some(cluster) = &self.0 else { return Ok(()) };
        let (address, by) = (cluster.local_addr(), trust_flag(&trust));
        cluster.rotate(trust).await.map_err(|error| start_error(address, None, by, &error))
    }

    /// Looks up seeds again: see [`Cluster::look_up_seeds`].
    pub fn look_up_seeds(&self) {
        if let Some(cluster) = &self.0 {
            cluster.look_up_seeds();
        }
    }

    /// Leaves the cluster, within `within`: see [`Cluster::leave`].
    pub async fn leave(&self, within: Duration) {
        if let Some(cluster) = &self.0 {
            cluster.leave(within).await;
        }
    }
}

/// The flag that gives what a node proves its identity by.
fn trust_flag(trust: &Trust) -> &'static str {
    if trust.is_by_certificates() { "--cluster-cert" } else { "--cluster-secret-file" }
}

/// Names the flag that is wrong; `by` is that of the trust.
fn start_error(
    bind: SocketAddr,
    advertise: Option<SocketAddr>,
    by: &str,
    error: &StartError,
) -> String {
    match (error, advertise) {
        (StartError::Certificate(_), _) => format!("{by}: {error}"),
        (StartError::Undialable { .. }, Some(addr)) => format!("--advertise {addr}: {error}"),
        (StartError::Undialable { .. }, None) => {
            format!("--cluster {bind}: {error}, so --advertise one that they can reach")
        }
        _ => format!("--cluster {bind}: {error}"),
    }
}

/// A cost of 1 or more units, the limit of this quota for other nodes, and the debt of the cost.
fn charged(quota: &Quota, cost: u64) -> (u64, LimitId, i64) {
    let debt = quota.debt_of(cost);
    // A large cost says more exactly than one unit what one takes.
    let unit = u32::try_from(cost).map_or_else(|_| quota.debt_of(1), |cost| debt / cost);
    let by = i64::try_from(debt.as_nanos()).unwrap_or(i64::MAX);
    (cost, LimitId::inline(unit, quota.burst_size()), by)
}

impl fmt::Debug for Gossip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gossip").field(&self.address()).finish()
    }
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

/// The name of the state of a link.
pub fn link_name(link: LinkState) -> &'static str {
    match link {
        LinkState::Waiting => "waiting",
        LinkState::Dialling => "dialling",
        LinkState::Open => "open",
        LinkState::Flowing => "flowing",
    }
}

/// The name of a member's state.
pub fn state_name(state: MemberState) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("unknown", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use tidegate_cluster::Secret;

    use super::*;

    #[test]
    fn an_error_at_the_start_names_the_flag() {
        let addr = "0.0.0.0:7".parse().unwrap();
        let secret = Trust::from(Secret::from_bytes(b"a secret that is long enough").unwrap());
        let line = |advertise, by, error: &StartError| start_error(addr, advertise, by, error);
        let refused = StartError::Certificate("refused".into());
        let by = trust_flag(&secret);
        assert_eq!(line(None, by, &refused), "--cluster-secret-file: certificate: refused");
        let undialable = StartError::Undialable { addr, problem: "is unspecified" };
        assert!(line(None, by, &undialable).starts_with("--cluster 0.0.0.0:7: peers dial"));
        assert!(line(Some(addr), by, &undialable).starts_with("--advertise 0.0.0.0:7: peers"));
    }

    /// Other nodes know a quota by the debt of a unit.
    #[test]
    fn a_quota_is_the_same_for_other_nodes_whatever_a_check_costs() {
        let quota = Quota::per_day(1_000_000_000_000).burst(2_000_000_000_000);
        let (_, expected, _) = charged(&quota, 1_000_000);
        for cost in [u64::from(u32::MAX), 1 << 32, 50_000_000_000] {
            assert_eq!(charged(&quota, cost).1, expected, "{cost}");
        }
    }
}
