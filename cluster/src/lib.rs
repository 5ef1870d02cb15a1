//! Gossip between Tidegate nodes: the processes that embed this crate enforce one limit together,
//! without a central store.
//!
//! Every node decides locally, on its own [`Limiter`](tidegate_engine::Limiter), and every few
//! milliseconds sends the other nodes what it admitted: as *debt*, a duration. Debt is kept beyond
//! the burst, so over-admission is paid back and the long-run rate is the limit. Nodes need no
//! synchronised clocks. All traffic is QUIC under TLS 1.3; both sides prove that they belong to
//! the cluster ([`Trust`]).
//!
//! Each node dials every other one, at most 256 of them ([`protocol::MAX_PEERS`]), so a cluster has
//! up to 257 nodes. Beyond that the limit does not hold across all of them, which
//! [`Stats::peers_undialled`] shows.
//!
//! ```no_run
//! use tidegate_cluster::{Cluster, Config, Secret};
//! use tidegate_engine::Quota;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let secret = Secret::from_file("/etc/tidegate/secret".as_ref())?;
//! let mut config = Config::new("10.0.0.1:7381".parse()?, secret);
//! // Every node is given the same list.
//! config.join = vec!["10.0.0.1:7381".parse()?, "10.0.0.2:7381".parse()?];
//! let cluster = Cluster::start(config).await?;
//! let api = cluster.limit("api", Quota::per_minute(100))?; // an engine's `Limiter`
//! // Until then this node does not know what the others have admitted.
//! cluster.joined().await;
//!
//! let decision = api.check("user:42"); // decides here, and is gossiped to the others
//! # let _ = decision;
//!
//! cluster.leave(std::time::Duration::from_secs(2)).await;
//! # Ok(())
//! # }
//! ```
//!
//! [`protocol`] is the protocol without sockets and clocks; `driver` connects it to both.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod cluster;
mod config;
mod driver;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gossip_limiter;
mod inline;
mod limits;
mod member;
mod name;
pub mod protocol;
mod secret;
mod seed;
mod steps;
mod sync;
mod trust;

pub use cluster::Cluster;
pub use config::{Config, MIN_FLUSH_INTERVAL, StartError};
pub use gossip_limiter::{GossipLimiter, LimitError, Recording};
pub use limits::{LimitId, MAX_LIMITS, MAX_UNCLAIMED_KEYS};
pub use member::{Member, MemberState};
pub use name::{ClusterName, ClusterNameError};
pub use protocol::{JoinKind, LinkState, OverAdmission, PeerStats, Stats};
pub use secret::{Secret, SecretError};
pub use seed::{MAX_SEED_FILE_BYTES, MAX_SEEDS_IN_FILE, Seed, SeedError};
pub use steps::Steps;
pub use trust::{CertificatePart, Certificates, CertificatesError, MAX_SECRETS, Trust};
