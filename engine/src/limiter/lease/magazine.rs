//! Magazines: a thread-local cache of leased units, used without an atomic step.
//!
//! A check that uses a unit of a lease takes the next ones with it, in the same atomic step on the
//! entry, and the thread's next checks use these.
//!
//! # Which units are cached, and until when
//! Cached units are the first of those that the lease had left, so their intervals end by the start
//! of what remains in it. They are the thread's alone: no other thread finds them, so they are at
//! most [`MAX_CACHED`] and 1/[`CACHED_SHARE`] of the largest lease.
//!
//! They are valid while the lease's entry has the *epoch* that was read before they were taken. A
//! thread that lowers the key's word to below them revokes them: it gives the entry another epoch,
//! as does a thread that passes the entry to another key (`entry.rs`). No two entries ever have the
//! same epoch, so units of a limiter that was dropped are valid in no other. Besides, cached units
//! are void as leased ones are: those that have expired, and those that the word does not cover.
//!
//! # What is lost
//! Cached units are lost, that is, charged and never used, if the thread ends, if they are void, or
//! if the magazine is needed for another key or for another stripe's units. So a unit is cached
//! only for each [`BACKING`] units of leases of the key that the thread has used since it last lost
//! one.

use core::cell::Cell;

use crate::base::key::KeyHash;
use crate::rule::gcra::Gcra;

use super::block::Block;
use super::entry::LeaseEpoch;

/// The most units that a thread caches of a key.
pub(super) const MAX_CACHED: u64 = 31;

/// The largest share of the largest lease that a thread caches, as a divisor.
pub(super) const CACHED_SHARE: u64 = 4;

/// Units that a thread must have used for each unit it may cache: at most this share of what it
/// uses can be lost in magazines.
pub(super) const BACKING: u32 = 32;

/// A magazine passes to another key after it has been in other keys' way more often than this since
/// units were last taken.
const PATIENCE: u16 = 64;

/// A thread's magazines: the keys of which it can cache units at once.
const MAGAZINES: usize = 8;

/// No key's hash: none has a tag of 0.
const NO_KEY: KeyHash = KeyHash::from_parts(0, 0);

/// The units that are cached of one key of one limiter, and what backs them.
#[derive(Debug)]
#[repr(align(64))]
struct Magazine {
    /// [`NO_KEY`] until units are first cached.
    key: Cell<KeyHash>,
    epoch: Cell<u64>,
    end: Cell<u64>,
    stripe: Cell<u16>,
    /// How often it was in another key's way since units were last taken.
    passed: Cell<u16>,
    units: Cell<u32>,
    /// What `units` was after units were last taken, or counted: the difference was used since.
    taken: Cell<u32>,
    /// Units of leases of the key used since one was lost, without that difference.
    used: Cell<u32>,
    limiter: Cell<LimiterId>,
}

/// The limiter of which units are cached, by the address of its stripes. A later limiter may have
/// the same; their units differ by epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LimiterId(usize);

impl LimiterId {
    pub(super) fn at<T>(stripes: &[T]) -> Self {
        Self(stripes.as_ptr().addr())
    }
}

#[cfg(not(loom))]
thread_local! {
    static LOCAL: [Magazine; MAGAZINES] = const { [const { Magazine::new() }; MAGAZINES] };
}
#[cfg(loom)]
loom::thread_local! {
    static LOCAL: [Magazine; MAGAZINES] = [const { Magazine::new() }; MAGAZINES];
}

/// What the calling thread has cached of a key, out of an entry of some limiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedUnits {
    pub(super) stripe: usize,
    /// The entry's, read before the units were taken.
    pub(super) epoch: LeaseEpoch,
    /// With units or without.
    pub(super) block: Block,
}

impl CachedUnits {
    #[inline]
    pub(super) fn of(key: KeyHash) -> Option<Self> {
        Magazine::with(key, |magazine| (magazine.key.get() == key).then(|| magazine.cached()))
    }

    /// The units that are cached of an entry's lease of `key` and are right before what is left of
    /// it: all, or none if other threads have used units in between.
    #[inline]
    pub(super) fn before(gcra: &Gcra, lease: Block, key: KeyHash, epoch: LeaseEpoch) -> u64 {
        let is_before =
            |cached: &Self| cached.epoch == epoch && cached.block.end == lease.start(gcra);
        Self::of(key).filter(is_before).map_or(0, |cached| cached.block.units)
    }

    /// Leaves `units` of what is cached of `key`; the others have been used.
    #[inline]
    pub(super) fn leave(key: KeyHash, units: u64) {
        Magazine::with(key, |magazine| magazine.units.set(units as u32));
    }

    /// How many units of an entry with this epoch the thread may cache, now that it takes from the
    /// lease; `None` if it is to cache nothing new, because the magazine is another key's or
    /// another limiter's and not ready to pass.
    ///
    /// `joined` is how many of the cached units are usable with the lease. If that is not all of
    /// them, the others are void and this counts as a loss, after which there is no backing.
    pub(super) fn allowance(
        key: KeyHash,
        limiter: LimiterId,
        epoch: LeaseEpoch,
        joined: u64,
        backing: u32,
    ) -> Option<u64> {
        Magazine::with(key, |magazine| {
            if !magazine.is_of(key, limiter) {
                if !magazine.may_pass() {
                    return None;
                }
                magazine.pass_to(key, limiter);
            } else if magazine.holds(epoch, joined) {
                magazine.count_used();
            } else {
                magazine.lose();
            }
            Some(magazine.used.get().checked_div(backing).map_or(u64::MAX, u64::from))
        })
    }

    /// Has cached nothing of `key` any more: the units are back in the caller's lease, and not
    /// lost. What was used backs units of the entry's `epoch`.
    pub(super) fn put_back(key: KeyHash, epoch: LeaseEpoch) {
        Magazine::with(key, |magazine| {
            magazine.count_used();
            magazine.units.set(0);
            magazine.taken.set(0);
            magazine.epoch.set(epoch.get());
        });
    }

    /// Notes that leased units of `key` are lost: what is cached stays, and backs nothing.
    pub(super) fn lost(key: KeyHash) {
        Magazine::with(key, |magazine| {
            if magazine.key.get() == key {
                magazine.used.set(0);
                magazine.taken.set(magazine.units.get());
            }
        });
    }

    /// Caches this instead of what was cached, after a use of `cost` units of the lease. The
    /// magazine is the key's: see [`CachedUnits::allowance`].
    pub(super) fn take(self, key: KeyHash, cost: u64) {
        Magazine::with(key, |magazine| {
            let units = self.block.units as u32;
            magazine.epoch.set(self.epoch.get());
            magazine.end.set(self.block.end);
            magazine.stripe.set(self.stripe as u16);
            magazine.units.set(units);
            magazine.taken.set(units);
            magazine.passed.set(0);
            magazine.count(u32::try_from(cost).unwrap_or(u32::MAX));
        });
    }
}

impl Magazine {
    const fn new() -> Self {
        Self {
            key: Cell::new(NO_KEY),
            epoch: Cell::new(0),
            end: Cell::new(0),
            stripe: Cell::new(0),
            passed: Cell::new(0),
            units: Cell::new(0),
            taken: Cell::new(0),
            used: Cell::new(0),
            limiter: Cell::new(LimiterId(0)),
        }
    }

    fn is_of(&self, key: KeyHash, limiter: LimiterId) -> bool {
        self.key.get() == key && self.limiter.get() == limiter
    }

    /// Whether it holds `units` of an entry with this epoch, and no others.
    fn holds(&self, epoch: LeaseEpoch, units: u64) -> bool {
        self.epoch.get() == epoch.get() && u64::from(self.units.get()) == units
    }

    /// Counts that the magazine is in the way of another key, and returns whether it has been for
    /// long: keys that are checked about equally often do not lose each other's units.
    fn may_pass(&self) -> bool {
        let passed = self.passed.get() + 1;
        let may_pass = self.key.get() == NO_KEY || passed > PATIENCE;
        self.passed.set(if may_pass { 0 } else { passed });
        may_pass
    }

    /// Makes it another key's or limiter's; what it holds is lost.
    fn pass_to(&self, key: KeyHash, limiter: LimiterId) {
        self.key.set(key);
        self.limiter.set(limiter);
        self.lose();
    }

    /// Counts what was used of the units that were taken last.
    fn count_used(&self) {
        self.count(self.taken.get() - self.units.get());
        self.taken.set(self.units.get());
    }

    fn count(&self, units: u32) {
        self.used.set(self.used.get().saturating_add(units));
    }

    /// Drops what is cached, and what backed it.
    fn lose(&self) {
        self.units.set(0);
        self.taken.set(0);
        self.used.set(0);
    }

    #[inline]
    fn cached(&self) -> CachedUnits {
        CachedUnits {
            stripe: self.stripe.get().into(),
            epoch: LeaseEpoch::of(self.epoch.get()),
            block: Block { end: self.end.get(), units: self.units.get().into() },
        }
    }

    #[inline]
    fn index(key: KeyHash) -> usize {
        key.tag() as usize % MAGAZINES
    }

    /// Acts on the calling thread's magazine for `key`.
    #[inline]
    fn with<T>(key: KeyHash, act: impl FnOnce(&Self) -> T) -> T {
        LOCAL.with(|magazines| act(&magazines[Self::index(key)]))
    }
}

/// The magazines of one of several threads that a test plays on one thread.
#[cfg(all(test, not(any(loom, interleave))))]
#[derive(Debug)]
pub(super) struct Magazines([Magazine; MAGAZINES]);

#[cfg(all(test, not(any(loom, interleave))))]
impl Magazines {
    pub(super) fn empty() -> Self {
        Self([const { Magazine::new() }; MAGAZINES])
    }

    /// Exchanges these for the calling thread's.
    pub(super) fn swap(&self) {
        LOCAL.with(|local| {
            for (one, other) in local.iter().zip(&self.0) {
                one.key.swap(&other.key);
                one.epoch.swap(&other.epoch);
                one.end.swap(&other.end);
                one.stripe.swap(&other.stripe);
                one.passed.swap(&other.passed);
                one.units.swap(&other.units);
                one.taken.swap(&other.taken);
                one.used.swap(&other.used);
                one.limiter.swap(&other.limiter);
            }
        });
    }
}
