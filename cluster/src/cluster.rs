//! The handle to a running node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::KeyHash;
use tokio::sync::{mpsc, oneshot};

use crate::config::{Config, StartError};
use crate::driver::{self, Command, Shared};
use crate::limits::{LimitId, Limits};
use crate::member::Member;
use crate::protocol::Stats;

/// A node's membership in a cluster. Cheap to clone. When the last clone is dropped the node stops
/// without leaving, so its peers find it down: see [`Cluster::leave`].
#[derive(Clone, Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

impl Cluster {
    /// Binds the address and starts the node's tasks on the current tokio runtime, which needs its
    /// I/O and time drivers. Joining continues in the background: [`Cluster::is_joining`].
    ///
    /// # Errors
    /// When the address cannot be bound or is unspecified, a limiter hashes with another hasher
    /// than [`Secret::key_hasher`](crate::Secret::key_hasher), or no certificate can be made.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[expect(clippy::unused_async, reason = "must be called on a runtime, and may come to wait")]
    pub async fn start(config: Config, limits: Limits) -> Result<Self, StartError> {
        let (shared, commands) = driver::start(config, limits)?;
        Ok(Self { shared, commands })
    }

    /// The bound address, which is the one that peers dial.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.addr
    }

    /// Records the debt of an admission, which is sent to the other nodes with the next flush: call
    /// it after every allowed check with a cost above 0. Takes a lock that is shared with a
    /// sixty-fourth of all keys; never waits for I/O. A debt of 0 is ignored. Beyond 2^20 unsent
    /// keys further ones are dropped: [`Stats::records_dropped`].
    pub fn record(&self, limit: LimitId, key: KeyHash, debt: Duration) {
        self.shared.recorder.record(limit, key, debt);
    }

    /// Every known member: this node first, then the others by address. Members that are down or
    /// have left stay listed for two hours, or until 1,024 members are known and they have been
    /// down the longest. At most 50 ms old.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.shared.members()
    }

    /// Whether this node still waits for the state of the cluster: until it has that, it may admit
    /// what other nodes have admitted already. False at once for a node that founds a cluster, and
    /// false after [`Config::join_timeout`] when no node answers; so false does not mean that the
    /// node is in the cluster, see [`Cluster::has_joined`].
    #[must_use]
    pub fn is_joining(&self) -> bool {
        self.shared.is_joining()
    }

    /// Whether this node is in its cluster: it founded the cluster (no other node to join), or has
    /// taken over another node's state. Still false when [`Config::join_timeout`] has expired: the
    /// node then decides alone and keeps trying to join. Once true it stays true, also when all
    /// other nodes become unreachable: [`Cluster::members`] lists which are alive.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.shared.has_joined()
    }

    /// Counters and sizes. At most 50 ms old.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Leaves the cluster: flushes what is recorded, waits until every member that is alive has
    /// acknowledged it, those still being dialled included, announces that it leaves, and closes.
    /// Takes at most `within`, of which the last 500 ms, or half if that is less, are kept for the
    /// announcement: what is unacknowledged then may be lost. What is recorded afterwards is not
    /// sent. A concurrent call returns together with the first, a later one at once.
    pub async fn leave(&self, within: Duration) {
        let (done, left) = oneshot::channel();
        if self.commands.send(Command::Leave { within, done }).await.is_ok() {
            // An error means that the driver has ended already.
            let _ = left.await;
        }
    }
}
