//! Changes of a key's debt, and how several of them make one.

/// What happened to a key's theoretical arrival time, which may be any:
/// `TAT = max(TAT, date) + debt`.
///
/// Functions of this form are closed under composition ([`Change::then`]), so what happened to a
/// key over a while, refunds included, is one of them too. Applied late, a change adds no more to
/// the word of an idle key than what has not drained since. Dates are nanoseconds on one clock of
/// the node that holds the value; both may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// What is added, in nanoseconds: positive for what was consumed, negative for what was given
    /// back.
    pub debt: i64,
    /// When, in nanoseconds.
    pub date: i64,
}

impl Change {
    /// `debt` at `date`.
    #[must_use]
    pub const fn new(debt: i64, date: i64) -> Self {
        Self { debt, date }
    }

    /// This one first, and then `later`, as one.
    ///
    /// `max(max(TAT, date) + debt, date') + debt'` is
    /// `max(TAT, max(date, date' - debt)) + debt + debt'`. Saturates beyond 292 years.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        Self {
            debt: self.debt.saturating_add(later.debt),
            date: self.date.max(later.date.saturating_sub(self.debt)),
        }
    }

    /// The same as changes no later than `at`: what was given back, and what was consumed after
    /// that. Of both as one, made before `at`, the date may be as much later as was given back.
    pub(super) fn parts(self, at: i64) -> impl Iterator<Item = Self> {
        let ahead = self.date.saturating_sub(at).max(0);
        let given_back = (ahead > 0).then_some(Self::new(-ahead, at));
        let rest = Self::new(self.debt.saturating_add(ahead), self.date.min(at));
        given_back.into_iter().chain([rest])
    }

    /// What was given back, as far as it shows at `at`, when it has been made: all of it, unless
    /// something was consumed after it; then as much less as has passed since.
    pub(super) fn given_back(self, at: i64) -> i64 {
        self.date.saturating_sub(at).max(self.debt.saturating_neg()).max(0)
    }

    /// The TAT afterwards.
    #[must_use]
    pub fn apply(self, tat: i64) -> i64 {
        tat.max(self.date).saturating_add(self.debt)
    }

    /// The TAT of a key that was idle before.
    #[must_use]
    pub fn tat(self) -> i64 {
        self.date.saturating_add(self.debt)
    }

    /// What of the debt an idle key would still have at `now`: at most what was consumed.
    #[must_use]
    pub fn left(self, now: i64) -> i64 {
        self.tat().saturating_sub(now).min(self.debt).max(0)
    }
}
