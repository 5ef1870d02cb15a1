//! Conversion between a clock's nanoseconds and the units of one quota.

use crate::base::cold::cold_path;
use crate::time::Timestamp;

use super::range::NOW_MAX;

/// The ratio of unit and nanosecond, in both directions, as binary fractions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Units a nanosecond times 2^63, rounded down, below 2^63; 0 means exactly one unit, because a
    /// comparison with 0 needs no constant.
    units: u64,
    /// Nanoseconds a unit times 2^62, rounded up from `units`, so that waiting for a rounded
    /// duration always covers the units it came from. Below 2^63.
    nanos: u64,
}

impl Scale {
    /// One unit is one nanosecond.
    pub(super) const NANOSECOND: Self = Self { units: 0, nanos: 1 << 62 };

    #[cfg(feature = "std")]
    pub(crate) const fn to_words(self) -> [u64; 2] {
        [self.units, self.nanos]
    }

    #[cfg(feature = "std")]
    #[inline]
    pub(crate) const fn from_words([units, nanos]: [u64; 2]) -> Self {
        Self { units, nanos }
    }

    /// The scale in which one emission interval, `period` ns / `count`, holds `units` units;
    /// `units * count <= period`.
    pub(super) fn of_interval(units: u64, period: u64, count: u64) -> Self {
        let numerator = u128::from(units) * u128::from(count);
        if numerator == u128::from(period) {
            return Self::NANOSECOND;
        }
        let units = ((numerator << 63) / u128::from(period)) as u64;
        let nanos = (1_u128 << 125).div_ceil(u128::from(units)) as u64;
        Self { units, nanos }
    }

    /// Units a nanosecond times 2^63, rounded down; at most 2^63.
    pub(crate) const fn units(self) -> u64 {
        if self.is_nanosecond() { 1 << 63 } else { self.units }
    }

    /// Whether a unit is a nanosecond and needs no conversion. A predicted branch is off the path
    /// on which a decision waits; a product is on it. The conversion is out of line: a jump is
    /// little compared with the product, and without conversion nothing is jumped over.
    #[inline]
    pub(super) const fn is_nanosecond(self) -> bool {
        self.units == Self::NANOSECOND.units
    }

    /// The instant in units, rounded down; never beyond `NOW_MAX`.
    #[inline]
    pub(crate) fn instant(self, now: Timestamp) -> u64 {
        let now = self.to_units(now.as_nanos());
        if now > NOW_MAX { end_of_time() } else { now }
    }

    /// A duration in units, rounded down.
    #[inline]
    pub(crate) fn to_units(self, nanos: u64) -> u64 {
        if self.is_nanosecond() {
            return nanos;
        }
        cold_path();
        ((u128::from(nanos) * u128::from(self.units)) >> 63) as u64
    }

    /// A duration in nanoseconds, rounded up; `units` is a difference of two TATs.
    #[inline]
    pub(crate) fn to_nanos(self, units: u64) -> u64 {
        if self.is_nanosecond() {
            return units;
        }
        cold_path();
        ((u128::from(units) * u128::from(self.nanos) + ((1 << 62) - 1)) >> 62) as u64
    }

    /// From one TAT to another, in nanoseconds, rounded to the nearest.
    #[inline]
    pub(crate) fn to_change(self, from: u64, to: u64) -> i64 {
        // TATs are below 2^59.
        let units = to as i64 - from as i64;
        if self.is_nanosecond() {
            return units;
        }
        cold_path();
        ((i128::from(units) * i128::from(self.nanos) + (1 << 61)) >> 62) as i64
    }

    /// A duration in nanoseconds, rounded down.
    pub(crate) fn to_nanos_down(self, units: u64) -> u64 {
        self.to_nanos(units).saturating_sub(u64::from(!self.is_nanosecond()))
    }
}

/// Out of line, so that the compiler emits a predicted branch in place of a conditional move, which
/// the decision would wait for.
#[cold]
fn end_of_time() -> u64 {
    NOW_MAX
}
