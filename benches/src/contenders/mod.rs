//! The participating limiters, behind one statically dispatched trait.

#[cfg(feature = "peers")]
mod algorithms;
#[cfg(feature = "cluster")]
mod clustered;
mod governor;
mod ours;
#[cfg(feature = "peers")]
mod peers;
#[cfg(feature = "peers")]
mod single;

use core::fmt;
use core::hint::black_box;
use core::num::NonZeroU32;
use core::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(feature = "peers")]
pub use self::algorithms::{Window, Windowed};
#[cfg(feature = "cluster")]
pub use self::clustered::Clustered;
pub use self::governor::GovernorString;
pub use self::ours::{Batch32, Hashing, Leased, Ours, Precise, Rapid, Recent, Sip, Style};
#[cfg(feature = "peers")]
pub use self::peers::{
    Bare, GovernorDirect, GovernorPresized, GovernorU64, GovernorUpkeep, LeakyBucket,
    LeakyBucketQueue, PapayaU64, PingoraLimits, Quota, RateGuard, Ratelimit, SccU64,
    ThrottleNetLog, Throttlecrab, TokioSemaphore, VolgaFixedWindow, VolgaSlidingWindow,
};
#[cfg(feature = "peers")]
pub use self::single::{Alone, Single};
use crate::failure::Failure;
use crate::script::CallKey;
use crate::workloads::{Plan, Workload};

/// A limiter that can be measured. Implementations only translate, and pass every part of the
/// limiter's decision to `black_box` so that none is optimised away; for permits, whether there was
/// one.
pub trait Contender: Sync + Sized + 'static {
    /// The name in reports.
    const NAME: &'static str;

    /// The variant of ours that is called in the same way and compared with this one.
    const AGAINST: &'static str = "precise";

    /// The type of the keys.
    type Key: CallKey;

    /// The measured way to call this limiter, if there are several.
    #[must_use]
    fn variant() -> Option<String> {
        None
    }

    /// Why the limiter is excluded from a workload, if it is.
    #[must_use]
    fn absence(_: Workload) -> Option<&'static str> {
        None
    }

    /// A limiter with the plan's quota and room for its keys.
    ///
    /// # Errors
    /// When the limiter refuses the plan.
    fn build(plan: &Plan) -> Result<Self, Failure>;

    /// Takes one unit, the way a user of the library does.
    fn check(&self, key: &Self::Key) -> bool;

    /// Takes one unit of each key; returns how many were allowed. This is the timed part.
    #[inline]
    fn check_all(&self, keys: &[Self::Key]) -> u64 {
        self.check_each(keys.iter())
    }

    /// The same where the keys are scattered.
    #[inline]
    fn check_each<'k>(&self, keys: impl Iterator<Item = &'k Self::Key>) -> u64 {
        keys.map(|key| u64::from(self.check(black_box(key)))).sum()
    }

    /// Takes several units, outside the timed part.
    fn admit(&self, key: &Self::Key, units: NonZeroU32) -> bool;

    /// The number of keys with state, if the limiter reports it.
    fn live_keys(&self) -> Option<usize>;

    /// The name and the variant.
    #[must_use]
    fn label() -> Label {
        Label { contender: Self::NAME.to_owned(), variant: Self::variant() }
    }
}

#[cfg(feature = "peers")]
/// For a limiter without keys: only workloads with a single key fit it.
fn without_keys(workload: Workload) -> Option<&'static str> {
    (!workload.is_hot()).then_some("it has no keys")
}

/// A contender that exposes enough state for an audit.
pub trait Audited: Contender {
    /// The time on the limiter's own clock, since any fixed origin.
    fn now(&self) -> Duration;

    /// The debt of the key: the time until it is fresh.
    fn debt(&self, key: &Self::Key) -> Duration;

    /// Live keys evicted since the limiter was built.
    fn evicted(&self) -> u64;

    /// Whether some units may be charged but never used, see
    /// [`Plan::IN_VAIN`](crate::workloads::Plan::IN_VAIN).
    fn charges_in_vain(&self) -> bool {
        false
    }

    /// Remarks to publish with the figures of this variant.
    fn remarks(&self) -> Remarks {
        Remarks::default()
    }
}

/// What a row of a report is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The limiter.
    pub contender: String,
    /// The way it is called, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.contender)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, " {variant}"))
    }
}

/// What a figure has to be published with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Remarks {
    /// Microseconds: the longest time the limiter's clock has stood still, if it is one that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_us: Option<u64>,
    /// Units: the largest lease, where there are leases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_units: Option<u64>,
}

impl Remarks {
    /// The remarks that hold for two measurements together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            staleness_us: self.staleness_us.max(other.staleness_us),
            lease_units: self.lease_units.max(other.lease_units),
        }
    }
}

impl fmt::Display for Remarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(micros) = self.staleness_us {
            write!(f, "clock up to {:.1} ms late", micros as f64 / 1e3)?;
        }
        if let Some(units) = self.lease_units {
            let separator = if self.staleness_us.is_some() { ", " } else { "" };
            write!(f, "{separator}leases of {units}")?;
        }
        Ok(())
    }
}
