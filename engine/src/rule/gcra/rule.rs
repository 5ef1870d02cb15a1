//! A [`Quota`] as a rule: its algorithm is GCRA.

use core::time::Duration;

use crate::rule::quota::{Quota, QuotaError};
use crate::rule::{DebtRule, Rule, sealed};

use super::{Gcra, Scaled, per_call};

impl sealed::Sealed for Quota {}

impl DebtRule for Quota {}

impl Rule for Quota {
    type Algorithm = Gcra;
    type PerCall<'a> = Scaled;

    fn algorithm(&self) -> Result<Gcra, QuotaError> {
        Gcra::exact(self)
    }

    fn per_call<'a>(gcra: &'a Gcra, quota: &'a Self) -> Option<Scaled> {
        Some(per_call(gcra, quota))
    }

    fn visit_debt_rule<V: sealed::DebtRuleVisitor<Self>>(visitor: V) -> Option<V::Output> {
        Some(visitor.visit())
    }

    fn refill_time(&self, _: &Gcra) -> Option<Duration> {
        self.refill_time()
    }
}
