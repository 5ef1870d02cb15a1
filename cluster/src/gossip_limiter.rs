//! Limits of the cluster: limiters that record in it what they charge.

use std::fmt;
use std::sync::{Arc, Weak};

use tidegate_engine::clock::TscClock;
use tidegate_engine::limiter::LimiterBuilder;
use tidegate_engine::observer::ObservedKey;
use tidegate_engine::rule::DebtRule;
use tidegate_engine::{BuildError, Clock, Decision, KeyHash, Limiter, Observer, Quota};

use crate::cluster::Cluster;
use crate::limits::{DebtLimiter, LimitId, MAX_LIMITS, Refused};

/// A limiter whose limit is that of the whole cluster; from [`Cluster::limit`].
///
/// It is a [`Limiter`] with all that one can do: checks of all kinds, charges, refunds, resets,
/// reservations, waiting, quotas given with the call, sets of limits, layers. Whatever changes the
/// debt of a key is recorded, and other nodes apply it to theirs.
pub type GossipLimiter<R = Quota, C = TscClock, O = ()> = Limiter<R, C, Recording<O>>;

impl Cluster {
    /// A limit of the cluster, with room for
    /// [`DEFAULT_CAPACITY`](tidegate_engine::limiter::DEFAULT_CAPACITY) keys; see
    /// [`Cluster::limit_with`]. The id is mostly a name.
    ///
    /// # Errors
    /// As [`Cluster::limit_with`].
    pub fn limit<R: DebtRule>(
        &self,
        id: impl Into<LimitId>,
        rule: R,
    ) -> Result<Arc<GossipLimiter<R>>, LimitError> {
        self.limit_with(id, Limiter::builder(rule))
    }

    /// A limit of the cluster, with choices: the builder's, except for its hasher, which is that of
    /// the cluster, and leases, of which there are none. An observer that is set is notified as
    /// usual.
    ///
    /// At any time, also before the node has joined. What other nodes have sent of a limit before
    /// this node had it counts, up to [`MAX_UNCLAIMED_KEYS`](crate::MAX_UNCLAIMED_KEYS) keys in
    /// debt of all such limits together
    /// ([`Stats::unknown_dropped`](crate::Stats::unknown_dropped)). The limiter keeps the node
    /// running; when its last `Arc` is dropped, this node no longer has the limit, and forgets what
    /// its keys owe. A rule that changes while it runs is a
    /// [`LiveQuota`](tidegate_engine::LiveQuota). Every node should enforce the same rule;
    /// debt is exchanged as durations, so while a new rule is rolled out each node counts it under
    /// its own. Where that changes the burst tolerance (burst / rate), keys at their limit are
    /// denied meanwhile on nodes where it is shorter.
    ///
    /// Blocks as [`LimiterBuilder::build`] does, and O(keys in debt that are waiting for it).
    ///
    /// # Errors
    /// When the limiter cannot be built, this node has a limit of this id, it has
    /// [`MAX_LIMITS`](crate::MAX_LIMITS), or the id is one of [`LimitId::inline`].
    pub fn limit_with<R, C, O>(
        &self,
        id: impl Into<LimitId>,
        builder: LimiterBuilder<R, C, O>,
    ) -> Result<Arc<GossipLimiter<R, C, O>>, LimitError>
    where
        R: DebtRule,
        C: Clock + Send + Sync + 'static,
        O: Observer + Send + Sync + 'static,
    {
        let id = id.into();
        let builder = builder.hasher(self.key_hasher());
        let limiter = builder.map_observer(|inner| self.recording(id).before(inner)).build();
        let limiter = Arc::new(limiter.map_err(LimitError::Build)?);
        self.attach(id, &limiter)?;
        Ok(limiter)
    }

    /// The observer by which a limiter records: for one that is built elsewhere, with
    /// [`Cluster::key_hasher`], and given to [`Cluster::attach`].
    #[must_use]
    pub fn recording(&self, id: LimitId) -> Recording {
        Recording { id, cluster: self.clone(), inner: () }
    }

    /// Makes a limiter that of a limit on this node, so that what other nodes send of it counts. It
    /// records what it charges itself if its observer is, or contains, [`Cluster::recording`] of
    /// the same id; else [`Cluster::record`] has to be called. Its hasher must be
    /// [`Cluster::key_hasher`], or its keys be given as [`Cluster::hash`] makes them.
    ///
    /// # Errors
    /// When this node has a limit of this id, or [`MAX_LIMITS`](crate::MAX_LIMITS), or the id is
    /// one of [`LimitId::inline`].
    pub fn attach<R, C, O>(
        &self,
        id: LimitId,
        limiter: &Arc<Limiter<R, C, O>>,
    ) -> Result<(), LimitError>
    where
        R: DebtRule,
        C: Clock + Send + Sync + 'static,
        O: Observer + Send + Sync + 'static,
    {
        let words: Weak<dyn DebtLimiter> =
            Arc::downgrade(&(Arc::clone(limiter) as Arc<dyn DebtLimiter>));
        self.add_limit(id, words).map_err(|refused| match refused {
            Refused::Inline => LimitError::Inline,
            Refused::Exists => LimitError::Exists,
            Refused::TooMany => LimitError::TooMany,
        })
    }
}

/// Records in the cluster what a limiter charges and gives back, as its observer. Cheap to clone;
/// it keeps the node running.
#[derive(Clone, Debug)]
pub struct Recording<O = ()> {
    id: LimitId,
    cluster: Cluster,
    inner: O,
}

impl Recording {
    /// The same in front of another observer.
    pub fn before<O: Observer>(self, inner: O) -> Recording<O> {
        Recording { id: self.id, cluster: self.cluster, inner }
    }
}

impl<O> Recording<O> {
    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The id of the limit.
    #[must_use]
    pub fn id(&self) -> LimitId {
        self.id
    }

    /// The observer that this one passes changes on to.
    #[must_use]
    pub fn inner(&self) -> &O {
        &self.inner
    }
}

impl<O: Observer> Observer for Recording<O> {
    #[inline]
    fn on_decision(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision) {
        self.inner.on_decision(key, cost, decision);
    }

    #[inline]
    fn observes_decisions(&self) -> bool {
        self.inner.observes_decisions()
    }

    #[inline]
    fn observes_debt(&self) -> bool {
        true
    }

    #[inline]
    fn on_debt_change(&self, key: KeyHash, by: i64) {
        self.cluster.record(self.id, key, by);
        if self.inner.observes_debt() {
            self.inner.on_debt_change(key, by);
        }
    }

    #[inline]
    fn prefetch(&self, key: KeyHash) {
        self.cluster.prefetch(self.id, key);
        self.inner.prefetch(key);
    }
}

/// Why there is no limit. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The limiter cannot be built.
    Build(BuildError),
    /// This node has a limit of this id: share that one, or drop it first.
    Exists,
    /// This node has [`MAX_LIMITS`](crate::MAX_LIMITS) limits.
    TooMany,
    /// The id is one of [`LimitId::inline`], under which checks of the limiter of
    /// [`LimitId::INLINE`] are recorded: no other limiter's words are kept under it.
    Inline,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::Exists => f.write_str("this node has a limit of this id already"),
            Self::TooMany => write!(f, "a node has at most {MAX_LIMITS} limits"),
            Self::Inline => f.write_str("this id is of a quota that comes with each check"),
        }
    }
}

impl std::error::Error for LimitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Build(error) => std::error::Error::source(error),
            Self::Exists | Self::TooMany | Self::Inline => None,
        }
    }
}
