//! Rate limits that are decided in nanoseconds, inside the process that asks. A check takes no
//! lock, does no I/O and allocates nothing; the state of a key is one 64-bit word.
//!
//! ```
//! use tidegate_engine::{Limiter, Quota};
//!
//! let limiter = Limiter::new(Quota::per_second(100).burst(20))?;
//! let decision = limiter.check("user:42");
//! assert!(decision.is_allowed() && decision.remaining() == 19);
//! # Ok::<(), tidegate_engine::BuildError>(())
//! ```
//!
//! # What to pick when
//!
//! | you want | take |
//! |---|---|
//! | a limit for each user, address or API key | [`Limiter`]; if unsure, with a [`Quota`] |
//! | one limit without keys | [`DirectLimiter`]; if it is very hot or must be exact, a [counter] |
//! | several limits for one request | [`LimitSet`]: all of them are charged, or none |
//! | limits in front of axum, tonic and the like | [`RateLimitLayer`](#in-front-of-a-server) |
//! | a quota for each customer or request | [`Limiter::with_quota`]; in the layer `RequestLimit::with_quotas` |
//! | a quota that changes while it is enforced | [`LiveQuota`] |
//! | to wait instead of being denied | [`Queue`]; for each key [`Limiter::acquire`]; for several limits [`LimitSet::acquire`] |
//! | a cost that is known only afterwards | [`Limiter::reserve`] |
//! | as much as fits; a share left to others | [`Limiter::check_up_to`]; [`Limiter::check_with_headroom`] |
//! | at most N at once, however long they take | [`Concurrency`] |
//! | a limit that a configuration chooses | [`AnyRule`](rule::AnyRule), such as `"100/m sliding"`; [`dyn Limit`](Limit) |
//! | to measure before it is enforced | [`Shadow`] of the limit |
//!
//! # What each guarantees
//!
//! A [`Quota`] is the fastest rule, and its guarantee holds for every interval. It and
//! [`LiveQuota`] are the [debt rules](rule::DebtRule): what a key has used is a debt, a duration,
//! which waiting, quotas given with the call and charges for denied checks need. Every rule of a
//! [`Limiter`] takes 20 bytes a key. All limits answer with the same [`Decision`].
//!
//! | you want | take | it guarantees | its price |
//! |---|---|---|---|
//! | a rate, with bursts: the usual choice | [`Quota`] | in `[s, t]` at most `burst + rate * (t - s)` | a period can see the burst on top: 120 in a minute, at 100 a minute with a burst of 20 |
//! | never more than N in *any* window | [`Quota::strict`] | exactly that | the sustained rate is `(N - burst) / window` |
//! | "N a minute" as people count it, smoothly | [`SlidingWindow`] | no step where windows meet | an estimate, whose worst case it states |
//! | a count that starts anew each minute, as many services keep it | [`FixedWindow`] | N in each window | up to 2 N around the end of one |
//! | a contract by the hour, day or month | [`CalendarWindow`] | N in each period of the calendar | up to 2 N around midnight |
//! | a quota that changes while it is enforced | [`LiveQuota`] | as [`Quota`]; a raise denies nothing it allows | a check takes up to twice as long; no leases |
//! | a key that is switched off, or limited by nothing | [`Quota::blocked`], [`Quota::unlimited`] | every cost above 0 is denied, or all are admitted | |
//! | one limit without keys | [`DirectLimiter`] | as its rule does | one cache line that all admitting threads write |
//! | one very hot counter | [`SubWindowCounter`](counter::SubWindowCounter), [`ShardedCounter`](counter::ShardedCounter) | never more than N in any window | a unit counts a little longer than the window |
//! | one limit without any error | [`SlidingLog`](counter::SlidingLog) | exactly N in any window | 8 to 16 bytes a unit of the limit |
//! | calls that wait instead of being denied | [`Queue`], [`Limiter::acquire`], [`LimitSet::acquire`] | starts are spaced by the quota, first come first served | callers wait |
//! | at most N at once, however long they take | [`Concurrency`] | permits come back on drop | no notion of time |
//! | one of these kinds, chosen at run time | [`dyn Limit`](Limit) | as the limit that it is | a call through a pointer, and one to the key |
//! | several limits for one request | [`LimitSet`] | all are charged, or none | not one instant: a check may meet units that are given back |
//! | a limit that is measured before it is enforced | [`Shadow`] of it | it decides and counts, and denies nothing | |
//!
//! # The parts
//!
//! A [`Quota`] or another [`Rule`] says how much, a [`Limiter`] enforces it for each key, and a
//! [`Decision`] is the answer. Keys are text, bytes, integers, an [`IpKey`] for an address (which
//! makes an IPv6 /64 one client), a [`KeyHash`], or pairs and triples of these; they need no set-up
//! and no clean-up. A limiter is shared by reference or in an `Arc`. The first limiter of a process
//! takes up to 200 ms to build, while its clock is calibrated.
//!
//! Rules read and print as text, for configurations and logs: `100/s`, `5/15m`, `1000/d burst 50`,
//! `100/m sliding`. [`AnyRule`](rule::AnyRule) states the grammar, and builds limits whose kind is
//! only known from a text.
//!
//! | operation | when |
//! |---|---|
//! | [`check`](Limiter::check), [`check_n`](Limiter::check_n) | before the work: takes the units if they fit |
//! | [`check_with_headroom`](Limiter::check_with_headroom) | a class of calls may use the limit only while a share is left for more important ones |
//! | [`check_up_to`](Limiter::check_up_to) | any part of the work can be done: takes as many units as fit, in one step |
//! | [`peek`](Limiter::peek), [`peek_n`](Limiter::peek_n) | to read what remains, and whether a cost would fit |
//! | [`reserve`](Limiter::reserve), then `commit(used)` | the cost is known only afterwards, its bound before: token budgets |
//! | [`charge`](Limiter::charge) | the cost has been spent already, whether or not it fits |
//! | [`refund`](Limiter::refund) | units were not used |
//! | [`acquire`](Limiter::acquire), [`enqueue`](Limiter::enqueue) | to wait instead of being denied; with a `Quota` or `LiveQuota` |
//! | [`with_quota`](Limiter::with_quota), then the same operations | the quota depends on the call, like the plan of a customer; with a `Quota` or `LiveQuota` |
//! | [`LimitSet::check`] | several limits at once, all of them charged or none |
//! | [`LimitSet::acquire`] | to wait until all of several limits admit |
//! | [`check_many`](Limiter::check_many), [`check_many_n`](Limiter::check_many_n) | a batch of keys, or of keys with a cost each: one reading of the clock, and one more for each new key |
//! | [`check_at`](Limiter::check_at) | at a time given by the caller: a recorded sequence |
//! | [`reset`](Limiter::reset) | to forgive |
//! | [`set_quota`](Limiter::set_quota) | another quota for all keys from now on; with a `LiveQuota`, also of a `DirectLimiter` |
//! | [`charge_debt`](Limiter::charge_debt), [`raise_debt`](Limiter::raise_debt), [`live`](Limiter::live) | to exchange debt with other limiters; with a `Quota` or `LiveQuota` |
//! | [`snapshot`](Limiter::snapshot), [`restore`](Limiter::restore) | to keep the state over a restart, under a [hasher](limiter::LimiterBuilder::hasher) whose seed is kept; also of limits without keys, except [`Concurrency`]; [`Snapshot`](snapshot::Snapshot) states the effect of a downtime |
//!
//! What must be settled later is a value: it is settled once, and a drop settles it too. `refund`
//! and `charge` keep no receipts; where the cost is settled after the fact, prefer `reserve`, which
//! cannot be misused.
//!
//! Choices of the builder:
//!
//! | choice | when |
//! |---|---|
//! | [`capacity`](limiter::LimiterBuilder::capacity) | other than about a million keys are live at once: 20 bytes each |
//! | [`overflow_policy`](limiter::LimiterBuilder::overflow_policy) | with more live keys than fit, new keys are to be denied, or admitted uncharged, instead of evicting the key with the least debt |
//! | [`clock`](limiter::LimiterBuilder::clock) | a check is to cost a load instead of a reading of the counter: a [`RecentClock`](clock::RecentClock), which reports its staleness; in tests a [`ManualClock`]; a field that holds either needs a [`SharedClock`](clock::SharedClock) |
//! | [`initial`](direct::DirectLimiterBuilder::initial) | a `DirectLimiter` is not to start with all units; also of a [`Queue`](Queue::initial) |
//! | [`warm_up`](direct::DirectLimiterBuilder::warm_up) | the rate of a `DirectLimiter` with a `Quota` is to grow to the whole at first, to spare a cold backend |
//! | [`charge_denied`](limiter::LimiterBuilder::charge_denied) | clients that keep retrying are to stay banned; with a `Quota` or `LiveQuota` |
//! | [`lease_units`](limiter::LimiterBuilder::lease_units) | several cores use one key: its admissions then scale with them; with a `Quota` |
//! | [`max_waiters`](limiter::LimiterBuilder::max_waiters) | fewer or more calls may wait in `acquire` at once; with a `Quota` or `LiveQuota` |
//! | [`observer`](limiter::LimiterBuilder::observer) | each decision of a `Limiter` or a `DirectLimiter` is to be observed: by an [`Observer`], such as a closure that logs which keys were denied, or [`Counts`](observer::Counts) |
//!
//! # What is guaranteed, and what concurrent callers may observe
//!
//! * **The limit holds for any number of threads.** A [`Limiter`] or [`DirectLimiter`] without
//!   leases decides in one atomic step on one word; the others state their steps. Every rule states
//!   its bound, and its error where it has one.
//! * **Contention is never an error**, and under one limit never a reason to deny, except for units
//!   that another thread is just moving to or from a lease or a block of a
//!   [`ShardedCounter`](counter::ShardedCounter). A thread that loses a race decides again, after a
//!   brief pause at most. Deciding is lock-free: a thread that is stopped anywhere keeps no other
//!   from it. Locks are taken by calls that wait, or give up a place, among each other; by
//!   [`Concurrency`] while calls wait for a permit; by concurrent changes of a [`LiveQuota`]; and
//!   by the built-in timer.
//! * **A decision describes one instant.** Others may have changed the key by the time `remaining`
//!   is read; `retry_after` is enough if no other call is admitted meanwhile.
//! * **A set of limits is all or nothing, not one instant.** While it takes from one limit after
//!   another, a concurrent check may be denied by units that are given back a moment later. No
//!   limit is exceeded at any time.
//! * **Time that stands still or runs backwards mints nothing on a key in the table.** It may deny.
//!   A key whose debt has drained may be forgotten. A thread whose clock is `d` behind may then
//!   admit up to `rate * d` beyond the guarantee, or the limit once more under a rule that counts
//!   in windows: see [`Limiter::check_at`]. With the default clock `d` is at most about 1 ms
//!   permanently, and below 136 ms until a processor whose counter is further behind is detected;
//!   see [`TscClock`](clock::TscClock).
//! * **Memory is fixed when a limiter is built.** Only calls that wait for a [`Concurrency`], or on
//!   the built-in timer, take some while they wait. When more keys are live than fit,
//!   [`OverflowPolicy`] decides and [`Limiter::overflow`] counts it; by default, keys that are
//!   being denied are evicted last.
//! * **An idle key is a fresh key**, exactly, from the moment its debt has drained.
//!
//! # Units, errors and panics
//!
//! Costs and limits are whole units in a `u64`; time is a [`Duration`](core::time::Duration),
//! counted in nanoseconds or finer. Arithmetic saturates and uses 128 bits where 64 do not suffice.
//! Denial is an answer, not an error; a cost that can never fit is denied at once with a
//! `retry_after` of `None`. Errors come from what the library is given, a rule that cannot be
//! enforced ([`BuildError`], [`QuotaError`]) or a snapshot that does not fit, and from memory that
//! cannot be allocated at construction. No input makes the library panic; waiting on the built-in
//! timer does if the operating system cannot start a thread for the timer.
//!
//! A value out of range is an error where something else would be enforced than what was asked for:
//! rules, windows, capacities, shards, trusted proxies. Where the end of the range serves as well,
//! the value is clamped, and the method says so.
//!
//! Operations that state no complexity are O(1), plus the hashing of a key; with leases a denial is
//! O(threads). [Counters and logs](counter) and a [`LimitSet`] state their own.
//!
//! # In front of a server
//!
//! With the feature `tower`; 429, `Retry-After`, the `RateLimit` header fields and a line that says
//! why are included. A quota can come with each request: `RequestLimit::with_quotas`. Without a
//! server, several limits at once are a [`LimitSet`].
//!
#![cfg_attr(feature = "tower", doc = "```")]
#![cfg_attr(not(feature = "tower"), doc = "```ignore")]
//! # mod axum { pub mod extract { #[derive(Clone)] pub struct ConnectInfo<T>(pub T); } }
//! use std::net::SocketAddr;
//!
//! use axum::extract::ConnectInfo;
//! use tidegate_engine::tower::{MissingKey, RateLimitLayer, RequestLimit, keys};
//! use tidegate_engine::{DirectLimiter, Limiter, Quota};
//!
//! fn limits() -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
//!     let per_address = Limiter::new(Quota::per_second(50))?;
//!     let per_key = Limiter::new(Quota::per_minute(600).burst(100))?;
//!     let in_all = DirectLimiter::new(Quota::per_second(10_000))?;
//!
//!     let peer = keys::peer_address(|extensions| {
//!         extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
//!     });
//!     Ok(RateLimitLayer::all([
//!         RequestLimit::new("per-address", per_address, peer),
//!         RequestLimit::new("per-key", per_key, keys::api_key())
//!             .missing_key(MissingKey::Share)
//!             .cost(|head| if head.method() == "POST" { 5 } else { 1 }),
//!         RequestLimit::shared("in-all", in_all),
//!     ]))
//! }
//! # limits()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In axum, `Router::new().route("/", get(hello)).layer(limits()?)` is all there is to add, with
//! `into_make_service_with_connect_info::<SocketAddr>()` where it is served; the examples `tenants`
//! and `tonic` in the repository are whole servers.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `std` (default) | the operating system's clocks, random seeds (so `Limiter::new` and `builder`), leases, `LiveQuota`, `Concurrency`, `ShardedCounter`, blocking waits, jitter |
//! | `acquire` (default) | waiting on a timer that needs no runtime |
//! | `serde` | rules and overflow policies in serialisations, as their text |
//! | `tower` | the module `tower`: a layer for axum, tonic and everything else that uses tower |
//!
//! Without `std` the crate needs `alloc`, atomics of 64 bits and a [`Clock`] of the caller:
//! `Limiter<Quota, MyClock>`. Name the clock there: the default,
//! [`DefaultClock`](clock::DefaultClock), has no value in that build. So a crate that does without
//! `std` still compiles when another one enables it.
#![warn(missing_docs)]
// The pages are those of all features. Without some, links to what they add are plain text.
#![cfg_attr(
    not(all(feature = "std", feature = "acquire")),
    allow(rustdoc::broken_intra_doc_links, rustdoc::private_intra_doc_links)
)]
#![cfg_attr(not(any(feature = "std", test, loom, interleave)), no_std)]

extern crate alloc;

mod base;
mod contract;
pub mod direct;
#[cfg(all(test, loom))]
mod explore;
#[cfg(interleave)]
mod interleave;
pub mod limiter;
pub mod rule;
mod table;
mod time;
#[cfg(all(feature = "tower", not(loom)))]
pub mod tower;

pub use base::address::IpKey;
pub use base::decision::Decision;
pub use base::headers;
pub use base::key::{Key, KeyHash, KeyHasher};
pub use contract::limit::Limit;
pub use contract::observer::Observer;
pub use contract::reserve::Reservation;
pub use contract::set::LimitSet;
pub use contract::shadow::Shadow;
#[cfg(feature = "std")]
pub use direct::concurrency::Concurrency;
pub use direct::limiter::DirectLimiter;
pub use direct::queue::Queue;
#[doc(inline)]
pub use limiter::Limiter;
pub use limiter::builder::BuildError;
#[doc(inline)]
pub use rule::Rule;
#[cfg(feature = "std")]
pub use rule::live::LiveQuota;
pub use rule::quota::{Quota, QuotaError};
pub use rule::window::{CalendarWindow, FixedWindow, SlidingWindow};
pub use table::overflow::OverflowPolicy;
pub use time::{Clock, ManualClock};

/// Points in time, and the clocks behind [`Clock`].
pub mod clock {
    #[cfg(feature = "std")]
    pub use crate::time::TscClock;
    pub use crate::time::{DefaultClock, SharedClock, Timestamp};
    #[cfg(all(feature = "std", not(loom)))]
    pub use crate::time::{MAX_UPKEEP_INTERVAL, MIN_UPKEEP_INTERVAL, RecentClock};
}

/// Permits of a [`Concurrency`].
#[cfg(feature = "std")]
pub mod concurrency {
    pub use crate::direct::concurrency::{MAX_CONCURRENCY, OwnedPermit, Permit};
}

/// Counters and logs: limits of one hot key, exact or nearly so in any window.
pub mod counter {
    pub use crate::direct::counter::{
        CounterError, DEFAULT_SUB_WINDOWS, MAX_COUNTER_WINDOW, MAX_LOG_UNITS, MAX_SUB_WINDOWS,
        SlidingLog, SubWindowCounter,
    };
    #[cfg(feature = "std")]
    pub use crate::direct::counter::{MAX_SHARDS, ShardedCounter, ShardedCounterBuilder};
}

/// Bounds of [keys](crate::Key), keys as they are printed, and hashers that change.
pub mod key {
    pub use crate::base::address::MAX_IPV6_PREFIX;
    pub use crate::base::key::{HasherSource, MAX_SHOWN_BYTES, ShownKey};
}

/// What an [`Observer`] is notified of, observers that are closures, one that counts, and what
/// limiters count without one.
pub mod observer {
    pub use crate::contract::counts::{Counts, DecisionCounts};
    pub use crate::contract::observer::{ObservedKey, from_fn};
    pub use crate::contract::shadow::ShadowCounts;
    pub use crate::table::overflow::OverflowCounts;
}

/// Asks, answers and reservations of a [`LimitSet`].
pub mod set {
    pub use crate::contract::set::{Ask, Blocked, SetDecision, SetReservation};
}

/// A [`Snapshot`](snapshot::Snapshot), its content, and the result of restoring it.
pub mod snapshot {
    pub use crate::contract::snapshot::{
        Fingerprint, RestoreError, Restored, SNAPSHOT_VERSION, SavedKey, SavedKeys, Snapshot,
        SnapshotError,
    };
    pub use crate::rule::saved::{SavedState, SnapshotKind};
}

/// Waiting instead of being denied: places in line, and timers to sleep by.
pub mod wait {
    #[cfg(feature = "acquire")]
    pub use crate::contract::wait::ThreadTimer;
    pub use crate::contract::wait::{DEFAULT_MAX_WAITERS, Deadline, Line, Timer, Turn, Wait};
}
