//! A rate limiter that decides in nanoseconds inside the process that asks: no lock, no I/O and no allocation in a
//! check, one 64-bit word of state a key.
//!
//! # A first limiter
//!
//! ```
//! use tidegate_engine::{Limiter, Quota};
//!
//! let limiter = Limiter::new(Quota::per_second(100).burst(20))?;
//! let decision = limiter.check("user:42");
//! if !decision.is_allowed() {
//!     println!("try again in {:?}", decision.retry_after());
//! }
//! # Ok::<(), tidegate_engine::BuildError>(())
//! ```
//!
//! A [`Quota`] says how much, a [`Limiter`] applies it to each key on its own, and a [`Decision`] is the answer. Keys are
//! text, bytes, integers, an [`IpKey`] for an address (under which an IPv6 /64 is one client), a [`KeyHash`], or pairs and triples
//! of these; they need no set-up and no clean-up. The limiter is
//! shared by reference or in an `Arc`. Denial is an answer, not an error. Errors come from what is given to the library: a
//! rule or quota that can not be enforced, a snapshot that does not fit; and from memory that is not to be had when something
//! is built. The first limiter of a process takes up to 200 ms to build, in which its clock is calibrated.
//!
//! # Which algorithm when
//!
//! All of them answer with the same [`Decision`].
//!
//! | you want | take | it guarantees | its price |
//! |---|---|---|---|
//! | a rate, with bursts: the usual choice | [`Quota`] | in `[s, t]` at most `burst + rate * (t - s)` | a period can see the burst on top: 120 in a minute, at 100 a minute with a burst of 20 |
//! | never more than N in *any* window | [`Quota::strict`] | exactly that | the sustained rate is `(N - burst) / window` |
//! | "N a minute" as people count it, smoothly | [`SlidingWindow`] | no step where windows meet | an estimate; its worst case is stated there |
//! | a count that starts anew each minute, as many services keep it | [`FixedWindow`] | N in each window | up to 2 N around the end of one |
//! | a contract by the hour, day or month | [`CalendarWindow`] | N in each period of the calendar | up to 2 N around midnight |
//! | one very hot counter, no keys | [`SubWindowCounter`], [`ShardedCounter`] | never more than N in any window | a unit counts a little longer than the window |
//! | no keys, no error at all | [`SlidingLog`] | exactly N in any window | 8 to 16 bytes a unit of the limit |
//! | one key, no table | [`Single`] | as its rule does | one cache line that all admitting threads write |
//! | a quota that changes while it is enforced | [`LiveQuota`] | as [`Quota`]; a raise denies nothing it allows | a check takes up to twice as long; no leases |
//! | a key that is switched off, or limited by nothing | [`Quota::blocked`], [`Quota::unlimited`] | every cost above 0 is denied, or all are admitted | |
//! | calls that wait for their turn | [`Queue`]; for each key [`Limiter::acquire`] | starts are spaced by the quota, first come first served | callers wait |
//! | at most N at once, however long they take | [`Concurrency`] | permits come back on drop | no notion of time |
//!
//! If you do not know, take [`Quota`]: it is the fastest, its state is the smallest, and its guarantee holds for every
//! interval. A rule in a [`Limiter`] takes 20 bytes a key.
//!
//! # What can be asked
//!
//! | operation | when |
//! |---|---|
//! | [`check`](Limiter::check), [`check_n`](Limiter::check_n) | before doing it: takes the units if they fit |
//! | [`peek`](Limiter::peek), [`peek_n`](Limiter::peek_n) | to look without taking: what is left, and whether a cost would fit |
//! | [`reserve`](Limiter::reserve), then `commit(used)` | the cost is known only afterwards, its bound before: token budgets |
//! | [`charge`](Limiter::charge) | it has been spent already, fit or not |
//! | [`refund`](Limiter::refund) | it was not used after all |
//! | [`acquire`](Limiter::acquire), [`enqueue`](Limiter::enqueue) | to wait for the turn instead of being denied; for limiters with a `Quota` or `LiveQuota` |
//! | [`charge_debt`](Limiter::charge_debt), [`raise_debt`](Limiter::raise_debt), [`live`](Limiter::live) | to exchange debt with other limiters; for limiters with a `Quota` or `LiveQuota` |
//! | [`LimitSet::check`] | several limits at once, all of them charged or none |
//! | [`with_quota`](Limiter::with_quota), then the same operations, or `ask` for a set | the quota is a matter of the call, as a plan a customer has bought; for limiters with a `Quota` or `LiveQuota` |
//! | [`check_many`](Limiter::check_many) | a batch of keys at one reading of the clock |
//! | [`check_at`](Limiter::check_at) | at a time of the caller's: a recorded sequence |
//! | [`reset`](Limiter::reset) | to forgive |
//! | [`set_quota`](Limiter::set_quota) | another quota for all keys from now on; for limiters with a `LiveQuota`, and of a `Single` |
//! | [`snapshot`](Limiter::snapshot), [`restore`](Limiter::restore) | to keep over a restart what every key has used, under a [hasher](LimiterBuilder::hasher) whose seed is kept, or a limiter without keys, but for [`Concurrency`]; [`Snapshot`] says what a downtime does |
//!
//! When the limiter is built, one can also ask for:
//!
//! | choice | when |
//! |---|---|
//! | [`capacity`](LimiterBuilder::capacity) | other than about a million keys are live at once: 20 bytes each |
//! | [`overflow_policy`](LimiterBuilder::overflow_policy) | with more live keys than fit, newcomers are to be denied, or admitted uncharged, instead of the key forgotten that owes least |
//! | [`clock`](LimiterBuilder::clock) | a check is to cost a load instead of a reading of the counter: a [`RecentClock`], which says how late it is; in tests a [`ManualClock`] |
//! | [`initial`](SingleBuilder::initial) | a `Single` is not to start with all there is; also of a [`Queue`](Queue::initial) |
//! | [`warm_up`](SingleBuilder::warm_up) | the rate of a `Single` with a `Quota` is to grow to the whole at first, to spare what is cold behind it |
//! | [`charge_denied`](LimiterBuilder::charge_denied) | who keeps hammering is to stay banned; for limiters with a `Quota` or `LiveQuota` |
//! | [`lease_units`](LimiterBuilder::lease_units) | several cores use up one key: what is allowed on it then scales with them; for limiters with a `Quota` |
//! | [`max_waiters`](LimiterBuilder::max_waiters) | fewer or more may wait in `acquire` at once; for limiters with a `Quota` or `LiveQuota` |
//! | [`observer`](LimiterBuilder::observer) | to hear of each decision of a `Limiter` or a `Single`: an [`Observer`] of yours, or [`Counts`] |
//!
//! What must be settled later is a value: it is settled once, and dropping it settles it too. `refund` and `charge` keep
//! no receipts; where the cost is settled after the fact, `reserve` is the one that can not be got wrong.
//!
//! # What is guaranteed, and what concurrent callers may observe
//!
//! * **The limit holds for any number of threads.** A [`Limiter`] or [`Single`] without leases decides in one atomic step on
//!   one word; the others state their steps. There is no moment between looking and taking. Every rule states its bound, and its
//!   error where it has one.
//! * **Contention is never an error**, and under one limit never a reason to deny, but for units that another thread is just
//!   moving to or from a lease or a block of a [`ShardedCounter`]. A thread that loses a race decides again, after a brief pause
//!   at most. Deciding is lock-free: a thread that is stopped anywhere keeps no other from it. Locks are taken by
//!   [`Concurrency`] while somebody waits for a permit, by changes of a [`LiveQuota`] among each other, and by the built-in timer
//!   of those who wait.
//! * **A decision describes one instant.** Others may have changed the key by the time you read `remaining`;
//!   `retry_after` is enough if nobody else is admitted meanwhile.
//! * **A set of limits is all or nothing, not one instant.** While it takes from one limit after another, a concurrent check
//!   may be denied by units that are given back a moment later. No limit is exceeded at any time.
//! * **Time that stands still or runs backwards mints nothing on a key that is remembered.** It may deny. A key whose debt has
//!   drained may be forgotten. A thread whose clock is `d` behind may then admit up to `rate * d` beyond the guarantee, or the
//!   limit once more under a rule that counts in windows: see [`Limiter::check_at`]. With the default clock `d` is about 1 ms
//!   at most for good, and below 136 ms until a processor whose counter is further behind is found out; see [`TscClock`].
//! * **Memory is fixed when a limiter is built.** Only who waits for a [`Concurrency`], or on the built-in timer, takes some
//!   for as long as it waits. When more keys are live than fit, [`OverflowPolicy`] says what happens and
//!   [`Limiter::overflow`] counts it; under the default, keys that are being denied are forgotten last.
//! * **An idle key is a fresh key**, exactly, from the moment its debt has drained.
//!
//! # Units, errors and panics
//!
//! Costs and limits are whole units in a `u64`; time is a [`Duration`](core::time::Duration), counted in nanoseconds or
//! finer. Arithmetic saturates and is done in 128 bits where 64 do not suffice. A cost that can never fit is denied at once
//! with a `retry_after` of `None`. Whether a rule can be enforced is found out when it meets a limiter ([`BuildError`],
//! [`QuotaError`]). No input makes the library panic; waiting
//! on the built-in timer does when the operating system has no thread for it.
//!
//! A value out of range is an error where something else would be enforced than what was asked for: rules, windows, capacities,
//! shards, trusted proxies. Where the end of the range does as well it is taken for that end, and the method says so:
//! more permits than [`MAX_CONCURRENCY`], a longer prefix than [`MAX_IPV6_PREFIX`], more than the burst to begin with, more than
//! 100 percent, a warm-up of more than [`MAX_WARM_UP`] (4.5 years), more leases than [`MAX_LEASE_UNITS`], a recent clock that is
//! kept up too rarely.
//!
//! What states no complexity is O(1), beside the hashing of a key; with
//! leases a denial is O(threads). A check of a [`SubWindowCounter`] or a [`ShardedCounter`] is O(1) mostly, and
//! O(sub-windows) when it denies, when it is the first of a sub-window, and while units that were given back late lie in the
//! window. That of a [`SlidingLog`] is O(1) mostly; a [`LimitSet`] states its own.
//!
//! # Several limits in front of a server
//!
//! With the feature `tower`; 429, `Retry-After` and the `RateLimit` header fields are included.
//!
#![cfg_attr(feature = "tower", doc = "```")]
#![cfg_attr(not(feature = "tower"), doc = "```ignore")]
//! # mod axum { pub mod extract { #[derive(Clone)] pub struct ConnectInfo<T>(pub T); } }
//! use std::net::SocketAddr;
//!
//! use axum::extract::ConnectInfo;
//! use tidegate_engine::tower::{MissingKey, RateLimitLayer, RequestLimit, keys};
//! use tidegate_engine::{Limiter, Quota, Single};
//!
//! fn limits() -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
//!     let per_address = Limiter::new(Quota::per_second(50))?;
//!     let per_key = Limiter::new(Quota::per_minute(600).burst(100))?;
//!     let in_all = Single::new(Quota::per_second(10_000))?;
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
//! `into_make_service_with_connect_info::<SocketAddr>()` where it is served; the repository's examples `axum` and `tonic` are
//! whole servers.
//!
//! Without a server the same is a [`LimitSet`]; its page has an example.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `std` (default) | the operating system's clocks, random seeds (so `Limiter::new` and `builder`), leases, `LiveQuota`, `Concurrency`, `ShardedCounter`, blocking waits, jitter |
//! | `acquire` (default) | waiting for a turn on a timer that needs no runtime |
//! | `tower` | the module `tower`: a layer for axum, tonic and whatever else speaks tower |
//!
//! Without `std` the crate needs `alloc`, atomics of 64 bits and a [`Clock`] of yours: `Limiter<Quota, MyClock>`. Name the clock
//! there: [`DefaultClock`], which stands where none is named, has no value in that build. So a crate that does without `std`
//! goes on compiling when another one turns it on.
#![warn(missing_docs)]
// The pages are those of all features. Without some, links to what they add are text.
#![cfg_attr(
    not(all(feature = "std", feature = "acquire")),
    allow(rustdoc::broken_intra_doc_links, rustdoc::private_intra_doc_links)
)]
#![cfg_attr(not(any(feature = "std", test, loom, interleave)), no_std)]

extern crate alloc;

mod acquire;
mod address;
mod backoff;
mod builder;
mod clock;
#[cfg(feature = "std")]
mod concurrency;
mod counter;
mod counts;
mod decision;
mod denied;
#[cfg(all(test, loom))]
mod explore;
mod gcra;
#[cfg(interleave)]
mod interleave;
mod key;
mod keyless;
#[cfg(feature = "std")]
mod lease;
mod limit;
mod limiter;
#[cfg(feature = "std")]
mod live;
mod observer;
mod overflow;
mod queue;
mod quota;
#[cfg(all(feature = "std", any(test, not(loom))))]
mod recent;
mod reserve;
mod rule;
mod set;
mod shards;
mod single;
mod snapshot;
mod sync;
mod table;
#[cfg(all(feature = "tower", not(loom)))]
pub mod tower;
#[cfg(feature = "std")]
mod tsc;
mod window;

#[cfg(feature = "acquire")]
pub use acquire::ThreadTimer;
pub use acquire::{DEFAULT_MAX_WAITERS, Line, Timer, Turn, Wait};
pub use address::{IpKey, MAX_IPV6_PREFIX};
pub use builder::{BuildError, DEFAULT_CAPACITY, LimiterBuilder, MAX_CAPACITY};
pub use clock::{Clock, DefaultClock, ManualClock, Timestamp};
#[cfg(feature = "std")]
pub use concurrency::{Concurrency, MAX_CONCURRENCY, OwnedPermit, Permit};
pub use counter::{
    CounterError, DEFAULT_SUB_WINDOWS, MAX_COUNTER_WINDOW, MAX_LOG_UNITS, MAX_SUB_WINDOWS,
    SlidingLog, SubWindowCounter,
};
#[cfg(feature = "std")]
pub use counter::{MAX_SHARDS, ShardedCounter, ShardedCounterBuilder};
pub use counts::{Counts, DecisionCounts};
pub use decision::Decision;
pub use key::{Key, KeyHash, KeyHasher};
#[cfg(feature = "std")]
pub use lease::MAX_LEASE_UNITS;
pub use limit::Limit;
pub use limiter::{Limiter, OwnedWithQuota, WithQuota};
#[cfg(feature = "std")]
pub use live::{Inheritance, LiveQuota};
pub use observer::Observer;
pub use overflow::{OverflowCounts, OverflowPolicy};
pub use queue::Queue;
pub use quota::{MAX_BURST_TOLERANCE, Quota, QuotaError};
#[cfg(all(feature = "std", not(loom)))]
pub use recent::{MAX_UPKEEP_INTERVAL, MIN_UPKEEP_INTERVAL, RecentClock};
pub use reserve::Reservation;
pub use rule::Rule;
pub use set::{Ask, Blocked, LimitSet, SetDecision, SetReservation};
pub use single::{MAX_WARM_UP, Single, SingleBuilder};
pub use snapshot::{
    Fingerprint, RestoreError, Restored, SNAPSHOT_VERSION, SavedKey, SavedKeys, SavedState,
    Snapshot, SnapshotError, SnapshotKind,
};
#[cfg(feature = "std")]
pub use tsc::TscClock;
pub use window::{CalendarWindow, FixedWindow, MAX_UTC_OFFSET_SECONDS, MAX_WINDOW, SlidingWindow};
