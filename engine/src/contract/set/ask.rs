//! What is asked of one limit.

use alloc::sync::Arc;
use core::fmt;

use crate::base::decision::Decision;
use crate::base::key::{Key, KeyHash};
use crate::contract::limit::{Limit, LimitRef, Receipt, Subject, answered, settle};
use crate::contract::observer::ObservedKey;
use crate::time::Timestamp;

/// A cost asked of one key of one limit, as part of a [`LimitSet`](crate::LimitSet). The key is
/// hashed and not kept.
#[derive(Clone)]
#[must_use = "an ask does nothing until it is part of a set that is checked"]
pub struct Ask<'l> {
    limit: LimitRef<'l>,
    name: &'l str,
    subject: Subject<'l>,
    cost: u64,
    /// The reading of the clock at which the limit was last asked.
    at: Timestamp,
    /// What the limit decided, which a shadow does not enforce.
    decision: Decision,
    charge: AskCharge,
}

/// Where an ask stands in the order in which all sets take: by limit, then by key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The address of the limit.
    limit: usize,
    key: u64,
}

/// What was taken in one step for all asks that [match](Ask::is_as) each other. The first of them
/// holds it, the others `NOTHING`.
#[derive(Clone, Copy)]
struct AskCharge {
    receipt: Receipt,
    /// The sum of their costs.
    units: u64,
    /// The units on which the later ones have been settled so far.
    used: u64,
}

impl AskCharge {
    const NOTHING: Self = Self { receipt: Receipt::NOTHING, units: 0, used: 0 };
}

impl Ask<'static> {
    /// As [`Ask::new`], for a limit that the ask keeps alive.
    pub fn owned(limit: Arc<dyn Limit>, key: impl Key, cost: u64) -> Self {
        let subject = Subject::from(limit.charged_key(key.hash_with(limit.hasher())));
        Self::shared(limit, subject, cost)
    }
}

impl<'l> Ask<'l> {
    /// `cost` units of `key`, asked of a limit of any kind: the generic form of
    /// [`Limiter::ask`](crate::Limiter::ask). A limit without keys takes every key for its only
    /// one, so all asks of it are asks of one key, as by
    /// [`DirectLimiter::ask`](crate::DirectLimiter::ask).
    pub fn new(limit: &'l dyn Limit, key: impl Key, cost: u64) -> Self {
        Self::of(limit, Subject::from(limit.charged_key(key.hash_with(limit.hasher()))), cost)
    }

    /// `cost` units, asked of a limit for a subject that it has hashed.
    pub(crate) fn of(limit: &'l dyn Limit, subject: Subject<'l>, cost: u64) -> Self {
        Self::of_limit(LimitRef::Borrowed(limit), subject, cost)
    }

    /// As [`Ask::of`], for a limit that the ask keeps alive.
    pub(crate) fn shared(limit: Arc<dyn Limit>, subject: Subject<'l>, cost: u64) -> Self {
        Self::of_limit(LimitRef::Shared(limit), subject, cost)
    }

    fn of_limit(limit: LimitRef<'l>, subject: Subject<'l>, cost: u64) -> Self {
        let (decision, charge) = (Decision::OPEN, AskCharge::NOTHING);
        Self { limit, name: "", subject, cost, at: Timestamp::ORIGIN, decision, charge }
    }

    /// The same with a name for the limit, which [`Blocked`](crate::set::Blocked) reports.
    pub fn named(self, name: &'l str) -> Self {
        Self { name, ..self }
    }

    /// The same for a class of calls that leaves at least `units` of this limit to others: see
    /// [`Limiter::check_with_headroom`](crate::Limiter::check_with_headroom). Asks of one key with
    /// different headrooms are charged one after another, as
    /// [under two quotas](crate::LimitSet#one-key-under-two-quotas).
    /// [`LimitSet::acquire`](crate::LimitSet::acquire) takes no place in line for such an ask: it
    /// waits as for a limit without lines, so calls that leave less come first.
    pub fn with_headroom(mut self, units: u64) -> Self {
        self.subject.left = units;
        self
    }

    /// The name of the limit, empty unless [`Ask::named`] set one.
    #[must_use]
    pub fn name(&self) -> &'l str {
        self.name
    }

    /// The key's hash under its limit's hasher.
    #[must_use]
    pub fn key(&self) -> KeyHash {
        self.subject.key
    }

    /// The units that are asked for.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    pub(super) fn limit(&self) -> &dyn Limit {
        self.limit.limit()
    }

    pub(super) fn subject(&self) -> Subject<'l> {
        self.subject
    }

    /// The reading of the clock at which the limit was last asked.
    pub(super) fn at(&self) -> Timestamp {
        self.at
    }

    /// The last answer of the limit.
    pub(super) fn decision(&self) -> Decision {
        answered(self.limit(), self.decision)
    }

    /// Whether the limit had room in its last answer, or does not enforce it.
    pub(super) fn fits(&self) -> bool {
        self.decision.is_allowed() || self.is_shadow()
    }

    /// Whether the limit enforces nothing.
    pub(super) fn is_shadow(&self) -> bool {
        self.limit().is_shadow()
    }

    pub(super) fn rank(&self) -> Rank {
        let limit = core::ptr::from_ref(self.limit()).addr();
        Rank { limit, key: self.subject.key.to_bits() }
    }

    /// Whether both ask the same key under the same quota and leave the same (they *match*): their
    /// costs add up, and are taken and settled as one.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        self.rank() == other.rank() && self.subject == other.subject
    }

    /// Finds out whether the cost fits, together with the costs of earlier asks that match.
    pub(super) fn peek_with(&mut self, earlier: &[Self]) {
        self.at = self.limit().now();
        self.decision = self.limit().peek_at(self.subject, self.cost_with(earlier), self.at);
        // An ask may have been part of another set before.
        self.charge = AskCharge::NOTHING;
    }

    /// Lets the limit charge the denial of the peek.
    pub(super) fn deny_with(&mut self, earlier: &[Self]) {
        let charged = self.limit().charge_denied(self.subject, self.cost_with(earlier), self.at);
        self.decision = charged.unwrap_or(self.decision);
    }

    /// The cost, together with the costs of the other asks that match.
    pub(super) fn cost_with(&self, others: &[Self]) -> u64 {
        let same = others.iter().filter(|other| other.is_as(self));
        same.fold(self.cost, |sum, other| sum.saturating_add(other.cost))
    }

    /// Takes the cost if it fits, together with the costs of later asks that match, at the time of
    /// the peek; whether it did. If an earlier ask has taken it, repeats its answer.
    pub(super) fn take_with(&mut self, earlier: &[Self], later: &[Self]) -> bool {
        if let Some(first) = earlier.iter().find(|other| other.is_as(self)) {
            self.decision = first.decision;
        } else {
            self.take(self.cost_with(later));
        }
        self.fits()
    }

    /// Takes the cost if it fits, without a peek before and without other asks; whether it did.
    pub(super) fn take_now(&mut self) -> bool {
        self.at = self.limit().now();
        self.take(self.cost);
        self.fits()
    }

    fn take(&mut self, units: u64) {
        let (decision, receipt) = self.limit().try_charge(self.subject, units, self.at);
        (self.decision, self.charge) = (decision, AskCharge { receipt, units, used: 0 });
    }

    /// Replaces the answer by an earlier one.
    pub(super) fn insist(&mut self, decision: Decision) {
        self.decision = decision;
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&mut self) {
        let AskCharge { receipt, units, .. } = self.charge;
        if receipt != Receipt::NOTHING {
            let _ = self.limit().give_back(self.subject, units, receipt);
            self.charge = AskCharge::NOTHING;
        }
    }

    /// Settles its part of what was taken on `actual` units. If an earlier ask matches, the first
    /// such ask does so when it is settled itself, after all others. Of what a shadow would have
    /// denied, nothing is charged.
    pub(super) fn settle(&mut self, earlier: &mut [Self], actual: u64) {
        if let Some(first) = earlier.iter_mut().find(|other| other.is_as(self)) {
            first.charge.used = first.charge.used.saturating_add(actual);
        } else if self.decision.is_allowed() {
            let AskCharge { receipt, units, used } = self.charge;
            let actual = used.saturating_add(actual);
            self.decision = settle(self.limit(), self.subject, units, receipt, actual);
        }
    }

    /// Repeats the answer of the first earlier ask that matches. If there are only earlier asks of
    /// the same key under other quotas, asks the limit what remains.
    pub(super) fn agree_with(&mut self, earlier: &[Self]) {
        if let Some(first) = earlier.iter().find(|other| other.is_as(self)) {
            self.decision = first.decision;
        } else if earlier.iter().any(|other| other.rank() == self.rank()) {
            self.decision = self.limit().peek_at(self.subject, 0, self.limit().now());
        }
    }

    /// Notifies the limit's observer of the decision as one on `cost` units.
    pub(super) fn notify(&self, cost: u64) {
        self.limit().notify(ObservedKey::of_hash(&self.subject.key), cost, &self.decision);
    }
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("name", &self.name)
            .field("key", &self.subject.key)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}
