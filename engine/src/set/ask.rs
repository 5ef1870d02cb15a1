//! What is asked of one limit.

use alloc::sync::Arc;
use core::fmt;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::key::{Key, KeyHash};
use crate::limit::{Lender, Limit, Receipt, Subject, settle};
use crate::limiter::Limiter;
use crate::observer::Observer;
use crate::rule::Rule;

/// A cost asked of one key of one limit, as part of a [`LimitSet`](crate::LimitSet). The key is
/// hashed and not kept.
#[derive(Clone)]
#[must_use = "an ask does nothing until it is part of a set that is checked"]
pub struct Ask<'l> {
    limit: Lender<'l>,
    name: &'l str,
    whom: Subject<'l>,
    cost: u64,
    /// When the limit was looked at.
    at: Timestamp,
    decision: Decision,
    receipt: Receipt,
}

impl<R, C, O> Limiter<R, C, O>
where
    R: Rule,
    C: Clock + Send + Sync,
    O: Observer + Send + Sync,
{
    /// `cost` units of `key`, to be asked for together with what other limits have to admit: see
    /// [`LimitSet`](crate::LimitSet).
    pub fn ask(&self, key: impl Key, cost: u64) -> Ask<'_> {
        Ask::new(self, key, cost)
    }

    /// As [`Limiter::ask`], for a set whose reservation goes with a task: it keeps the limiter alive.
    pub fn ask_owned(self: &Arc<Self>, key: impl Key, cost: u64) -> Ask<'static>
    where
        C: 'static,
        O: 'static,
    {
        let limit: Arc<dyn Limit> = Arc::<Self>::clone(self);
        Ask::owned(limit, key, cost)
    }
}

impl Ask<'static> {
    /// As [`Ask::new`], of a limit that the ask keeps alive.
    pub fn owned(limit: Arc<dyn Limit>, key: impl Key, cost: u64) -> Self {
        let whom = Subject::from(limit.place(key.hash_with(limit.hasher())));
        Self::from_lender(Lender::Shared(limit), whom, cost)
    }
}

impl<'l> Ask<'l> {
    /// `cost` units of `key`, asked of a limit of any kind: what [`Limiter::ask`] is to a limiter. A limit without keys
    /// takes every key for the one it has, so that all asks of it are asks of one key, as by
    /// [`Single::ask`](crate::Single::ask).
    pub fn new(limit: &'l dyn Limit, key: impl Key, cost: u64) -> Self {
        Self::of(limit, Subject::from(limit.place(key.hash_with(limit.hasher()))), cost)
    }

    /// `cost` units, asked of a limit as whom it knows.
    pub(crate) fn of(limit: &'l dyn Limit, whom: Subject<'l>, cost: u64) -> Self {
        Self::from_lender(Lender::Borrowed(limit), whom, cost)
    }

    fn from_lender(limit: Lender<'l>, whom: Subject<'l>, cost: u64) -> Self {
        let (decision, receipt) = (Decision::OPEN, Receipt::NOTHING);
        Self { limit, name: "", whom, cost, at: Timestamp::ORIGIN, decision, receipt }
    }

    /// The same with a name for the limit, by which [`Blocked`](crate::Blocked) tells it.
    pub fn named(self, name: &'l str) -> Self {
        Self { name, ..self }
    }

    /// What the limit is called, empty unless [`Ask::named`] was.
    #[must_use]
    pub fn name(&self) -> &'l str {
        self.name
    }

    /// The key's hash under its limit's hasher.
    #[must_use]
    pub fn key(&self) -> KeyHash {
        self.whom.key
    }

    /// The units that are asked for.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    fn limit(&self) -> &dyn Limit {
        self.limit.limit()
    }

    /// What the limit said last.
    pub(super) fn decision(&self) -> Decision {
        self.decision
    }

    /// Whether the limit had room when it was asked last.
    pub(super) fn fits(&self) -> bool {
        self.decision.is_allowed()
    }

    /// The place in the order in which all sets take: by limit, then by key.
    pub(super) fn rank(&self) -> (usize, u64) {
        (core::ptr::from_ref(self.limit()).addr(), self.whom.key.to_bits())
    }

    /// Whether it is asked of the same key under the same quota, so that costs add up.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        self.rank() == other.rank() && self.whom.quota == other.whom.quota
    }

    /// Finds out whether the cost fits, together with the costs of earlier asks of the same key.
    pub(super) fn look_beside(&mut self, earlier: &[Self]) {
        self.at = self.limit().now();
        self.decision = self.limit().look(self.whom, self.cost_beside(earlier), self.at);
        // An ask may have been part of another set before.
        self.receipt = Receipt::NOTHING;
    }

    /// Lets the limit charge the denial of the look.
    pub(super) fn deny_beside(&mut self, earlier: &[Self]) {
        let charged = self.limit().deny(self.whom, self.cost_beside(earlier), self.at);
        self.decision = charged.unwrap_or(self.decision);
    }

    /// The cost, together with the costs of earlier asks of the same key.
    fn cost_beside(&self, earlier: &[Self]) -> u64 {
        let same = earlier.iter().filter(|other| other.is_as(self));
        same.fold(self.cost, |sum, other| sum.saturating_add(other.cost))
    }

    /// Takes the cost if it fits, at the time of the look; whether it did.
    pub(super) fn take(&mut self) -> bool {
        (self.decision, self.receipt) = self.limit().take(self.whom, self.cost, self.at);
        self.fits()
    }

    /// Takes the cost if it fits, without a look before; whether it did.
    pub(super) fn take_now(&mut self) -> bool {
        self.at = self.limit().now();
        self.take()
    }

    /// Lets a decision stand, whatever the limit has said since.
    pub(super) fn insist(&mut self, decision: Decision) {
        self.decision = decision;
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&mut self) {
        if self.receipt != Receipt::NOTHING {
            let _ = self.limit().give_back(self.whom, self.cost, self.receipt);
            self.receipt = Receipt::NOTHING;
        }
    }

    /// Makes of what was taken `actual` units.
    pub(super) fn settle(&mut self, actual: u64) {
        self.decision = settle(self.limit(), self.whom, self.cost, self.receipt, actual);
    }

    /// Says what the first of the earlier asks of the same key says, if there is one.
    pub(super) fn agree_with(&mut self, earlier: &[Self]) {
        let Some(first) = earlier.iter().find(|other| other.rank() == self.rank()) else { return };
        self.decision = if first.is_as(self) {
            first.decision
        } else {
            self.limit().look(self.whom, 0, self.limit().now())
        };
    }

    /// Lets the limit's observer hear of the decision as one on `cost` units.
    pub(super) fn tell(&self, cost: u64) {
        self.limit().tell(self.whom.key, cost, &self.decision);
    }
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("name", &self.name)
            .field("key", &self.whom.key)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}
