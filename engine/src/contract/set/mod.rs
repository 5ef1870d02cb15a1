//! Several limits asked at once: all of them charge, or none does.
//!
//! # How
//! A set first *peeks* at all its limits and charges nothing, so the common denial writes nothing.
//! If all have room it *takes* from one after another, and if one denies it gives back what it
//! took. Asks of one key of one limit under one quota are peeked at for their sum, and taken and
//! settled as one charge. Each step is that of one limit: there is no lock and no retry, and a
//! thread that is stopped between two steps never keeps another from deciding.
//!
//! # Why the order of taking matters
//! All sets take in one order, by limit and then by key. Say a set is denied in the middle. The
//! room it lacks was taken by a check or by another set since the peek; if that set is denied as
//! well, then at a later rank in the order, and so on: the chain ends at one that is admitted. In
//! any other order two sets could each take what the other one needs, and both be denied.
//!
//! A key under two quotas is two charges at one rank of the order. So the argument holds for sets
//! that ask no key under two quotas. A set that does may be denied by its own first charge, and two
//! such sets may each take what the second charge of the other one needs.

mod acquire;
mod ask;
mod decision;
#[cfg(all(test, loom))]
mod models;
mod places;
mod reservation;

use core::fmt;
use core::marker::PhantomData;

pub use ask::Ask;

use ask::Rank;
pub use decision::{Blocked, SetDecision};
pub use reservation::SetReservation;

/// What one request asks of several limits, with different algorithms, keys and costs: it is
/// admitted if all of them admit it, and else charged to none.
///
/// Made of any number of [`Ask`]s in an array, a `Vec`, or a mutable slice; with an array nothing
/// is allocated. The same limit and key may occur more than once, and must then have room for the
/// sum of the costs, which is one charge. An ask of cost 0 takes nothing and blocks only where a
/// [peek](crate::Limiter::peek) is denied. A set of no asks is admitted.
///
/// # Guarantees
/// * No limit is ever exceeded: each unit is admitted by its own limit, and counts there from then
///   on. Each ask has all guarantees of a check of its [`Limiter`](crate::Limiter).
/// * A set that is denied has charged nothing once the call returns, and in the common case charges
///   nothing at any time. The one exception is opt-in: a limiter with
///   [`charge_denied`](crate::limiter::LimiterBuilder::charge_denied) that has no room itself
///   charges the denial to its key, as for a single check; limits that had room are charged
///   nothing. (A key that was evicted to make room for a charge that is given back stays evicted.)
/// * While a set takes from one limit after another, a concurrent check may be denied by units that
///   the set gives back a moment later, because another of its limits has just run out. So a set
///   may be denied although, one after another, all would have been admitted. Of sets that compete
///   for last units, and with no other calls, at least one is admitted, if none of them asks a key
///   [under two quotas](LimitSet#one-key-under-two-quotas).
/// * Giving back is exact, as [`Reservation`](crate::Reservation) states it. So what a denied set
///   has taken from a key stays charged, until it has drained, if a caller has joined the line of
///   that key in the meantime ([`Limiter::acquire`](crate::Limiter::acquire)).
/// * Lock-free: a thread that is stopped in the middle of a set leaves what it has taken so far
///   charged, and keeps no other from deciding.
///
/// Each limit is decided at its own clock's reading and by the word of its key; on limiters with
/// leases, what threads have leased counts as taken. O(n) steps on tables, and O(n^2) comparisons
/// of asks.
///
/// # One key under two quotas
/// Asks of one key under different quotas ([`WithQuota::ask`](crate::limiter::WithQuota::ask)),
/// where one may be that of the limiter, are one charge per quota, in the order in which the quotas
/// first occur in the set. Each charge must fit on top of those before it, which are all debt of
/// the one key. No quota admits beyond its burst, and the set is still all or nothing. But:
/// * The order of the asks may decide. What fits in any order fits in the order of the times in
///   which the bursts refill, shortest first (10 of `per_second(10)` take one second, and come
///   before 2 of `per_second(1)`).
/// * A peek, also that of [`LimitSet::peek`], considers each quota by itself: a check may deny what
///   it allows even without other callers, and the wait it reports may be too short.
/// * The wait of such a denial is what the denied quota lacked on top of the charges before it. If
///   the charges do not fit together even on a fresh key, no wait helps, though one is reported.
///
/// # What stays outside
/// A [`SlidingLog`](crate::counter::SlidingLog) cannot take a charge back, and a permit of
/// `Concurrency` is held, not spent; so neither can be part of a set. Take the permit first; it
/// returns on drop if the set denies. Ask the log last, while the set is only reserved. Then
/// nothing stays charged here either:
/// ```
/// # use tidegate_engine::concurrency::Permit;
/// # use tidegate_engine::counter::SlidingLog;
/// # use tidegate_engine::{Concurrency, DirectLimiter, LimitSet, Quota};
/// # fn admit<'c>(
/// #     uploads: &'c Concurrency,
/// #     in_all: &DirectLimiter,
/// #     log: &SlidingLog,
/// # ) -> Option<Permit<'c>> {
/// let permit = uploads.try_acquire(1).ok()?;
/// let reserved = LimitSet::new([in_all.ask(1)]).reserve().ok()?;
/// log.check().is_allowed().then(|| reserved.keep())?; // else dropped: all is given back
/// # Some(permit)
/// # }
/// # let (uploads, in_all) = (Concurrency::new(2), DirectLimiter::new(Quota::per_hour(2))?);
/// # let log = SlidingLog::new(1, std::time::Duration::from_secs(3_600))?;
/// # assert!(admit(&uploads, &in_all, &log).is_some() && admit(&uploads, &in_all, &log).is_none());
/// # assert_eq!((uploads.in_flight(), in_all.peek().remaining()), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Per user, per address and for all
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use std::time::Duration;
/// use tidegate_engine::{DirectLimiter, IpKey, LimitSet, Limiter, Quota};
///
/// struct Limits {
///     per_user: Limiter,
///     per_address: Limiter,
///     in_all: DirectLimiter,
/// }
///
/// impl Limits {
///     fn new() -> Result<Self, Box<dyn std::error::Error>> {
///         Ok(Self {
///             per_user: Limiter::builder(Quota::per_minute(100).burst(20)).build()?,
///             per_address: Limiter::builder(Quota::per_second(50)).build()?,
///             in_all: DirectLimiter::new(Quota::per_second(10_000))?,
///         })
///     }
///
///     /// Admits a request of `cost` units, or returns how long to wait.
///     fn admit(&self, user: &str, address: IpAddr, cost: u64) -> Result<u64, Option<Duration>> {
///         let decision = LimitSet::new([
///             self.per_user.ask(user, 1).named("per-user"),
///             self.per_address.ask(IpKey::from(address), 1).named("per-address"),
///             self.in_all.ask(cost).named("in-all"),
///         ])
///         .check();
///         if let Some(blocked) = decision.blocked() {
///             println!("blocked by {}", blocked.name());
///             return Err(decision.retry_after()); // `None`: never, the cost exceeds a limit
///         }
///         Ok(decision.tightest().map_or(u64::MAX, |tightest| tightest.remaining()))
///     }
/// }
///
/// let (limits, address) = (Limits::new()?, IpAddr::V4(Ipv4Addr::LOCALHOST));
/// assert_eq!(limits.admit("user:42", address, 10), Ok(19));
/// assert_eq!(limits.admit("user:42", address, 20_000), Err(None));
/// assert_eq!(limits.per_user.peek("user:42").remaining(), 19);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a set does nothing until `check`, `reserve` or `acquire`"]
pub struct LimitSet<'l, A> {
    asks: A,
    limits: PhantomData<Ask<'l>>,
}

impl<'l, A: AsRef<[Ask<'l>]> + AsMut<[Ask<'l>]>> LimitSet<'l, A> {
    /// A set of asks: `[Ask; N]`, `Vec<Ask>` or `&mut [Ask]`.
    pub fn new(asks: A) -> Self {
        Self { asks, limits: PhantomData }
    }

    /// Takes everything if all of it fits, else nothing.
    pub fn check(mut self) -> SetDecision<'l, A> {
        take(self.asks.as_mut());
        SetDecision::new(self.asks)
    }

    /// What [`LimitSet::check`] would find, without charging anything.
    ///
    /// Each limit is read at its own moment. A key [under two
    /// quotas](LimitSet#one-key-under-two-quotas) is read under each by itself: a check denies what
    /// is denied here, but may also deny what is allowed here.
    pub fn peek(mut self) -> SetDecision<'l, A> {
        let asks = self.asks.as_mut();
        peek_each(asks);
        for ask in asks {
            ask.notify(0);
        }
        SetDecision::new(self.asks)
    }

    /// Takes everything if all of it fits, and hands out the right to give back what is not used: a
    /// [`Reservation`](crate::Reservation) of several limits.
    ///
    /// # Errors
    /// The denial when not all fits; nothing is charged then, as [`LimitSet`] states it.
    pub fn reserve(mut self) -> Result<SetReservation<'l, A>, SetDecision<'l, A>> {
        if take(self.asks.as_mut()) {
            Ok(SetReservation::new(self.asks))
        } else {
            Err(SetDecision::new(self.asks))
        }
    }
}

impl<'l, A: AsRef<[Ask<'l>]>> fmt::Debug for LimitSet<'l, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LimitSet").field(&self.asks.as_ref()).finish()
    }
}

/// Takes all or nothing, and notifies the observers.
fn take(asks: &mut [Ask<'_>]) -> bool {
    let admitted = match asks {
        // A single ask is decided in one step: there is nothing to give back.
        [ask] => ask.take_now(),
        _ => peek_or_deny(asks) && take_each(asks),
    };
    for ask in asks {
        // An ask that fitted in a set that did not was only peeked at.
        ask.notify(if admitted || !ask.fits() { ask.cost() } else { 0 });
    }
    admitted
}

/// Peeks at all asks; whether all fit.
fn peek_each(asks: &mut [Ask<'_>]) -> bool {
    for index in 0..asks.len() {
        let (earlier, rest) = asks.split_at_mut(index);
        if let Some(ask) = rest.first_mut() {
            ask.peek_with(earlier);
        }
    }
    asks.iter().all(Ask::fits)
}

/// Peeks at all asks; whether all fit. If not, the denials are charged.
fn peek_or_deny(asks: &mut [Ask<'_>]) -> bool {
    let fits = peek_each(asks);
    if !fits {
        deny(asks);
    }
    fits
}

/// Lets the limits without room charge their denials, if they charge denied checks: each key and
/// quota once, for the sum of its asks.
fn deny(asks: &mut [Ask<'_>]) {
    for index in 0..asks.len() {
        let (earlier, rest) = asks.split_at_mut(index);
        let Some((ask, later)) = rest.split_first_mut() else { return };
        let is_last = later.iter().all(|other| other.fits() || !other.is_as(ask));
        if !ask.fits() && is_last {
            ask.deny_with(earlier);
        }
    }
}

/// Takes from one limit after another, and gives back when one denies.
fn take_each(asks: &mut [Ask<'_>]) -> bool {
    let mut last = None;
    while let Some(next) = next_to_take(asks, last) {
        let index = next.index;
        let (earlier, rest) = asks.split_at_mut(index);
        let Some((ask, later)) = rest.split_first_mut() else { break };
        if !ask.take_with(earlier, later) {
            give_back(asks, index);
            return false;
        }
        last = Some(next);
    }
    true
}

/// When an ask is taken: after those of lower ranks, and earlier ones of the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TakeOrder {
    rank: Rank,
    index: usize,
}

/// The ask to take after the `last` one.
fn next_to_take(asks: &[Ask<'_>], last: Option<TakeOrder>) -> Option<TakeOrder> {
    let orders = asks.iter().enumerate().map(|(index, ask)| TakeOrder { rank: ask.rank(), index });
    orders.filter(|order| Some(*order) > last).min()
}

/// Gives back all that was taken before `denied`, and reads all limits again.
fn give_back(asks: &mut [Ask<'_>], denied: usize) {
    // Of the charges to one key under several quotas, the later one is given back first.
    for ask in asks.iter_mut().rev() {
        ask.give_back();
    }
    let denial = asks[denied].decision();
    peek_each(asks);
    // The sum was denied, and the last of the matching asks is peeked at for it.
    let sum = asks.iter().rposition(|ask| ask.is_as(&asks[denied])).unwrap_or(denied);
    if asks[sum].fits() {
        // The competing caller has given back as well: the denial holds nevertheless.
        asks[sum].insist(denial);
    }
}
