//! Gossip between Tidegate nodes: the processes that embed this crate keep one limit true together,
//! without a central store.
//!
//! Every node decides alone, on its own [`Limiter`](tidegate_engine::Limiter), and tells the others
//! what it admitted: as *debt*, a duration, every few milliseconds. Debt is kept beyond the burst,
//! so what was admitted too much is paid back and the long-run rate is the limit. Nodes need no
//! synchronised clocks. All traffic is QUIC under TLS 1.3; both sides prove that they know the
//! cluster's secret.
//!
//! Each node dials every other, at most 128 of them ([`core::MAX_PEERS`]), so a cluster has up to
//! 129 nodes. Beyond that the limit no longer holds across all of them, which
//! [`Stats::peers_undialled`] shows.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tidegate_cluster::{Cluster, Config, GossipLimit, LimitId, Limits, Secret};
//! use tidegate_engine::{Limiter, Quota};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let secret = Secret::from_file("/etc/tidegate/secret".as_ref())?;
//! // All nodes must hash keys alike, so the hasher comes from the secret.
//! let limiter = Limiter::builder(Quota::per_minute(100)).hasher(secret.key_hasher()).build()?;
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
//! if limiter.check_n("user:42", cost).is_allowed() {
//!     cluster.record(id, limiter.hash("user:42"), limiter.quota().debt_of(cost));
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
//! [`core`] holds the protocol without sockets and clocks; `driver` connects it to both.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cluster;
mod config;
pub mod core;
mod driver;
mod gossip_limit;
mod limits;
mod member;
mod secret;

pub use cluster::Cluster;
pub use config::{Config, StartError};
pub use core::Stats;
pub use gossip_limit::GossipLimit;
pub use limits::{LimitId, Limits};
pub use member::{Member, MemberState};
pub use secret::{Secret, SecretError};
