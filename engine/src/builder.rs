//! Building a limiter.

use core::fmt;

use crate::acquire::{DEFAULT_MAX_WAITERS, Waiters};
use crate::clock::{Clock, DefaultClock};
use crate::counter::CounterError;
use crate::gcra::Bucket;
use crate::key::KeyHasher;
use crate::limiter::{Limiter, Parts};
use crate::observer::Observer;
use crate::overflow::OverflowPolicy;
use crate::quota::{Quota, QuotaError};
use crate::rule::{Algorithm as _, Rule};
use crate::table::Table;
#[cfg(feature = "std")]
use crate::tsc::TscClock;

/// Keys that fit at once unless [`LimiterBuilder::capacity`] says otherwise.
pub const DEFAULT_CAPACITY: usize = 1 << 20;

/// The largest capacity, in keys: 2^36, a table of 1.25 TiB; where pointers have 32 bits 2^26, one of 1.25 GiB.
pub const MAX_CAPACITY: usize = 1 << if usize::BITS > 32 { 36 } else { 26 };

/// What a limiter is to be made of; see [`Limiter::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct LimiterBuilder<R = Quota, C = DefaultClock, O = ()> {
    rule: R,
    capacity: usize,
    hasher: Source<KeyHasher>,
    leases: u64,
    denied_bursts: u64,
    overflow: OverflowPolicy,
    max_waiters: u64,
    clock: Source<C>,
    observer: O,
}

/// Where a clock or a hasher comes from.
#[derive(Debug)]
pub(crate) enum Source<T> {
    /// Made when the limiter is.
    #[cfg_attr(
        not(feature = "std"),
        expect(dead_code, reason = "there is nothing to make it from")
    )]
    Made(fn() -> T),
    Given(T),
}

impl<T> Source<T> {
    pub(crate) fn get(self) -> T {
        match self {
            Self::Made(make) => make(),
            Self::Given(it) => it,
        }
    }
}

#[cfg(feature = "std")]
impl<R: Rule> LimiterBuilder<R> {
    pub(crate) fn new(rule: R) -> Self {
        Self::of(rule, Source::Made(TscClock::new), Source::Made(KeyHasher::random))
    }
}

impl<R: Rule, C: Clock> LimiterBuilder<R, C> {
    pub(crate) fn with(rule: R, clock: C, hasher: KeyHasher) -> Self {
        Self::of(rule, Source::Given(clock), Source::Given(hasher))
    }

    fn of(rule: R, clock: Source<C>, hasher: Source<KeyHasher>) -> Self {
        Self {
            rule,
            capacity: DEFAULT_CAPACITY,
            hasher,
            leases: 0,
            denied_bursts: 0,
            overflow: OverflowPolicy::default(),
            max_waiters: DEFAULT_MAX_WAITERS,
            clock,
            observer: (),
        }
    }
}

impl<R: Rule, C: Clock, O: Observer> LimiterBuilder<R, C, O> {
    /// How many keys shall fit at once, from 1 to [`MAX_CAPACITY`]; [`DEFAULT_CAPACITY`] unless
    /// set. A key takes 20 bytes at this fill; memory that no key has touched is only reserved.
    /// Small tables are rounded up to 13 107 keys (256 KiB).
    pub fn capacity(self, keys: usize) -> Self {
        Self { capacity: keys, ..self }
    }

    /// How keys are hashed; rapidhash under a random seed unless set. Limiters that exchange
    /// [`KeyHash`](crate::KeyHash)es need one hasher.
    pub fn hasher(self, hasher: KeyHasher) -> Self {
        Self { hasher: Source::Given(hasher), ..self }
    }

    /// What happens when a key finds no place because too many others have debt;
    /// [`OverflowPolicy::EvictLeastDebt`] unless set.
    pub fn overflow_policy(self, policy: OverflowPolicy) -> Self {
        Self { overflow: policy, ..self }
    }

    /// The clock to read; a new `TscClock` unless set.
    pub fn clock<D: Clock>(self, clock: D) -> LimiterBuilder<R, D, O> {
        self.convert(|_, observer| (Source::Given(clock), observer))
    }

    /// Who hears of each decision; nobody unless set.
    pub fn observer<P: Observer>(self, observer: P) -> LimiterBuilder<R, C, P> {
        self.convert(|clock, _| (clock, observer))
    }

    /// The same choices with another clock or observer, made of these.
    fn convert<D, P>(
        self,
        exchange: impl FnOnce(Source<C>, O) -> (Source<D>, P),
    ) -> LimiterBuilder<R, D, P> {
        let (clock, observer) = exchange(self.clock, self.observer);
        LimiterBuilder {
            rule: self.rule,
            capacity: self.capacity,
            hasher: self.hasher,
            leases: self.leases,
            denied_bursts: self.denied_bursts,
            overflow: self.overflow,
            max_waiters: self.max_waiters,
            clock,
            observer,
        }
    }

    /// Makes the limiter: the only step that allocates. O(capacity), most of it left to the operating system, which
    /// hands out zeroed pages as keys come. On the default clock blocks for up to 200 ms where it makes the first
    /// `TscClock` of the process.
    ///
    /// # Errors
    /// When the rule can not be enforced, the capacity is out of range, both leases and the charging of denied checks are
    /// asked for, or the memory is not to be had.
    pub fn build(self) -> Result<Limiter<R, C, O>, BuildError> {
        if self.capacity == 0 || self.capacity > MAX_CAPACITY {
            return Err(BuildError::Capacity);
        }
        if self.leases > 0 && self.denied_bursts > 0 {
            return Err(BuildError::LeasesBesideChargeDenied);
        }
        let clock = self.clock.get();
        let rule = self.rule.anchor(clock.now());
        let algorithm = rule.algorithm()?;
        let table = Table::new(self.capacity, algorithm.state()).ok_or(BuildError::OutOfMemory)?;
        Ok(Limiter::from_parts(Parts {
            rule,
            hasher: self.hasher.get(),
            clock,
            table: table.with_policy(self.overflow),
            leases: R::charging_denied(&algorithm, self.denied_bursts)
                .or_else(|| R::leases(&algorithm, self.leases)),
            algorithm,
            observer: self.observer,
            waiters: Waiters::new(self.max_waiters),
        }))
    }
}

impl<R: Rule<Algorithm: Bucket>, C: Clock, O: Observer> LimiterBuilder<R, C, O> {
    /// For limiters with a [`Quota`] or a `LiveQuota`: charges denied checks too, so that a client that keeps hammering stays
    /// banned. `bursts` is how many full bursts of debt a key can owe beyond its burst that way; 0, the default, leaves
    /// denied checks free. A [`Single`](crate::Single) has no such choice.
    ///
    /// A check that is denied adds its cost to the debt of the key, in the same step that denies it, until the
    /// debt is `bursts` bursts beyond the burst, or [`MAX_BURST_TOLERANCE`](crate::MAX_BURST_TOLERANCE). A key
    /// that is asked for faster than its rate is never admitted again; one that falls silent is admitted
    /// after at most the time in which `bursts` bursts and the cost are granted. `retry_after` counts what the
    /// denial itself was charged. A cost above the burst never fits and is not charged.
    ///
    /// The price: a denial writes to the word of its key, so denied traffic on one key no longer scales
    /// with cores. [`LimiterBuilder::lease_units`] beside it is an error. Checks under a quota given with the call are
    /// charged alike, by the bursts of that quota.
    ///
    /// A reservation that is denied is charged alike. So is what is denied to a [`LimitSet`](crate::LimitSet), and by a layer
    /// of the feature `tower`, by each limit that has no room itself; those of the set that have room charge nothing.
    /// Those who wait in line are not charged for being denied: [`Limiter::acquire`](crate::Limiter::acquire) and
    /// its kind say how long they would have waited, and whom they deny is told when the same call is accepted.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tidegate_engine::{Limiter, ManualClock, Quota};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder(Quota::per_second(1)).charge_denied(2).clock(clock.clone()).build()?;
    /// assert!(limiter.check("login:42").is_allowed());
    /// for _ in 0..10 {
    ///     assert!(!limiter.check("login:42").is_allowed());
    ///     clock.advance(Duration::from_millis(500));
    /// }
    /// let wait = limiter.check("login:42").retry_after();
    /// assert_eq!(wait, Some(Duration::from_secs(3)));
    /// # Ok::<(), tidegate_engine::BuildError>(())
    /// ```
    pub fn charge_denied(self, bursts: u64) -> Self {
        Self { denied_bursts: bursts, ..self }
    }

    /// For limiters with a [`Quota`] or a `LiveQuota`: how many callers may wait in [`Limiter::acquire`] and its twins at
    /// once, over all keys; [`DEFAULT_MAX_WAITERS`](crate::DEFAULT_MAX_WAITERS) unless set. Who would be one more is
    /// denied at once. With 0 nobody waits.
    pub fn max_waiters(self, count: u64) -> Self {
        Self { max_waiters: count, ..self }
    }
}

#[cfg(feature = "std")]
impl<C: Clock, O: Observer> LimiterBuilder<Quota, C, O> {
    /// For limiters with a [`Quota`]: lets threads lease up to `units` of a hot key at once, at most
    /// [`MAX_LEASE_UNITS`](crate::MAX_LEASE_UNITS); 0, no leases, unless set. With
    /// [`charge_denied`](Self::charge_denied) they are an error. Several hundred let threads that check one key side by side
    /// hardly meet; see [`Limiter`], "Leases", for what changes.
    ///
    /// Only [`Limiter::check`], `check_n`, `check_at` and `check_many` use leases. Reservations, sets
    /// ([`LimitSet`](crate::LimitSet)), `acquire` and its kind, [`Limiter::with_quota`] and the layers of the feature `tower`
    /// never do: they ask the key's word, in which leased units count as taken.
    ///
    /// All leases of a key together are at most 1/16 of its burst, and what each thread holds in hand beside them is at
    /// most 1/4 of the largest lease and 31 units. The share of one thread follows from that and from how many threads
    /// run at once, and where it is below 4 units there are no leases: [`Limiter::lease_units`] tells what has come of
    /// it.
    ///
    /// Every other check then also looks into its thread's part of 4 KiB, which makes one of a cold
    /// key, or of a key that is denied, slower by roughly a fifth. For limits with keys that
    /// several threads check millions of times a second.
    pub fn lease_units(self, units: u64) -> Self {
        Self { leases: units, ..self }
    }
}

/// Why a limiter can not be built. The errors of limits without keys convert into it, so that a function that builds several
/// limits of any kind can return it.
///
/// ```
/// use core::time::Duration;
/// use tidegate_engine::{BuildError, Limiter, Quota, Single, SubWindowCounter};
///
/// fn limits() -> Result<(Limiter, Single, SubWindowCounter), BuildError> {
///     let per_user = Limiter::new(Quota::per_second(50))?;
///     let in_all = Single::new(Quota::per_second(10_000))?;
///     let per_day = SubWindowCounter::new(1_000_000, Duration::from_hours(24))?;
///     Ok((per_user, in_all, per_day))
/// }
/// # limits()?;
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The quota, or another rule, can not be enforced.
    Quota(QuotaError),
    /// The counter or the log can not be made.
    Counter(CounterError),
    /// The capacity is 0 or above [`MAX_CAPACITY`].
    Capacity,
    /// Both `lease_units` and [`charge_denied`](LimiterBuilder::charge_denied) are asked for; a limiter does one of them.
    LeasesBesideChargeDenied,
    /// The table's memory could not be allocated.
    OutOfMemory,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(error) => write!(f, "quota: {error}"),
            Self::Counter(error) => write!(f, "counter: {error}"),
            Self::Capacity => write!(f, "capacity must be from 1 to {MAX_CAPACITY} keys"),
            Self::LeasesBesideChargeDenied => {
                f.write_str("leases and charge_denied do not go together")
            }
            Self::OutOfMemory => f.write_str("the table's memory could not be allocated"),
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Quota(error) => Some(error),
            Self::Counter(error) => Some(error),
            Self::Capacity | Self::LeasesBesideChargeDenied | Self::OutOfMemory => None,
        }
    }
}

impl From<QuotaError> for BuildError {
    fn from(error: QuotaError) -> Self {
        Self::Quota(error)
    }
}

impl From<CounterError> for BuildError {
    fn from(error: CounterError) -> Self {
        Self::Counter(error)
    }
}
