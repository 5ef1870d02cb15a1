//! How a limiter decides: by the key's word alone, or with leases or charged denials.

use crate::rule::Rule;
#[cfg(feature = "std")]
use crate::rule::gcra::Gcra;
#[cfg(feature = "std")]
use crate::rule::modes::Modes;

#[cfg(feature = "std")]
use super::lease::Leases;

/// What decides a check.
///
/// Nested, so that a check by the word alone compares one discriminant and loads nothing.
#[derive(Debug)]
pub(crate) enum Mode {
    /// The key's word alone.
    Word,
    /// Leases, or charged denials, in addition to the word.
    Extended(Extended),
}

/// What decides a check beyond the key's word.
#[derive(Debug)]
pub(crate) enum Extended {
    /// Units of hot keys that threads have leased.
    #[cfg(feature = "std")]
    Leased(Leases),
    /// Denied checks are charged to the word too, up to this many bursts beyond the burst.
    ChargedDenials(u64),
}

impl Mode {
    /// Denied checks are charged up to `denied_bursts`, or units leased up to `lease_units`; with 0
    /// they are not. Nothing is leased if leases would be too small to pay.
    pub(super) fn new<R: Rule>(
        algorithm: &R::Algorithm,
        denied_bursts: u64,
        lease_units: u64,
    ) -> Self {
        if denied_bursts > 0 {
            return Self::Extended(Extended::ChargedDenials(denied_bursts));
        }
        Self::leased::<R>(algorithm, lease_units).unwrap_or(Self::Word)
    }

    #[cfg(feature = "std")]
    fn leased<R: Rule>(algorithm: &R::Algorithm, units: u64) -> Option<Self> {
        let leases = Leases::new(units, algorithm.leasable()?)?;
        Some(Self::Extended(Extended::Leased(leases)))
    }

    #[cfg(not(feature = "std"))]
    fn leased<R: Rule>(_: &R::Algorithm, _: u64) -> Option<Self> {
        None
    }

    /// Whether the word alone decides.
    #[inline]
    pub(super) const fn is_by_word(&self) -> bool {
        matches!(self, Self::Word)
    }

    /// Up to how many bursts beyond the burst denied checks are charged; `None` where they are not.
    #[inline]
    pub(super) const fn charged_bursts(&self) -> Option<u64> {
        match self {
            Self::Extended(Extended::ChargedDenials(bursts)) => Some(*bursts),
            _ => None,
        }
    }

    /// The leases, and their arithmetic.
    #[cfg(feature = "std")]
    #[inline]
    pub(super) fn leases<'l, R: Rule>(
        &'l self,
        algorithm: &'l R::Algorithm,
    ) -> Option<(&'l Leases, &'l Gcra)> {
        match (self, algorithm.leasable()) {
            (Self::Extended(Extended::Leased(leases)), Some(gcra)) => Some((leases, gcra)),
            _ => None,
        }
    }
}
