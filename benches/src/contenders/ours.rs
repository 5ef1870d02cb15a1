//! Tidegate's engine, in several calling styles.
//!
//! A variant is a style, the type of the keys and a hash: `recent`, `precise-u64`, `batch32-sip`.

use core::fmt::Debug;
use core::hint::black_box;
use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::time::Duration;
use std::hash::{BuildHasher as _, RandomState};

use tidegate_engine::clock::{RecentClock, TscClock};
use tidegate_engine::{Clock, Decision, Key, KeyHasher, Limiter, Quota};

use super::{Audited, Contender, Remarks};
use crate::failure::Failure;
use crate::script::CallKey;
use crate::workloads::{Plan, Workload};

/// The engine, called in one style with one key type and one hash.
#[derive(Debug)]
pub struct Ours<S: Style, K = String, H = Rapid> {
    limiter: Limiter<Quota, S::Clock>,
    setup: PhantomData<fn(K, H)>,
}

/// A clock and a calling style.
pub trait Style: Sync + Sized + 'static {
    /// The limiter's clock.
    type Clock: Clock + Sync + Debug;
    /// The style's name in reports.
    const NAME: &'static str;
    /// The largest lease of a hot key, in units; 0 for none.
    const LEASES: u64 = 0;

    /// A new clock.
    ///
    /// # Errors
    /// When it cannot be made.
    fn clock() -> Result<Self::Clock, Failure>;

    /// Takes one unit of each key; returns how many were allowed.
    #[inline]
    fn check_all<K: Key>(limiter: &Limiter<Quota, Self::Clock>, keys: &[K]) -> u64 {
        Self::check_each(limiter, keys.iter())
    }

    /// The same where the keys are scattered.
    #[inline]
    fn check_each<'k, K: Key + 'k>(
        limiter: &Limiter<Quota, Self::Clock>,
        keys: impl Iterator<Item = &'k K>,
    ) -> u64 {
        keys.map(|key| u64::from(check(limiter, black_box(key)))).sum()
    }

    /// Why the style is excluded from a workload, if it is.
    #[must_use]
    fn absence(_: Workload) -> Option<&'static str> {
        None
    }

    /// Remarks to publish with the style's figures.
    #[must_use]
    fn remarks(_: &Limiter<Quota, Self::Clock>) -> Remarks {
        Remarks::default()
    }
}

#[inline]
fn check<C: Clock, K: Key>(limiter: &Limiter<Quota, C>, key: &K) -> bool {
    black_box(limiter.check(key)).is_allowed()
}

/// For styles that differ from `precise` only in how the limiter is called.
const SAME_TABLE: &str = "it has the same table as precise";

/// Each check reads the time-stamp counter.
#[derive(Debug)]
pub struct Precise;

impl Style for Precise {
    type Clock = TscClock;
    const NAME: &'static str = "precise";

    fn clock() -> Result<TscClock, Failure> {
        Ok(TscClock::new())
    }
}

/// A shared clock word that an upkeep thread advances.
#[derive(Debug)]
pub struct Recent;

impl Recent {
    /// Leaves room for late wake-ups within a staleness of a millisecond, if the thread gets a
    /// processor.
    pub(super) const UPKEEP_INTERVAL: Duration = Duration::from_micros(200);
}

impl Style for Recent {
    type Clock = RecentClock;
    const NAME: &'static str = "recent";

    fn clock() -> Result<RecentClock, Failure> {
        RecentClock::start(Self::UPKEEP_INTERVAL)
            .map_err(|error| Failure::SetUp(format!("upkeep thread: {error}")))
    }

    fn absence(workload: Workload) -> Option<&'static str> {
        (workload == Workload::Memory).then_some(SAME_TABLE)
    }

    fn remarks(limiter: &Limiter<Quota, RecentClock>) -> Remarks {
        let staleness_us = Some(limiter.clock().staleness().as_micros() as u64);
        Remarks { staleness_us, ..Remarks::default() }
    }
}

/// [`Recent`], with threads that lease units of hot keys.
#[derive(Debug)]
pub struct Leased;

impl Style for Leased {
    type Clock = RecentClock;
    const NAME: &'static str = "leased";
    const LEASES: u64 = 1_024;

    fn clock() -> Result<RecentClock, Failure> {
        Recent::clock()
    }

    fn remarks(limiter: &Limiter<Quota, RecentClock>) -> Remarks {
        Remarks { lease_units: Some(limiter.lease_units()), ..Recent::remarks(limiter) }
    }
}

/// Batches of 32 keys, with one reading of the time-stamp counter per batch.
#[derive(Debug)]
pub struct Batch32;

const BATCH: usize = 32;

impl Style for Batch32 {
    type Clock = TscClock;
    const NAME: &'static str = "batch32";

    fn clock() -> Result<TscClock, Failure> {
        Ok(TscClock::new())
    }

    #[inline]
    fn check_all<K: Key>(limiter: &Limiter<Quota, TscClock>, keys: &[K]) -> u64 {
        let mut decisions = Vec::with_capacity(BATCH);
        let mut allowed = 0;
        for batch in keys.chunks(BATCH) {
            limiter.check_many(batch, &mut decisions);
            allowed += black_box(&decisions).iter().filter(|one| is_allowed(one)).count() as u64;
        }
        allowed
    }

    #[inline]
    fn check_each<'k, K: Key + 'k>(
        limiter: &Limiter<Quota, TscClock>,
        mut keys: impl Iterator<Item = &'k K>,
    ) -> u64 {
        let mut batch: Vec<&K> = Vec::with_capacity(BATCH);
        let mut decisions = Vec::with_capacity(BATCH);
        let mut allowed = 0;
        loop {
            batch.clear();
            batch.extend(keys.by_ref().take(BATCH));
            if batch.is_empty() {
                return allowed;
            }
            limiter.check_many(&batch, &mut decisions);
            allowed += black_box(&decisions).iter().filter(|one| is_allowed(one)).count() as u64;
        }
    }

    fn absence(workload: Workload) -> Option<&'static str> {
        match workload {
            Workload::Memory => Some(SAME_TABLE),
            _ if workload.is_hot() => Some("a batch that names one key 32 times is no use case"),
            _ => None,
        }
    }
}

#[inline]
fn is_allowed(decision: &Decision) -> bool {
    decision.is_allowed()
}

/// How keys are hashed.
pub trait Hashing: 'static {
    /// The suffix of the variant's name.
    const SUFFIX: &'static str;

    /// The hasher of a limiter; `None` for the engine's default.
    fn hasher() -> Option<KeyHasher>;
}

/// The engine's default: rapidhash under a random seed.
#[derive(Debug)]
pub struct Rapid;

impl Hashing for Rapid {
    const SUFFIX: &'static str = "";

    fn hasher() -> Option<KeyHasher> {
        None
    }
}

/// SipHash-1-3-128 under a secret from the operating system's randomness.
#[derive(Debug)]
pub struct Sip;

impl Hashing for Sip {
    const SUFFIX: &'static str = "-sip";

    fn hasher() -> Option<KeyHasher> {
        let random = RandomState::new();
        let halves = [random.hash_one(0_u8), random.hash_one(1_u8)];
        let secret = (u128::from(halves[0]) << 64) | u128::from(halves[1]);
        Some(KeyHasher::siphash(secret.to_ne_bytes()))
    }
}

impl<S: Style, K: CallKey + Key, H: Hashing> Contender for Ours<S, K, H> {
    const NAME: &'static str = "ours";
    type Key = K;

    fn variant() -> Option<String> {
        Some([S::NAME, K::SUFFIX, H::SUFFIX].concat())
    }

    fn absence(workload: Workload) -> Option<&'static str> {
        S::absence(workload)
    }

    fn build(plan: &Plan) -> Result<Self, Failure> {
        let quota = Quota::new(1, plan.interval).burst(plan.burst.get().into());
        let builder =
            Limiter::builder(quota).capacity(plan.keys).lease_units(S::LEASES).clock(S::clock()?);
        let builder = match H::hasher() {
            Some(hasher) => builder.hasher(hasher),
            None => builder,
        };
        let limiter = builder
            .build()
            .map_err(|error| Failure::SetUp(format!("{}: {error}", Self::label())))?;
        Ok(Self { limiter, setup: PhantomData })
    }

    #[inline]
    fn check(&self, key: &K) -> bool {
        check(&self.limiter, key)
    }

    #[inline]
    fn check_all(&self, keys: &[K]) -> u64 {
        S::check_all(&self.limiter, keys)
    }

    #[inline]
    fn check_each<'k>(&self, keys: impl Iterator<Item = &'k K>) -> u64 {
        S::check_each(&self.limiter, keys)
    }

    fn admit(&self, key: &K, units: NonZeroU32) -> bool {
        self.limiter.check_n(key, units.get().into()).is_allowed()
    }

    fn live_keys(&self) -> Option<usize> {
        Some(self.limiter.live().count())
    }
}

impl<S: Style, K: CallKey + Key, H: Hashing> Audited for Ours<S, K, H> {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.limiter.clock().now().as_nanos())
    }

    fn debt(&self, key: &K) -> Duration {
        // Leased units are charged but not admitted.
        let leased = self.limiter.quota().debt_of(self.limiter.leased(key));
        self.limiter.peek(key).reset_after().saturating_sub(leased)
    }

    fn evicted(&self) -> u64 {
        self.limiter.evicted()
    }

    fn charges_in_vain(&self) -> bool {
        self.limiter.lease_units() > 0
    }

    fn remarks(&self) -> Remarks {
        S::remarks(&self.limiter)
    }
}
