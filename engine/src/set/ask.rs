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
    charge: Charge,
}

/// What was taken in one step for all asks that are [as](Ask::is_as) one. The first of them holds it, the others
/// `NOTHING`.
#[derive(Clone, Copy)]
struct Charge {
    receipt: Receipt,
    /// The sum of their costs.
    units: u64,
    /// The units that the later ones have been settled on so far.
    used: u64,
}

impl Charge {
    const NOTHING: Self = Self { receipt: Receipt::NOTHING, units: 0, used: 0 };
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
        Self::shared(limit, whom, cost)
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

    /// As [`Ask::of`], of a limit that the ask keeps alive.
    pub(crate) fn shared(limit: Arc<dyn Limit>, whom: Subject<'l>, cost: u64) -> Self {
        Self::from_lender(Lender::Shared(limit), whom, cost)
    }

    fn from_lender(limit: Lender<'l>, whom: Subject<'l>, cost: u64) -> Self {
        let (decision, charge) = (Decision::OPEN, Charge::NOTHING);
        Self { limit, name: "", whom, cost, at: Timestamp::ORIGIN, decision, charge }
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

    /// Whether it is asked of the same key under the same quota: the costs add up, and are taken and settled as one.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        self.rank() == other.rank() && self.whom.quota == other.whom.quota
    }

    /// Finds out whether the cost fits, together with the costs of earlier asks that are as this one.
    pub(super) fn look_beside(&mut self, earlier: &[Self]) {
        self.at = self.limit().now();
        self.decision = self.limit().look(self.whom, self.cost_beside(earlier), self.at);
        // An ask may have been part of another set before.
        self.charge = Charge::NOTHING;
    }

    /// Lets the limit charge the denial of the look.
    pub(super) fn deny_beside(&mut self, earlier: &[Self]) {
        let charged = self.limit().deny(self.whom, self.cost_beside(earlier), self.at);
        self.decision = charged.unwrap_or(self.decision);
    }

    /// The cost, together with the costs of those other asks that are as this one.
    fn cost_beside(&self, others: &[Self]) -> u64 {
        let same = others.iter().filter(|other| other.is_as(self));
        same.fold(self.cost, |sum, other| sum.saturating_add(other.cost))
    }

    /// Takes the cost if it fits, together with the costs of later asks that are as this one, at the time of the look;
    /// whether it did. Where an earlier ask has taken it, says what that one was told.
    pub(super) fn take_beside(&mut self, earlier: &[Self], later: &[Self]) -> bool {
        if let Some(first) = earlier.iter().find(|other| other.is_as(self)) {
            self.decision = first.decision;
        } else {
            self.take(self.cost_beside(later));
        }
        self.fits()
    }

    /// Takes the cost if it fits, without a look before and beside no other ask; whether it did.
    pub(super) fn take_now(&mut self) -> bool {
        self.at = self.limit().now();
        self.take(self.cost);
        self.fits()
    }

    fn take(&mut self, units: u64) {
        let (decision, receipt) = self.limit().take(self.whom, units, self.at);
        (self.decision, self.charge) = (decision, Charge { receipt, units, used: 0 });
    }

    /// Lets a decision stand, whatever the limit has said since.
    pub(super) fn insist(&mut self, decision: Decision) {
        self.decision = decision;
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&mut self) {
        let Charge { receipt, units, .. } = self.charge;
        if receipt != Receipt::NOTHING {
            let _ = self.limit().give_back(self.whom, units, receipt);
            self.charge = Charge::NOTHING;
        }
    }

    /// Makes of its part of what was taken `actual` units. Where an earlier ask is as this one, the first such ask
    /// does so when it is settled itself, after all others.
    pub(super) fn settle(&mut self, earlier: &mut [Self], actual: u64) {
        if let Some(first) = earlier.iter_mut().find(|other| other.is_as(self)) {
            first.charge.used = first.charge.used.saturating_add(actual);
        } else {
            let Charge { receipt, units, used } = self.charge;
            let actual = used.saturating_add(actual);
            self.decision = settle(self.limit(), self.whom, units, receipt, actual);
        }
    }

    /// Says what the first of the earlier asks says that are as this one. Where there are only such of the same key
    /// under other quotas, finds out what they have left.
    pub(super) fn agree_with(&mut self, earlier: &[Self]) {
        if let Some(first) = earlier.iter().find(|other| other.is_as(self)) {
            self.decision = first.decision;
        } else if earlier.iter().any(|other| other.rank() == self.rank()) {
            self.decision = self.limit().look(self.whom, 0, self.limit().now());
        }
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
