//! The range of a TAT, of a debt and of time, in units.

use crate::base::word::VALUE_BITS;
use crate::rule::quota::MAX_BURST_TOLERANCE;

/// The largest TAT: 2^59 - 1 units, at least 18 years after the origin. Charging saturates here.
pub(crate) const TAT_MAX: u64 = (1 << VALUE_BITS) - 1;

/// The longest burst tolerance.
pub(crate) const TAU_MAX: u64 = MAX_BURST_TOLERANCE.as_nanos() as u64;
/// Time stands still here, at least 13.7 years after the origin: a full burst still fits below
/// `TAT_MAX`, and an exhausted key stays denied, so saturation never mints tokens.
pub(crate) const NOW_MAX: u64 = TAT_MAX - TAU_MAX;
