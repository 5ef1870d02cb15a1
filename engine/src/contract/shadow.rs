//! A limit in shadow: it decides and counts, and denies nothing.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use crate::base::decision::Decision;
use crate::base::key::{Key, KeyHash, KeyHasher};
use crate::base::shards::Shards;
use crate::contract::limit::{Limit, Receipt, Subject, answered, sealed::Sealed};
use crate::contract::observer::ObservedKey;
use crate::contract::reserve::Reservation;
use crate::contract::set::Ask;
use crate::time::Timestamp;

/// A limit that decides and counts, and never denies: to measure a limit before it is enforced.
///
/// It asks the limit that it wraps, charges it what fits, exactly as if the limit were enforced,
/// and counts what the limit decided. What the limit denies is answered as an admission after which
/// nothing remains, and is charged nothing (unless the limit
/// [charges what it denies](crate::limiter::LimiterBuilder::charge_denied)). So the counts are
/// those of the limit when it is enforced, as far as callers ask the same either way (denied
/// callers may come back) and no other shadow is in one set with it.
///
/// It is a [`Limit`], and goes wherever a limit goes: into a [`LimitSet`](crate::LimitSet), into
/// `tower::RequestLimit`, behind a `dyn Limit`. The limit's [`Observer`](crate::Observer) is
/// notified of what the limit decided. It wraps a limit by value, one that is shared
/// (`Arc<Limiter>`), and one whose kind is known only at run time (`Arc<dyn Limit>`,
/// `Box<dyn Limit>`).
///
/// * **In a set** it blocks nothing, and is charged and counted only if the others admit the set.
///   Of two shadows in one set, each is charged and counted as if the other admitted everything.
///   Enforced, neither is charged what the other denies, and so denies less: for exact counts,
///   enforce one before the next is measured.
/// * **A reservation** is always granted. Of one that the limit denied nothing is charged, whatever
///   it is settled on; any other is settled as usual.
/// * **In the tower layer** it adds no header fields. A request without a usable key passes it, and
///   is counted as [refused](ShadowCounts::refused).
///
/// Counting costs one addition, as in [`Counts`](crate::observer::Counts). What else the limit can
/// do is done by [`Shadow::limit`]: peeks, resets, snapshots.
///
/// # Rolling out a limit
/// Measure first, then enforce:
/// ```
/// use tidegate_engine::{LimitSet, Limiter, Quota, Shadow};
///
/// let enforced = Limiter::builder(Quota::per_minute(600)).build()?;
/// // What would 3 an hour deny?
/// let new = Shadow::new(Limiter::builder(Quota::per_hour(3)).build()?);
/// for _ in 0..5 {
///     let set = LimitSet::new([enforced.ask("user:42", 1), new.ask("user:42", 1)]);
///     assert!(set.check().is_allowed());
/// }
/// let counts = new.counts();
/// assert_eq!((counts.allowed, counts.denied), (3, 2));
///
/// // Few enough? Then enforce it: with `new` as a limiter, nothing else changes.
/// let new = new.into_inner();
/// let set = LimitSet::new([enforced.ask("user:42", 1), new.ask("user:42", 1)]);
/// assert!(!set.check().is_allowed());
/// # Ok::<(), tidegate_engine::BuildError>(())
/// ```
#[derive(Debug)]
// In this order, a shadow and its limit are at different addresses, by which sets distinguish
// limits.
#[repr(C)]
pub struct Shadow<L> {
    counts: Shards<EVENTS>,
    limit: L,
}

/// What a [`Shadow`] has decided. Each counter wraps after 2^64. Peeks and costs of 0 are not
/// counted.
///
/// Shards are added up one after another, so figures read during checks need not belong to one
/// instant; none ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShadowCounts {
    /// Calls that the limit admitted, whatever their cost.
    pub allowed: u64,
    /// Calls that the limit would have denied, whatever their cost.
    pub denied: u64,
    /// Requests that the tower layer would have refused without asking the limit, because their key
    /// is missing or unusable, or their quota cannot be enforced.
    pub refused: u64,
}

const EVENTS: usize = 3;
const ALLOWED: usize = 0;
const DENIED: usize = 1;
const REFUSED: usize = 2;

impl<L: Shadowed> Shadow<L> {
    /// A limit in shadow, with counts of 0: a [`Limit`] by value or in an [`Arc`], or a
    /// `Box<dyn Limit>`. Allocates 2 KiB.
    ///
    /// ```
    /// use tidegate_engine::rule::AnyRule;
    /// use tidegate_engine::Shadow;
    ///
    /// let rule: AnyRule = "2/h".parse()?; // from a configuration
    /// let new = Shadow::new(rule.limiter(100)?);
    /// assert!((0..3).all(|_| new.check("user:42").is_allowed()));
    /// assert_eq!(new.counts().denied, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Anything else is not a limit:
    /// ```compile_fail,E0277
    /// let shadow = tidegate_engine::Shadow::new("2/h");
    /// ```
    #[must_use]
    pub fn new(limit: L) -> Self {
        Self { limit, counts: Shards::new() }
    }
}

impl<L> Shadow<L> {
    /// The counts so far. O(1): a few dozen loads.
    #[must_use]
    pub fn counts(&self) -> ShadowCounts {
        ShadowCounts {
            allowed: self.counts.sum(ALLOWED),
            denied: self.counts.sum(DENIED),
            refused: self.counts.sum(REFUSED),
        }
    }

    /// The limit. What is asked of it directly is enforced, and not counted here.
    #[must_use]
    pub const fn limit(&self) -> &L {
        &self.limit
    }

    /// The limit, to be enforced from now on: its charges are those of the shadow.
    #[must_use]
    pub fn into_inner(self) -> L {
        self.limit
    }
}

impl<L: Shadowed> Shadow<L> {
    /// [`Shadow::check_n`] with a cost of 1.
    pub fn check(&self, key: impl Key) -> Decision {
        self.check_n(key, 1)
    }

    /// Asks for `cost` units and charges them if they fit; allowed in either case, and counted.
    /// Where they do not fit, nothing remains. A limit without keys takes every key for its only
    /// one.
    pub fn check_n(&self, key: impl Key, cost: u64) -> Decision {
        answered(self, self.decide(key, cost))
    }

    /// As [`Shadow::check_n`], with the answer that the limit would have given, which may be a
    /// denial: for logs.
    pub fn decide(&self, key: impl Key, cost: u64) -> Decision {
        self.check_key(&key, cost)
    }

    fn count(&self, cost: u64, decision: &Decision) {
        match (cost, decision.is_allowed()) {
            (0, _) => {}
            (_, true) => self.counts.count(ALLOWED),
            (_, false) => self.counts.count(DENIED),
        }
    }

    /// Reserves `cost` units, or nothing where they do not fit: see
    /// [`Limiter::reserve`](crate::Limiter::reserve).
    ///
    /// # Errors
    /// Never: what is to be enforced later has errors.
    pub fn reserve(&self, key: impl Key, cost: u64) -> Result<Reservation<'_>, Decision> {
        let subject = Subject::from(self.charged_key(key.hash_with(self.hasher())));
        Reservation::borrowed(self, subject, &key, cost)
    }

    /// `cost` units of `key`, to be asked for together with what other limits have to admit: see
    /// [`LimitSet`](crate::LimitSet).
    pub fn ask(&self, key: impl Key, cost: u64) -> Ask<'_> {
        Ask::new(self, key, cost)
    }
}

/// A limit as a shadow wraps it. Sealed: other crates cannot name it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no limit that can be in shadow",
    note = "a shadow wraps a `Limit`, an `Arc` of one, or a `Box<dyn Limit>`"
)]
pub trait Shadowed: Send + Sync {
    /// The limit itself.
    fn as_limit(&self) -> &dyn Limit;
}

impl<L: Limit> Shadowed for L {
    fn as_limit(&self) -> &dyn Limit {
        self
    }
}

impl<L: Limit> Shadowed for Arc<L> {
    fn as_limit(&self) -> &dyn Limit {
        &**self
    }
}

impl Shadowed for Arc<dyn Limit> {
    fn as_limit(&self) -> &dyn Limit {
        &**self
    }
}

impl Shadowed for Box<dyn Limit> {
    fn as_limit(&self) -> &dyn Limit {
        &**self
    }
}

impl<L> Sealed for Shadow<L> {}

/// Decisions are those of the limit; the caller answers them by `answered`.
impl<L: Shadowed> Limit for Shadow<L> {
    fn hasher(&self) -> &KeyHasher {
        self.limit.as_limit().hasher()
    }

    fn charged_key(&self, key: KeyHash) -> KeyHash {
        self.limit.as_limit().charged_key(key)
    }

    fn now(&self) -> Timestamp {
        self.limit.as_limit().now()
    }

    fn peek_at(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> Decision {
        self.limit.as_limit().peek_at(subject, cost, now)
    }

    fn try_charge(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> (Decision, Receipt) {
        self.limit.as_limit().try_charge(subject, cost, now)
    }

    fn charge_denied(&self, subject: Subject<'_>, cost: u64, now: Timestamp) -> Option<Decision> {
        self.limit.as_limit().charge_denied(subject, cost, now)
    }

    fn give_back(&self, subject: Subject<'_>, cost: u64, receipt: Receipt) -> Decision {
        self.limit.as_limit().give_back(subject, cost, receipt)
    }

    fn force_charge(&self, subject: Subject<'_>, cost: u64) -> Decision {
        self.limit.as_limit().force_charge(subject, cost)
    }

    fn refill_time(&self) -> Option<Duration> {
        self.limit.as_limit().refill_time()
    }

    fn notify(&self, key: ObservedKey<'_>, cost: u64, decision: &Decision) {
        self.count(cost, decision);
        self.limit.as_limit().notify(key, cost, decision);
    }

    fn check_key(&self, key: &dyn Key, cost: u64) -> Decision {
        let decision = self.limit.as_limit().check_key(key, cost);
        self.count(cost, &decision);
        decision
    }

    fn peek_key(&self, key: &dyn Key, cost: u64) -> Decision {
        self.limit.as_limit().peek_key(key, cost)
    }

    fn refund_key(&self, key: &dyn Key, cost: u64) -> bool {
        self.limit.as_limit().refund_key(key, cost)
    }

    fn is_shadow(&self) -> bool {
        true
    }

    fn count_refusal(&self) {
        self.counts.count(REFUSED);
        self.limit.as_limit().count_refusal();
    }
}
