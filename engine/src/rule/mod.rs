//! Rules: what a limiter enforces, and the arithmetic by which it does.
//!
//! Public here are rules that are chosen at run time, bounds and errors; the rules themselves are
//! re-exported at the root of the crate.

pub(crate) mod algorithm;
pub(crate) mod any;
pub(crate) mod gcra;
pub(crate) mod headroom;
#[cfg(feature = "std")]
pub(crate) mod live;
pub(crate) mod modes;
pub(crate) mod quota;
pub(crate) mod saved;
mod text;
pub(crate) mod window;

pub use any::AnyRule;
#[cfg(feature = "std")]
pub use live::Inheritance;
pub use quota::MAX_BURST_TOLERANCE;
pub use text::ParseRuleError;
pub use window::{MAX_UTC_OFFSET_SECONDS, MAX_WINDOW};

use core::fmt::Debug;
use core::time::Duration;

use crate::time::Timestamp;

use algorithm::{Algorithm, Saves};
use gcra::PerCallQuotas;
use modes::Modes;
use quota::{Quota, QuotaError};

/// What a [`Limiter`](crate::Limiter) enforces on each of its keys, with one 64-bit word of state a
/// key.
///
/// | rule | algorithm | admitted in a window's length, at most |
/// |---|---|---|
/// | [`Quota`] | GCRA (token bucket) | the burst and what the rate grants |
/// | [`Quota::strict`](crate::Quota::strict) | GCRA with the burst taken off the rate | the limit |
/// | `LiveQuota` | GCRA whose quota can be changed | as under a [`Quota`]; across changes as `Inheritance` says |
/// | [`SlidingWindow`](crate::SlidingWindow) | two windows, weighted | less than twice the limit |
/// | [`FixedWindow`](crate::FixedWindow), [`CalendarWindow`](crate::CalendarWindow) | a count a window | twice the limit |
///
/// The trait is sealed: the table relies on properties of the words that types of other crates
/// cannot be held to.
pub trait Rule: Copy + Debug + Send + Sync + 'static + sealed::Sealed {
    /// The rule in the form in which checks are decided.
    #[doc(hidden)]
    type Algorithm: Saves + Modes + 'static;
    /// A quota given with the call, on the values of this rule. Any algorithm on these values where
    /// the rule supports no such quota.
    #[doc(hidden)]
    type PerCall<'a>: Algorithm<State = <Self::Algorithm as Algorithm>::State>;

    /// The rule with its place in the wall clock's time, if it needs one and has not been given it.
    /// `now` is the present reading of the limiter's clock.
    #[doc(hidden)]
    #[must_use]
    fn anchor(self, now: Timestamp) -> Self {
        let _ = now;
        self
    }

    /// Compiles the rule.
    #[doc(hidden)]
    fn algorithm(&self) -> Result<Self::Algorithm, QuotaError>;

    /// A quota given with the call; `None` where the rule supports none.
    #[doc(hidden)]
    fn per_call<'a>(
        _algorithm: &'a Self::Algorithm,
        _quota: &'a Quota,
    ) -> Option<Self::PerCall<'a>> {
        None
    }

    /// The time in which all that fits at once is granted again, for reports to clients; `None` if
    /// it never is, or if that time varies.
    #[doc(hidden)]
    fn refill_time(&self, _algorithm: &Self::Algorithm) -> Option<Duration> {
        None
    }

    /// What `visitor` returns for a rule whose state is debt; `None` for any other rule.
    #[doc(hidden)]
    fn visit_debt_rule<V: sealed::DebtRuleVisitor<Self>>(visitor: V) -> Option<V::Output> {
        let _ = visitor;
        None
    }
}

/// A [`Rule`] whose state is debt, a duration: [`Quota`] and `LiveQuota`.
///
/// It bounds the operations that only make sense on debt: quotas given with the call
/// ([`Limiter::with_quota`](crate::Limiter::with_quota)), waiting
/// ([`Limiter::acquire`](crate::Limiter::acquire), [`Limiter::enqueue`](crate::Limiter::enqueue)),
/// charges for denied checks
/// ([`LimiterBuilder::charge_denied`](crate::limiter::LimiterBuilder::charge_denied)), and reading
/// and exchange of debt ([`Limiter::debt`](crate::Limiter::debt),
/// [`Limiter::charge_debt`](crate::Limiter::charge_debt)). Sealed, like [`Rule`].
pub trait DebtRule: Rule<Algorithm: PerCallQuotas> {}

pub(crate) mod sealed {
    pub trait Sealed {}

    /// What can be done only where the state is debt, for callers that know no more than
    /// [`Rule`](super::Rule).
    pub trait DebtRuleVisitor<R> {
        type Output;

        fn visit(self) -> Self::Output
        where
            R: super::DebtRule;
    }
}
