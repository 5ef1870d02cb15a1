//! Gossip between Tidegate nodes: the processes that embed this crate enforce one limit together,
//! without a central store.
//!
//! Every node decides locally, on its own [`Limiter`](tidegate_engine::Limiter), and every few
//! milliseconds sends the other nodes what it admitted: as *debt*, a duration. Debt is kept beyond
//! the burst, so over-admission is paid back and the long-run rate is the limit. Nodes need no
//! synchronised clocks. All traffic is QUIC under TLS 1.3; both sides prove that they know the
//! cluster's secret.
//!
//! Each node dials every other one, at most 256 of them ([`protocol::MAX_PEERS`]), so a cluster has
//! up to 257 nodes. Beyond that the limit does not hold across all of them, which
//! [`Stats::peers_undialled`] shows.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tidegate_cluster::{Cluster, Config, GossipLimit, LimitId, Limits, Secret};
//! use tidegate_engine::{Limiter, Quota};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let secret = Secret::from_file("/etc/tidegate/secret".as_ref())?;
//! let limiter = Limiter::builder(Quota::per_minute(100)).build()?;
//! let limiter = Arc::new(limiter);
//!
//! let id = LimitId::named("default");
//! let mut limits = Limits::new();
//! limits.add(id, Arc::clone(&limiter));
//! let mut config = Config::new("10.0.0.1:7381".parse()?, secret);
//! config.join = vec!["10.0.0.2:7381".parse()?];
//! let cluster = Cluster::start(config, limits).await?;
//!
//! // Decide, and record what was admitted:
//! let cost = 1;
//! let key = cluster.hash("user:42"); // the same on all nodes
//! if limiter.check_n(key, cost).is_allowed() {
//!     cluster.record(id, key, limiter.quota().debt_of(cost));
//! }
//! // The same in one call:
//! let limit = GossipLimit::new(id, limiter, cluster.clone());
//! let decision = limit.check("user:42");
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

mod cluster;
mod config;
mod driver;
mod gossip_limit;
mod limits;
mod member;
mod name;
pub mod protocol;
mod secret;
mod steps;
mod sync;

pub use cluster::Cluster;
pub use config::{Config, StartError};
pub use gossip_limit::GossipLimit;
pub use limits::{LimitId, Limits};
pub use member::{Member, MemberState};
pub use name::{ClusterName, ClusterNameError};
pub use protocol::{LinkState, PeerStats, Stats};
pub use secret::{Secret, SecretError};
pub use steps::Steps;
