//! The handle to a running node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::KeyHash;
use tokio::sync::{mpsc, oneshot};

use crate::config::{Config, StartError};
use crate::core::Stats;
use crate::driver::{self, Command, Shared};
use crate::limits::{LimitId, Limits};
use crate::member::Member;

/// A node's membership in a cluster. Cheap to clone; when the last clone is dropped the node falls
/// silent without saying goodbye, see [`Cluster::leave`].
#[derive(Clone, Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

impl Cluster {
    /// Binds the address and starts the node's tasks on the current tokio runtime, which needs its
    /// I/O and time drivers. Joining goes on in the background: [`Cluster::is_joining`].
    ///
    /// # Errors
    /// When the address can not be bound or not be told to peers, or no certificate can be made.
    #[expect(clippy::unused_async, reason = "must be called on a runtime, and may come to wait")]
    pub async fn start(config: Config, limits: Limits) -> Result<Self, StartError> {
        let (shared, commands) = driver::start(config, limits)?;
        Ok(Self { shared, commands })
    }

    /// The bound address, which is what peers are told.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.addr
    }

    /// Records the debt of an admission, to be told to the others at the next flush: call it after
    /// every allowed check with a cost above 0. Takes a lock shared with a sixty-fourth of all keys;
    /// never waits for I/O.
    pub fn record(&self, limit: LimitId, key: KeyHash, debt: Duration) {
        self.shared.recorder.record(limit, key, debt);
    }

    /// Every member known, this node first, then by address. Members that are down or left stay
    /// listed for two hours, or until 1,024 members are known and they are down the longest. As of at
    /// most 50 ms ago.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.shared.members()
    }

    /// Whether the state of the cluster is still to come and worth waiting for: until then this node
    /// may admit what others have admitted already. False at once for a node that founds a cluster,
    /// and at the latest after [`Config::join_patience`] when nobody answers; so false does not
    /// mean that the node is in the cluster, which is what [`Cluster::has_joined`] says.
    #[must_use]
    pub fn is_joining(&self) -> bool {
        self.shared.is_joining()
    }

    /// Whether this node is in its cluster: it founded it (nobody to join besides itself), or has
    /// taken another node's state over. Stays false when [`Config::join_patience`] has merely run
    /// out: the node then decides alone and goes on trying. Once true it stays true, also when all
    /// others are unreachable later: [`Cluster::members`] says who is there.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.shared.has_joined()
    }

    /// Counters and sizes, as of at most 50 ms ago.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Leaves: tells what is recorded, waits for the acknowledgements of the peers that are
    /// connected, says goodbye and closes; all of it at most `within`, then it closes anyway.
    /// Afterwards the node takes no part any more; what is recorded then is not told.
    pub async fn leave(&self, within: Duration) {
        let (done, left) = oneshot::channel();
        if self.commands.send(Command::Leave { within, done }).await.is_ok() {
            // An error means that the node has ended already.
            let _ = left.await;
        }
    }
}
