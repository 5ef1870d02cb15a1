//! The handle to a running node.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use tidegate_engine::key::HasherSource as _;
use tidegate_engine::{Key, KeyHash, KeyHasher};
use tokio::sync::{mpsc, oneshot};

use crate::config::{Config, StartError};
use crate::driver::{self, Command, Shared};
use crate::limits::{DebtLimiter, LimitId, Refused};
use crate::member::Member;
use crate::protocol::{JoinKind, OverAdmission, PeerStats, Stats};
use crate::trust::Trust;

/// A node's membership in a cluster. Cheap to clone. When the last clone and the last limiter of it
/// are dropped the node stops without leaving, so its peers find it down: see [`Cluster::leave`].
#[derive(Clone, Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

impl Cluster {
    /// Binds the address and starts the node on threads of its own, so a runtime that is busy or
    /// blocked delays nothing of it; any executor will do to wait for this. Joining continues in
    /// the background: [`Cluster::joined`].
    ///
    /// A test that pauses tokio's clock (`tokio::time::pause`) does not pause the node: what a
    /// handle compares with the present on that test's threads, such as ages in [`Stats`], whether
    /// this node is current, and what a new limit is handed of debt that waits for it, is wrong
    /// then.
    ///
    /// # Errors
    /// When the address cannot be bound; peers cannot dial it, or the one that is advertised
    /// ([`Config::advertise`] says which they can); [`Config::byte_cap`] is too small; the system's
    /// randomness fails, or there is no certificate that this node would accept of another, as
    /// where that of the operator names another address; or no thread can be started.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let (shared, commands) = driver::start(config).await?;
        Ok(Self { shared, commands })
    }

    /// The address that peers dial: that of [`Config::bind`] unless another one is advertised.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.addr
    }

    /// A hasher of keys that is always the one that the cluster's nodes have agreed on. It changes
    /// when this node joins, and when its cluster meets an older one.
    #[must_use]
    pub fn key_hasher(&self) -> KeyHasher {
        self.shared.keys.hasher()
    }

    /// The hash of a key, at present the same on all nodes.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: impl Key) -> KeyHash {
        key.hash_with(self.shared.keys.current())
    }

    pub(crate) fn add_limit(
        &self,
        id: LimitId,
        limiter: Weak<dyn DebtLimiter>,
    ) -> Result<(), Refused> {
        self.shared.limits.insert(id, limiter, || self.shared.now())
    }

    /// Records by how much a key owes more, in nanoseconds, for a limit that is decided elsewhere;
    /// less than 0 for what was given back. It is sent to the other nodes with the next flush, and
    /// counts there only. The limiters of [`Cluster::limit`](Cluster::limit) record by themselves.
    ///
    /// A bounded number of steps on memory of the calling thread's own, without a lock or an
    /// allocation once the thread has recorded something. Up to 256 threads at a time have such
    /// memory: up to 7.9 MB each where it records many keys (7.4 MB of its own, and 0.5 MB with
    /// which the node reads it), so up to 2.0 GB in all. It is kept for a thread that comes later,
    /// and freed when the node has ended and its last handle and limiter are dropped. Records of
    /// other threads, and of keys that find no room, go to maps of 2^20 keys in all
    /// ([`Stats::records_shared`]), whose locks are only tried. What finds no room there either is
    /// dropped: [`Stats::records_dropped`].
    ///
    /// The debt is dated when this thread first recorded something since the last flush, so up to
    /// one flush interval early: see [`Cluster::record_at`].
    #[inline]
    pub fn record(&self, limit: LimitId, key: KeyHash, by: i64) {
        self.shared.recorder.record(limit, key, by);
    }

    /// The same with the time at which it was consumed, not later than the present.
    pub fn record_at(&self, limit: LimitId, key: KeyHash, by: i64, at: Instant) {
        self.shared.recorder.record_at(limit, key, by, at);
    }

    /// A hint that this thread is about to record something of this key: before a check it has the
    /// memory of the record fetched meanwhile. It pays with more keys than the cache has room for.
    #[inline]
    pub fn prefetch(&self, limit: LimitId, key: KeyHash) {
        self.shared.recorder.prefetch(limit, key);
    }

    /// Every known member: this node first, then the others by address. Members that are down or
    /// have left stay listed for two hours, or until 1,024 members are known and they have been
    /// down the longest. At most 50 ms old.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.shared.members()
    }

    /// Waits until this node is in its cluster, and says how it came there; `None` when it leaves,
    /// or fails, before that. Until then it has not got the state of the cluster, so it may admit
    /// what other nodes have admitted already. Takes no longer than [`Config::found_after`] when no
    /// node answers, and otherwise as long as taking over another node's state does, and catching
    /// up with all that are alive of what they have admitted since: two round trips, and 1 s at
    /// most. Limits that are made before that are charged with it in the order in which it was
    /// admitted.
    ///
    /// Cancel-safe: dropping the future changes nothing, and any number may wait.
    pub async fn joined(&self) -> Option<JoinKind> {
        self.shared.joined().await
    }

    /// Whether [`Cluster::joined`] is over: this node founded its cluster, or has taken over
    /// another node's state and caught up with the others. It stays true when all other nodes
    /// become unreachable: [`Cluster::members`] lists which are alive. It is false again only where
    /// this cluster meets one whose key wins, which was founded earlier or has several nodes where
    /// this is one of a single node, until this node has joined that one.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.shared.has_joined()
    }

    /// Whether this node's words are recent enough to decide from. Not when the process, or the
    /// task of the cluster, has not run for 500 ms, as after SIGSTOP or on a machine that is
    /// overloaded: then not until it has caught up with each node that sent it changes before, for
    /// 1 s at most. Nor where it has taken over a state and catches up with the others before it
    /// has joined; nor from when its cluster meets one whose key wins until it has joined that one.
    /// Always for a node to which no other node sends changes: one that decides alone, has never
    /// had a state, leaves or has ended.
    ///
    /// Limiters do not look at it: a check decides at once. A caller that would rather answer later
    /// asks once for each request, or for many that are decided together, and awaits
    /// [`Cluster::current`].
    ///
    /// It takes a load and a reading of the clock, any number of threads at a time. When it is
    /// true, checks of the calling thread see all that the other nodes had sent before the moment
    /// from which on this node is current again. What is sent next takes a flush interval as
    /// always, and a thread may be stopped between this call and its check.
    #[inline]
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.shared.is_current()
    }

    /// Waits until [`Cluster::is_current`], for 1.5 s at most, also when the cluster's task does
    /// not run at all; at once for a node that decides alone. Any number may wait.
    ///
    /// Cancel-safe: dropping the future changes nothing.
    ///
    /// Any executor will do: a thread that the first wait of the process starts keeps the time.
    ///
    /// # Panics
    /// Where it has to wait, and the system cannot start that thread.
    pub async fn current(&self) {
        self.shared.current().await;
    }

    /// The nodes that this one dials, by address, and what has passed between them; at most
    /// [`MAX_PEERS`](crate::protocol::MAX_PEERS). At most 50 ms old.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerStats> {
        self.shared.peers()
    }

    /// What all nodes admitted beyond a limit, as far as this node can estimate it from what they
    /// sent: not a sum over nodes, every node comes to about the same. Nothing is known of
    /// [`LimitId::INLINE`], of keys beyond 512 that are near their limit at a time
    /// ([`Stats::estimates_left_out`]), and of what came too late to be applied whole. Of more than
    /// 1,024 limits, the figures of those that were exceeded least begin anew. At most 350 ms old.
    #[must_use]
    pub fn over_admission(&self, limit: LimitId) -> OverAdmission {
        self.shared.over_admission(limit.to_bits())
    }

    /// Counters and sizes. At most 50 ms old.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Changes how this node proves its identity and which nodes it trusts, while it runs.
    ///
    /// New links use it. Links that are open stay so, except to nodes that would now be refused;
    /// those that prove themselves anew go on from where they were, and nothing is lost. So a
    /// secret is replaced in three rounds over all nodes: [`Trust::secrets`] with the old one first
    /// and the new one, with the new one first and the old one, and the new one alone.
    ///
    /// # Errors
    /// When this node has no certificate that the others accept under the same trust. Nothing
    /// changes then.
    pub async fn rotate(&self, trust: impl Into<Trust>) -> Result<(), StartError> {
        let (done, rotated) = oneshot::channel();
        let command = Command::Rotate { trust: trust.into(), done };
        if self.commands.send(command).await.is_err() {
            // The driver has ended: there are no links any more.
            return Ok(());
        }
        rotated.await.unwrap_or(Ok(()))
    }

    /// Until when other nodes accept this node's certificate, and those that are given with it;
    /// when an authority's own ends counts neither here nor to them. `None` where that is a hundred
    /// years or more, as with a secret, from which nodes make certificates of their own. No new
    /// link opens after it. The log warns of it once a day, and when the certificate is read: in
    /// the last week, or the last third of its time if that is less, and when it has expired.
    #[must_use]
    pub fn certificate_expiry(&self) -> Option<SystemTime> {
        self.shared.certificate_expiry()
    }

    /// Looks up [`Config::seeds`] again at once, also the files among them; waits for nothing.
    pub fn look_up_seeds(&self) {
        self.shared.look_up.notify_one();
    }

    /// Whether the node has ended: it has left ([`Cluster::leave`]), or failed, as by a panic where
    /// it applies what others send (also in what it calls there of the embedding service: the clock
    /// of a limiter, a subscriber of `tracing`), or where it accepts no links any more.
    ///
    /// Then it sends and receives nothing any more, and nothing but [`Cluster::start`] begins one
    /// anew. Limiters go on deciding, by what this node admits alone. Where it failed, the log has
    /// a line of the level ERROR, [`Stats::is_alone`] is true, and no link is open.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.commands.is_closed()
    }

    /// Waits until [`Cluster::has_ended`]: so that a service whose node fails can act, as by
    /// ending itself for its supervisor to start it again.
    ///
    /// Cancel-safe: dropping the future changes nothing. Any number may wait, on any executor.
    pub async fn ended(&self) {
        self.commands.closed().await;
    }

    /// Leaves the cluster: flushes what is recorded, waits until every member that is alive has
    /// acknowledged it, those still being dialled included, announces that it leaves, and closes.
    /// Takes at most `within`, of which the last 500 ms, or half if that is less, are kept for the
    /// announcement: what is unacknowledged then may be lost. What is recorded afterwards is not
    /// sent. A concurrent call returns together with the first, a later one at once. Where the
    /// future is dropped the node goes on leaving, in the time that this call has given it.
    ///
    /// The address is free once it returns: a node can be started there anew. For that the threads
    /// of the node are waited for, which takes no time unless a subscriber of `tracing` blocks
    /// them, and then 500 ms beyond `within`.
    pub async fn leave(&self, within: Duration) {
        let (done, left) = oneshot::channel();
        if self.commands.send(Command::Leave { within, done }).await.is_ok() {
            // An error says that the node has ended, by this call or by another one.
            let _ = left.await;
        }
    }
}
