//! What a change of a quota leaves of a debt.

/// What happens to the debt of keys when their quota changes.
///
/// Each kind states what a key is admitted in an interval `[s, t]` in which the quota changes, if
/// all changes are of that kind. What the rates grant is the sum of `rate * time` over the quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Inheritance {
    /// Consumed units stay consumed: a key that owes 5 units still owes 5 units, at the new rate.
    /// Debt within the old burst becomes at most the new burst. A raised quota denies nothing that
    /// the new quota allows. From or to a quota that is blocked or unlimited this is
    /// [`Inheritance::Keep`].
    ///
    /// In `[s, t]`: at most the burst in force at `s`, the difference of both bursts for each
    /// change (what is raised is granted, what is cut is forgotten), and what the rates grant.
    Proportional,
    /// Debt stays as a duration: every key becomes fresh when it would have. Under a raised rate
    /// debt stands for more units than before, and may deny what the new quota allows; under a
    /// lowered one for fewer.
    ///
    /// In `[s, t]`: units whose emission intervals, each of the quota that admitted it, are
    /// together at most `t - s` and the longest time in which one of the bursts refills.
    Keep,
    /// Debt is forgotten: every key is fresh.
    ///
    /// In `[s, t]`: at most the bursts of all the quotas, and what the rates grant.
    Reset,
}
