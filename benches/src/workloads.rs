//! The workloads: their keys, and the quota that makes each what its name says.

use core::num::NonZeroU32;
use core::time::Duration;

use crate::failure::Failure;

/// One named workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// One key, every check allowed.
    HotAllowed,
    /// One key, every check denied.
    HotDenied,
    /// A million keys drawn by Zipf's law with exponent 0.99, every check allowed.
    #[value(name = "zipf-1m")]
    Zipf1M,
    /// The checks of [`Workload::Zipf1M`], of keys that lie scattered in memory.
    #[value(name = "zipf-1m-scattered")]
    Zipf1MScattered,
    /// Ten million keys drawn uniformly, every check allowed.
    #[value(name = "uniform-10m")]
    Uniform10M,
    /// The first check of a million keys by each thread, on a limiter that has seen none.
    NewKey,
    /// A million live keys at rest: the memory they take.
    Memory,
}

impl Workload {
    /// Every workload, in the order of a report.
    pub const ALL: [Self; 7] = [
        Self::HotAllowed,
        Self::HotDenied,
        Self::Zipf1M,
        Self::Zipf1MScattered,
        Self::Uniform10M,
        Self::NewKey,
        Self::Memory,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HotAllowed => "hot-allowed",
            Self::HotDenied => "hot-denied",
            Self::Zipf1M => "zipf-1m",
            Self::Zipf1MScattered => "zipf-1m-scattered",
            Self::Uniform10M => "uniform-10m",
            Self::NewKey => "new-key",
            Self::Memory => "memory",
        }
    }

    /// A short description.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::HotAllowed => "one key, every check allowed",
            Self::HotDenied => "one key, every check denied",
            Self::Zipf1M => "Zipf(0.99) over a million keys, every check allowed",
            Self::Zipf1MScattered => "the same, but a key's bytes miss the cache for all",
            Self::Uniform10M => "uniform over ten million keys, every check allowed",
            Self::NewKey => "first checks of a million keys by each thread",
            Self::Memory => "a million live keys",
        }
    }

    /// Keys that are live throughout; for [`Workload::NewKey`], the keys of each thread.
    #[must_use]
    pub const fn keys(self) -> usize {
        match self {
            Self::HotAllowed | Self::HotDenied => 1,
            Self::Zipf1M | Self::Zipf1MScattered | Self::NewKey | Self::Memory => 1_000_000,
            Self::Uniform10M => 10_000_000,
        }
    }

    /// Whether there is a single key, so that a limiter without keys can run it.
    #[must_use]
    pub const fn is_hot(self) -> bool {
        matches!(self, Self::HotAllowed | Self::HotDenied)
    }

    /// Whether the same keys are checked repeatedly after they have been inserted.
    #[must_use]
    pub const fn is_repeated(self) -> bool {
        !matches!(self, Self::NewKey | Self::Memory)
    }

    /// Whether there are enough keys that most checks miss the cache, the case for batches.
    #[must_use]
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::Zipf1M | Self::Zipf1MScattered | Self::Uniform10M | Self::NewKey)
    }

    /// Whether keys lie at addresses that have nothing to do with the order in which they are
    /// asked for; those of the other workloads lie in that order.
    #[must_use]
    pub const fn is_scattered(self) -> bool {
        matches!(self, Self::Zipf1MScattered)
    }

    /// Whether algorithms other than the usual quota run it. Where keys lie makes no difference
    /// between them.
    #[must_use]
    pub const fn is_of_algorithms(self) -> bool {
        self.is_repeated() && !self.is_scattered()
    }

    /// A plan under which up to `checks` checks after the warm-up have the outcome in the name.
    ///
    /// # Errors
    /// When there are more checks than a burst can hold.
    pub fn plan(self, keys: usize, checks: u64) -> Result<Plan, Failure> {
        match self {
            Self::HotDenied => Ok(Plan::denying(keys)),
            _ => Plan::allowing(keys, checks),
        }
    }
}

/// A quota and a warm-up under which every later check has the same outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Keys that are live throughout.
    pub keys: usize,
    /// The emission interval: the time per unit. A whole number of nanoseconds.
    pub interval: Duration,
    /// The burst in units.
    pub burst: NonZeroU32,
    /// Units charged to each key before the timed part.
    pub warm_up: NonZeroU32,
    /// Whether checks after the warm-up should be allowed.
    pub allowed: bool,
}

impl Plan {
    /// Every key stays live for at least this long without a check, so that none becomes fresh
    /// while others are measured, and its debt is exactly what it was charged less the time since.
    const LIVE_FOR: Duration = Duration::from_hours(1);
    /// The longest interval.
    const LONGEST_INTERVAL: Duration = Duration::from_mins(1);
    /// The maximum debt that all checks together add to one key: 2^56 ns, 2.3 years, half of what
    /// the engine supports.
    const MOST_DEBT: Duration = Duration::from_nanos(1 << 56);

    /// Units in addition to all checks, because threads may hold some unused in leases.
    const SPARE: u32 = 1_024;

    /// The share of the admitted units, as a divisor, that may be charged in addition but never
    /// used: with leases, the units that threads hold when they end.
    pub const IN_VAIN: u32 = 32;

    /// A plan under which `checks` checks are allowed, even if all are of one key.
    ///
    /// # Errors
    /// When there are more checks than a burst can hold.
    pub fn allowing(keys: usize, checks: u64) -> Result<Self, Failure> {
        let too_many = || Failure::SetUp(format!("{checks} checks do not fit in one burst"));
        let checks = u32::try_from(checks.max(1)).map_err(|_| too_many())?;
        let interval = (Self::MOST_DEBT / checks).min(Self::LONGEST_INTERVAL);
        let warm_up = Self::LIVE_FOR.as_nanos().div_ceil(interval.as_nanos());
        let warm_up = u32::try_from(warm_up).ok().and_then(NonZeroU32::new);
        let warm_up = warm_up.ok_or_else(too_many)?;
        let extra = [checks, checks / Self::IN_VAIN, Self::SPARE];
        let burst = extra.into_iter().try_fold(warm_up, NonZeroU32::checked_add);
        let burst = burst.ok_or_else(too_many)?;
        Ok(Self { keys, interval, burst, warm_up, allowed: true })
    }

    /// A plan under which the warm-up uses up the burst, for a day.
    ///
    /// The burst is more than one unit because not every peer enforces a burst of one.
    #[must_use]
    pub const fn denying(keys: usize) -> Self {
        const BURST: NonZeroU32 = NonZeroU32::new(2).unwrap();
        Self {
            keys,
            interval: Duration::from_hours(24),
            burst: BURST,
            warm_up: BURST,
            allowed: false,
        }
    }
}

#[cfg(test)]
#[path = "workloads_tests.rs"]
mod tests;
